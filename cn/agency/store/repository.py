"""The repository of the records: one branch, whose commits' messages are the events, whose tree holds the contents.

A write is one commit: objects first, each on disk, then the ref, by its old value. What plain git shows of it is the
truth; everything else (``index.py``) is derived.
"""

from __future__ import annotations

import errno
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from cn.agency.store.lock import TURN, WriteLock
from cn.agency.store.ownership import check_ownership
from cn.git.environment import child_environment
from cn.git.loose_objects import write_loose
from cn.git.objects import ARGS, Found, Reader, TreeEntry, read_info, read_raw, unreadable
from cn.git.process import RECORDS, Done, Git, GitError, tail
from cn.git.ref_writer import RefWriter
from cn.git.running import Process, find_gits
from cn.git.trees import change_tree
from cn.system.closed import blame, closed_below
from cn.system.files import sync_folder
from cn.system.removal import remove_tree
from cn.values.errors import Blocked, CnError, Refused, explain_write
from cn.values.names import Oid, parse_oid
from cn.values.shell_words import command

MAIN = "refs/heads/main"
_LOCKS = (f"{MAIN}.lock", "HEAD.lock")
"""What an update of the ref holds: its own, and HEAD's for the reflog."""
_LEFT_SECONDS = 2.0
_WAIT_SECONDS = 6.0
_POLL = 0.02
_SETTINGS = {
    "core.repositoryFormatVersion": "1",
    "core.sharedRepository": "umask",  # they are their owner's alone, whatever the user's own repositories are
    "extensions.preciousObjects": "true",  # gc and prune beside a writer destroy what no ref holds yet
    "core.fsync": "committed,reference",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
_WRITE_WAIT = 30.0
_ELSEWHERE = "what is read of files is recorded too: mount the disk to be written, or copy the hub to one that can be"


class Places(NamedTuple):
    """Where everything of Agency's records lies below a hub's ``.git/cn``."""

    state: Path

    @property
    def repository(self) -> Path:
        """The truth."""
        return self.state / RECORDS

    @property
    def lock(self) -> Path:
        """Held by who writes."""
        return self.state / "agency.lock"

    @property
    def packing_lock(self) -> Path:
        """Held by who packs."""
        return self.state / "agency.packing.lock"

    @property
    def copy_lock(self) -> Path:
        """Held by who pushes the copy."""
        return self.state / "agency.copy.lock"

    @property
    def beside(self) -> tuple[Path, ...]:
        """What else lies there, with the lock of whose turn it is, and a repository that is being made."""
        locks = (self.lock, self.packing_lock, self.copy_lock)
        return (*locks, self.lock.with_name(f"{self.lock.name}{TURN}"), self.building)

    @property
    def building(self) -> Path:
        """A repository that is being made, or that a killed process left unfinished."""
        return self.state / f"{RECORDS}.new"

    @property
    def index_file(self) -> Path:
        """Derived from the repository; may vanish at any time."""
        return self.state / "agency" / "index.sqlite"


class Commit(NamedTuple):
    """One write. ``time`` in seconds since 1970; ``message`` is a subject, an empty line, and the events."""

    oid: Oid
    tree: Oid
    parent: Oid | None
    time: int
    message: str


class Draft(NamedTuple):
    """What a commit is to say, and the files it sets (bytes) or takes away (None), by their paths in the tree."""

    message: str
    files: Mapping[str, bytes | None]


class Moved(Blocked):
    """Somebody moved main while we held the lock: a git that does not know of it. The plan has to be made again."""


_QUESTIONS = 10_000
"""What one git is asked at most: it keeps in memory what packing has replaced, two gigabytes after 40,000 writes."""


class Repository:
    """The repository below ``places``, or one that is being made in ``folder``.

    ``identity`` is the name and email of its commits.

    Reading needs no lock, and any thread may do it; :meth:`append` is called with ``lock`` held. Raises
    :class:`Blocked` where what lies there is not ours (``ownership.py``).
    """

    def __init__(self, places: Places, identity: tuple[str, str], folder: Path | None = None) -> None:
        check_ownership(places.repository, places.index_file.parent, places.beside)
        self.places, self.identity = places, identity
        self.folder = folder or places.repository
        self._threads = threading.RLock()
        self._asked = 0
        self._reader = Reader(lambda: self._plain.start(*ARGS))
        self._plain = Git(self.folder, bare=True, around=child_environment())
        self.git = self._plain._replace(reader=self)

    def ask(self, lines: bytes, seconds: float) -> bytes:
        """The one reader of all threads (:class:`cn.git.process.Answers`)."""
        with self._threads:
            self._asked += 1
            if self._asked % _QUESTIONS == 0:
                self._reader.close()  # the next question starts it again
            return self._reader.ask(lines, seconds)

    @cached_property
    def lock(self) -> WriteLock:
        """One writer at a time, in all processes."""
        return WriteLock(self.places.lock)

    @cached_property
    def _refs(self) -> RefWriter:
        return RefWriter(self._plain._replace(lock_fd=self.lock.fd))

    def tip(self) -> Commit:
        """The last write. Raises :class:`Blocked` where main cannot be read."""
        (found,) = read_raw(self.git, [MAIN])
        if found is None or found.kind != "commit":
            if closed := closed_below(self.folder):
                raise Blocked(closed[0], f"nothing is lost; {closed[1]}, then run it again")
            remedy = "'cn doctor' tells how to bring it back"
            raise Blocked(f"git cannot read {MAIN} of {self.folder}: it is missing or damaged", remedy)
        return parse_commit(found)

    def has(self, oid: Oid) -> bool:
        """Is it a commit that is here?"""
        (info,) = read_info(self.git, [oid])
        return info is not None and info.kind == "commit"

    def read(self, path: str, at: Oid | None = None) -> bytes | None:
        """A file of the tree, now or as it was ``at`` a commit; None where there is none."""
        (found,) = read_raw(self.git, [f"{at or MAIN}:{path}"])
        return found.data if found is not None and found.kind == "blob" else None

    def commits(self, after: Oid | None = None, tip: Oid | None = None) -> Iterator[Commit]:
        """The writes after one (None: all), oldest first, up to the tip. Few are in memory at a time."""
        span = [f"^{after}"] if after else []
        words = ("log", "-z", "--first-parent", "--reverse", "--encoding=UTF-8", "--format=%H%n%T%n%P%n%ct%n%B")
        child = self._plain.start(*words, *span, tip or MAIN, "--", stdin=subprocess.DEVNULL)
        assert child.stdout is not None
        assert child.stderr is not None
        try:
            yield from map(_parse_record, _records(child.stdout.fileno()))
            err = child.stderr.read()
            if child.wait():
                raise GitError(Done(words, child.returncode, b"", tail(err)))
        finally:
            child.kill()
            child.wait()
            child.stdout.close()
            child.stderr.close()

    def append(self, parent: Commit | None, draft: Draft, at: int) -> tuple[Commit, tuple[str, ...]]:
        """Make ``draft`` the tip after ``parent``, at ``at`` (seconds since 1970); sentences about what was in the way.

        When it returns, the commit is on disk and main is it. Raises :class:`Moved`, or :class:`Blocked` where nothing
        was written that counts.
        """
        blobs = {path: data for path, data in draft.files.items() if data is not None}
        objects: list[tuple[str, bytes]] = [("blob", data) for data in blobs.values()]
        try:
            ids = dict(zip(blobs, write_loose(self._objects, objects), strict=True))
            tree, trees = self._change(parent, {path: ids.get(path) for path in draft.files})
            data = self._commit_data(tree, parent, draft.message, at)
            oid = write_loose(self._objects, [*(("tree", one) for one in trees), ("commit", data)])[-1]
        except OSError as why:
            otherwise = _ELSEWHERE if why.errno == errno.EROFS else explain_write(why)
            text, remedy = blame(why) or (f"cannot write in {self.folder}: {why.strerror}", otherwise)
            raise Blocked(text, remedy) from why
        told = self._move(oid, parent.oid if parent else None)
        return Commit(oid, tree, parent.oid if parent else None, at, draft.message), told

    @property
    def _objects(self) -> Path:
        return self.folder / "objects"

    def _change(self, parent: Commit | None, files: Mapping[str, Oid | None]) -> tuple[Oid, tuple[bytes, ...]]:
        if parent is not None and not files:
            return parent.tree, ()
        trees: dict[Oid, Found] = {}
        if parent is not None:
            folders = dict.fromkeys(above for path in files for above in _folders_above(path))
            found = read_raw(self.git, [f"{parent.tree}:{folder}" for folder in folders])
            trees = {one.oid: one for one in found if one is not None}

        def entries(oid: Oid) -> Iterator[TreeEntry]:
            if oid not in trees:
                raise unreadable("a tree of Agency's records", oid)
            return iter(trees[oid].entries.values())

        changed = change_tree(entries, parent.tree if parent else None, files)
        if changed.oid is None:
            raise Refused("this write would leave no file in the records", "keep README.md")
        return changed.oid, changed.trees

    def _commit_data(self, tree: Oid, parent: Commit | None, message: str, at: int) -> bytes:
        who = f"{self.identity[0]} <{self.identity[1]}> {at} +0000"
        head = [f"tree {tree}", *([f"parent {parent.oid}"] if parent else []), f"author {who}", f"committer {who}"]
        text = message.rstrip("\n")
        assert text, "a message has a subject"
        assert "\0" not in text, "JSON escapes control characters"
        return "\n".join([*head, "", text, ""]).encode()

    def _move(self, new: Oid, old: Oid | None) -> tuple[str, ...]:
        """The commit point. Waits for a lock of somebody else's, and removes one that nobody holds any more."""
        told: list[str] = []
        since = time.monotonic()
        while why := self._refs.move(MAIN, new, old):
            (now,) = read_info(self.git, [MAIN])
            tip = now.oid if now else None
            if tip == new:
                break
            if tip != old:
                raise Moved(f"main of {self.folder} was moved by another git", "run it again")
            locks = [path for name in _LOCKS if os.path.lexists(path := self.folder / name)]
            waited = time.monotonic() - since
            if not locks:
                if waited > _WAIT_SECONDS or "File exists" not in why:
                    raise Blocked(f"cannot move main of {self.folder}: {why}", "mend this, then run again")
            elif not told and (removed := self.remove_left(locks, waited)):
                told += removed
            elif waited > _WAIT_SECONDS:
                raise Blocked(
                    f"cannot move main: {locks[0]} exists",
                    f"wait for the git that holds it; if none does: {command('rm -- {}', str(locks[0]))}",
                )
            time.sleep(_POLL)
        # git flushes the ref's file, but not its name.
        sync_folder(self.folder / "refs/heads")
        return tuple(told)

    def remove_left(self, locks: Sequence[Path], watched: float = 0.0) -> tuple[str, ...]:
        """Remove lock files that no living git can hold, and say so; none of them where one may, or they are young.

        Called with the lock held under which they are made. ``watched``: for so many seconds they were there.
        """
        there = [path for path in locks if os.path.lexists(path)]
        if not there or not _are_left(there, watched) or find_gits(self.folder, passed_over=self._is_harmless):
            return ()
        for path in there:
            path.unlink(missing_ok=True)
        return tuple(f"{path.name}, which a killed git had left in {self.folder}, was removed" for path in there)

    def _is_harmless(self, process: Process) -> bool:
        """Does it only read, or move the ref with our lock held, which we hold now?"""
        if b"cat-file" in process.words or b"log" in process.words:
            return True
        ours = os.stat(self.places.lock)
        with suppress(OSError):
            for name in os.listdir(process.folder / "fd"):
                with suppress(OSError):
                    if os.path.samestat(os.stat(process.folder / "fd" / name), ours):
                        return True
        return False

    def close(self) -> None:
        """End the processes of git, and let go of the lock's file. Used again, it begins anew."""
        self._reader.close()
        for name in ("_refs", "lock"):
            if (held := self.__dict__.pop(name, None)) is not None:
                held.close()


def open_records(places: Places, identity: tuple[str, str]) -> Repository | None:
    """The repository below ``places``; None where there is none yet."""
    repository = Repository(places, identity)
    return repository if places.repository.exists() else None  # one that git cannot open is there, too


def create_records(places: Places, identity: tuple[str, str], draft: Draft, at: int) -> Repository:
    """Make it, with its first commit: whatever is killed, there is a whole one or none. Raises :class:`Refused`."""
    return build_records(places, identity, lambda new: new.append(None, draft, at))


def build_records(
    places: Places,
    identity: tuple[str, str],
    fill: Callable[[Repository], object],
    begin: Callable[[], object] = lambda: None,
) -> Repository:
    """An empty repository that ``fill`` gives its main; it comes to its place when that is done. ``begin`` is called
    before there is anything in its folder, which goes where it is refused.
    """
    from cn.git.create import create_repo  # it brings what builds commits for hubs, and this is done once

    building = places.building
    new = Repository(places, identity, building)
    places.state.mkdir(parents=True, exist_ok=True)
    try:
        with new.lock.held(_WRITE_WAIT):
            if places.repository.exists():
                remedy = "'cn agency status' shows what it holds, 'cn doctor' whether it is whole"
                raise Refused(f"{places.repository} is there already", remedy)
            remove_tree(building)
            building.mkdir(mode=0o700)
            try:
                begin()
                create_repo(building, MAIN.removeprefix("refs/heads/"), _SETTINGS, private=True)
                fill(new)
            except CnError:
                remove_tree(building)
                raise
            os.rename(building, places.repository)
            sync_folder(places.state)
    finally:
        new.close()
    return Repository(places, identity)


def _folders_above(path: str) -> Iterator[str]:
    """``""``, ``kb``, ``kb/a`` … of ``kb/a/…``."""
    parts = path.split("/")[:-1]
    return ("/".join(parts[:count]) for count in range(len(parts) + 1))


def _are_left(locks: Sequence[Path], watched: float) -> bool:
    """Is each older than a living git would hold it, by its own time or (the clock may have gone back) by ours?"""
    if watched > _LEFT_SECONDS:
        return True
    with suppress(OSError):
        return all(time.time() - os.lstat(path).st_mtime > _LEFT_SECONDS for path in locks)
    return False


def parse_commit(found: Found) -> Commit:
    """A commit object (git-commit-tree(1))."""
    head, _, message = found.data.partition(b"\n\n")
    fields: dict[bytes, bytes] = {}
    for line in head.split(b"\n"):
        name, _, value = line.partition(b" ")
        fields.setdefault(name, value)
    try:
        parent = fields.get(b"parent")
        tree, when = fields[b"tree"].decode(), int(fields[b"committer"].split(b" ")[-2])
        return Commit(found.oid, Oid(tree), Oid(parent.decode()) if parent else None, when, message.decode())
    except (KeyError, ValueError, IndexError) as why:
        raise unreadable("a write of Agency's records", found.oid) from why


def _records(fd: int) -> Iterator[bytes]:
    """What a git says, split at NUL."""
    rest = b""
    while data := os.read(fd, 1 << 16):
        *whole, rest = (rest + data).split(b"\0")
        yield from whole
    if rest:
        yield rest


def _parse_record(record: bytes) -> Commit:
    oid, tree, parents, when, *message = record.split(b"\n", 4)
    try:
        parent = parse_oid(parents.split(b" ")[0].decode()) if parents else None
        text = b"".join(message).decode()
        return Commit(Oid(oid.decode()), Oid(tree.decode()), parent, int(when), text)
    except ValueError as why:
        raise unreadable("a write of Agency's records", oid.decode("ascii", "replace")) from why
