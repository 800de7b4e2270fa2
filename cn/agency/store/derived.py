"""Keep the index as a file beside the repository: caught up with main, or made anew.

It is valid if the commit that it names is main's tip, or an ancestor of it; whatever else it is (damaged, of another
cn, of a repository that was restored, not there) costs time alone.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from cn.agency.apply import apply
from cn.agency.events import EventRefused, parse_message
from cn.agency.rows import Facts
from cn.agency.store.filling import Filling
from cn.agency.store.index import VERSION, Index
from cn.agency.store.outcome_list import SIDES, is_plain
from cn.agency.store.repository import MAIN, Commit, Repository
from cn.values.errors import Blocked, CnError
from cn.values.shell_words import command

_LOOKS = 3
_PAGE = 8192
"""Bytes of a page (SQLite's own: 4096): a list of 10,000 outcomes reads half as many, in 2 ms less."""
_OF_THE_SYSTEM = ("SQLITE_BUSY", "SQLITE_CANTOPEN", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_NOMEM", "SQLITE_READONLY")
"""What SQLite says where the disk, or another process, is in the way (sqlite.org/rescode.html)."""


class OtherHistory(Exception):
    """The index is of no commit of main's history."""


class DerivedIndex:
    """The index of ``repository`` in its file, for one process.

    :meth:`current` is for who holds the lock, :meth:`reading` for anybody, and waits for nobody.
    """

    def __init__(self, repository: Repository) -> None:
        self.path, self.repository = repository.places.index_file, repository
        self._open: Index | None = None
        self._inode: tuple[int, int] | None = None

    def current(self, tip: Commit) -> Index:
        """The index as of ``tip``, for changes. Raises ``sqlite3.Error`` and ``OSError`` where none can be kept."""
        try:
            index = self._opened()
            if index is not None:
                with index.changing():
                    catch_up(index, self.repository, tip)
                return index
        except (sqlite3.DatabaseError, OtherHistory):
            self.close()
        self.rebuild(tip)
        index = self._opened()
        assert index is not None, "it was just made"
        return index

    def rebuild(self, tip: Commit) -> None:
        """Make the file anew from main's history, beside the old one, which goes then."""
        self.close()
        new = self.path.with_name(f"{self.path.name}.new")
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove(new)
        try:
            self._make(new, tip)
            _remove(self.path)
            os.rename(new, self.path)
        except BaseException:  # the disk is full: it needs the room
            with suppress(OSError):
                _remove(new)
            raise

    def _make(self, new: Path, tip: Commit) -> None:
        with closing(sqlite3.connect(new, isolation_level=None)) as database:
            database.execute(f"PRAGMA page_size = {_PAGE}")
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")  # it is flushed as a whole, below
            index = Index(database)
            with index.changing():
                index.create()
                catch_up(index, self.repository, tip)
        with new.open("rb") as file:
            os.fsync(file.fileno())

    @contextmanager
    def reading(self) -> Iterator[Facts]:
        """The state as of main's tip. Where the file is behind and somebody else writes, a copy in memory.

        Raises :class:`Blocked` where a damage of the file shows meanwhile; the file is gone then.
        """
        with closing(self._for_reading()) as index:
            try:
                yield index
            except sqlite3.DatabaseError as why:
                if not is_damage(why):
                    raise
                self._discard()
                remedy = "run it again; where it was to change something, 'cn agency log' tells first whether it has"
                raise Blocked("the index of Agency's records is damaged, and is made anew now", remedy) from why

    def _discard(self) -> None:
        """Who writes now finds the damage itself."""
        with suppress(CnError, OSError), self.repository.lock.held(0.0):
            self.close()
            _remove(self.path)

    def _for_reading(self) -> Index:
        for _ in range(_LOOKS):
            tip = self.repository.tip()
            with suppress(sqlite3.DatabaseError):
                index = open_file(self.path, "ro")
                if index is not None:
                    index.database.execute("BEGIN")
                    if index.tip == tip.oid:
                        return index
                    index.close()
            with suppress(CnError, OSError, sqlite3.Error), self.repository.lock.held(0.0):
                self.current(self.repository.tip())
        return self._copy_in_memory(self.repository.tip())

    def _copy_in_memory(self, tip: Commit) -> Index:
        with suppress(sqlite3.DatabaseError, OtherHistory):
            index = open_file(self.path, "ro")
            if index is not None:
                memory = Index.in_memory(copy_of=index)
                index.close()
                catch_up(memory, self.repository, tip)
                return memory
        return build_in_memory(self.repository, tip)

    def _opened(self) -> Index | None:
        """The connection that is open, or a new one where another file lies in its place."""
        if self._open is not None and _inode(self.path) == self._inode:
            return self._open
        self.close()
        self._open = open_file(self.path, "rw")
        self._inode = _inode(self.path)
        return self._open

    def close(self) -> None:
        """Let go of the file."""
        if self._open is not None:
            with suppress(sqlite3.Error):
                self._open.close()
            self._open = None


def build_in_memory(repository: Repository, tip: Commit) -> Index:
    """The state as of ``tip``, from the history alone."""
    made = Index.in_memory()
    catch_up(made, repository, tip)
    return made


def catch_up(index: Index, repository: Repository, tip: Commit) -> None:
    """Apply what was written since the commit that the index names. Raises :class:`OtherHistory`, :class:`Blocked`."""
    last = index.tip
    if last == tip.oid:
        return
    if last is not None and not repository.has(last):
        raise OtherHistory
    if last is not None and last == tip.parent:
        commits: Iterator[Commit] = iter((tip,))
    else:
        commits = repository.commits(last, tip.oid)
    filling = Filling(index.database)
    with closing_all(commits):
        for commit in commits:
            if commit.parent != last:
                if last == index.tip:
                    raise OtherHistory
                raise _broken(repository, tip, commit, "it does not follow the one before")
            try:
                _apply_all(filling, commit)
            except EventRefused as refused:
                raise _broken(repository, tip, commit, refused.text) from refused
            last = commit.oid
    filling.flush()
    if last != tip.oid:
        raise OtherHistory
    index.set_tip(tip.oid)


@contextmanager
def closing_all(commits: Iterator[Commit]) -> Iterator[None]:
    """End what reads them, also where they were not read to the end."""
    try:
        yield
    finally:
        if hasattr(commits, "close"):
            commits.close()


def _apply_all(filling: Filling, commit: Commit) -> None:
    filling.read_next(commit.message)
    for event in parse_message(commit.message):
        apply(filling, event)


def _broken(repository: Repository, tip: Commit, commit: Commit, why: str) -> Blocked:
    """``commit``, below ``tip``, says no events. What was moved back stays in the repository as an object."""
    records = str(repository.places.repository)
    back = command("git --git-dir={} update-ref {} {} {}", records, MAIN, commit.parent or "", tip.oid)
    by_hand = f"if somebody committed to main of agency.git by hand, {back} moves main back before that; "
    return Blocked(
        f"Agency's records cannot be read at commit {commit.oid[:12]}: {why}",
        f"{by_hand if commit.parent else ''}if a newer cn wrote it, use that one here",
    )


def open_file(path: Path, mode: str) -> Index | None:
    """The index in a file; None where there is none that this cn made, or another thing in its place: a pipe."""
    if not path.is_file() or not all(is_plain(str(one)) for one in _with_sides(path)):
        return None
    database = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False
    )
    try:
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version != VERSION:
            database.close()
            return None
        if mode == "rw":
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        database.close()
        raise
    return Index(database)


def is_damage(why: sqlite3.DatabaseError) -> bool:
    """Is the file itself damaged, rather than the disk full, or the file held by another?"""
    return not getattr(why, "sqlite_errorname", "").startswith(_OF_THE_SYSTEM)


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _remove(path: Path) -> None:
    """The database first: without it nobody opens what lies beside it."""
    for name in _with_sides(path):
        name.unlink(missing_ok=True)


def _with_sides(path: Path) -> tuple[Path, ...]:
    return path, *(path.with_name(path.name + side) for side in SIDES)
