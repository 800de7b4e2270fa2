"""Bring the work tree to a new commit without ever overwriting a byte.

An old file is moved aside and looked at again before the new one is linked in its place;
an editor that saves at that very moment finds its text in the work tree or in the aside.
What cannot be put in place now is noted, and :func:`place_again` tries it in the next runs.

Files moved aside lie in ``.git/cn/old/TOKEN`` until the next run, which compares once more and keeps what has
changed; what is kept goes to ``.git/cn/aside``.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from cn.git.entries import OTHER, SUBMODULE, Change, Entry, WorkFile, find_untouched, read_files, read_tree
from cn.git.filters import FILTER, filters_of, why_filter_failed
from cn.git.process import FILTER_SECONDS, LOCAL_SECONDS, Git
from cn.git.repository import Hub
from cn.protocol.layout import DONE, INBOX
from cn.system.closed import is_closed
from cn.system.files import (
    StrPath,
    blocked_parent,
    exchange,
    free_name,
    move,
    place,
    place_below,
    raw_id,
    read_regular,
    write_file,
)
from cn.system.removal import remove_tree
from cn.transaction.journal import Journal
from cn.transaction.unplaced import Edited, Left, read_unplaced, write_unplaced
from cn.values.names import Oid, folders_above, main_decides, never_blocks
from cn.values.shell_words import command
from cn.values.text import visible


def sweep_asides(hub: Hub, current: str = "") -> list[str]:
    """Look at the asides of earlier runs once more; keep those that were written to, drop the rest."""
    reports = []
    kept = {current, read_unplaced(hub).token}  # what is tried again may have been killed in the middle of it
    for folder, written in _asides(hub):
        if folder.name not in kept:
            for file, path in written:
                aside = keep_aside(hub, path, file)
                reports.append(kept_sentence(hub, path, aside, "was written to while cn replaced it"))
            remove_tree(folder)
    return reports


def has_written_asides(hub: Hub) -> bool:
    """Was one of the files that cn replaced written to since?"""
    return any(one for _, written in _asides(hub) for one in written)


def _asides(hub: Hub) -> Iterator[tuple[Path, Iterator[tuple[Path, str]]]]:
    """The folders of asides; those in each that were written to since, and where they lay."""
    try:
        folders = sorted(p for p in (hub.state / "old").iterdir() if p.is_dir() and not p.is_symlink())
    except OSError:
        return
    for folder in folders:
        files = ((folder / name, path, raw) for name, (path, raw) in Asides.of(hub, folder.name).manifest.items())
        yield folder, ((file, path) for file, path, raw in files if os.path.lexists(file) and raw_id(file, raw) != raw)


def aside_name(hub: Hub, path: str) -> Path:
    """A free name below ``.git/cn/aside`` for a copy of ``path`` that people may want back."""
    return free_name(hub.state / "aside" / datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ") / path)


def keep_aside(hub: Hub, path: str, source: StrPath) -> Path:
    """Move ``source`` to where people find it."""
    target = aside_name(hub, path)
    move(source, target)
    return target


def copy_aside(hub: Hub, path: str) -> Path:
    """Copy the file at ``path`` to where people find it."""
    target = aside_name(hub, path)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(hub.root / path, target, follow_symlinks=False)
    return target


def kept_sentence(hub: Hub, path: str, kept: Path, why: str) -> str:
    """One sentence that tells where a copy is."""
    try:
        where = kept.relative_to(hub.root)
    except ValueError:
        where = kept
    return f"{visible(path)} {why}; your copy is kept at {visible(str(where))}"


@dataclass
class Asides:
    """The files moved aside under one token, and what each held when it was looked at."""

    folder: Path
    manifest: dict[str, tuple[str, Oid]]

    @classmethod
    def of(cls, hub: Hub, token: str) -> Asides:
        """Those that were made under this token."""
        folder = hub.state / "old" / token
        manifest: dict[str, tuple[str, Oid]] = {}
        with suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
            plain = json.loads(read_regular(folder / "manifest") or b"{}")
            manifest = {name: (str(p), Oid(str(raw))) for name, (p, raw) in plain.items() if name.isdigit()}
        return cls(folder, manifest)

    def plan(self, files: Iterable[tuple[str, Oid]]) -> list[str]:
        """Names for the files to be moved here, written down before anything moves."""
        names = []
        for path, raw in files:
            name = str(len(self.manifest))
            self.by_path.setdefault(path, []).append(name)
            self.manifest[name] = (path, raw)
            names.append(f"{self.folder}/{name}")
        if names:
            plain = {n: [p, raw] for n, (p, raw) in self.manifest.items()}
            write_file(self.folder / "manifest", json.dumps(plain).encode())
        return names

    def of_path(self, path: str) -> tuple[Path, Oid] | None:
        """The aside of ``path`` that an interrupted run made."""
        for name in reversed(self.by_path.get(path, [])):
            if os.path.lexists(self.folder / name):
                return self.folder / name, self.manifest[name][1]
        return None

    @cached_property
    def by_path(self) -> dict[str, list[str]]:
        """The names under which each path was moved here, by an interrupted run too."""
        names: dict[str, list[str]] = {}
        for name, (path, _) in self.manifest.items():
            names.setdefault(path, []).append(name)
        return names


LAYOUT = frozenset(
    (
        *("threads", "threads/inbox", "threads/inbox/done", "threads/adhoc", "threads/reflections"),
        *(f"threads/reflections/{level}" for level in ("daily", "weekly", "monthly", "quarterly", "yearly")),
        *("threads/mail", "threads/mail/outbox", "threads/mail/sent"),
        *("logs", "logs/inbox", "logs/input", "logs/output"),
        *("state", "state/ledger", "state/queue", "state/mca"),
    )
)
"""cn's folders: they stay when they become empty, and nothing else is brought to their place."""


def check_out(hub: Hub, journal: Journal, changes: Sequence[Change], git: Git) -> list[str]:
    """Bring the working files of ``changes`` from old to new; sentences about what was kept.

    ``git`` is that of the index in which what cannot be brought is hidden.
    """
    modules, changes = [c for c in changes if c.is_of_submodule], [c.of_files for c in changes]
    reports = _leave_modules(hub, modules)
    changes = [c for c in changes if c.old or c.new]
    if not changes:
        return [*reports, *_make_modules(hub, modules)]
    noted = read_unplaced(hub)
    touched = {c.path for c in changes}
    changes = [c for c in changes if c.new is None or c.path not in LAYOUT]
    # What an earlier run could not replace lies here still, as if it were main's.
    changes = [c._replace(old=noted.left[c.path].here) if c.path in noted.left else c for c in changes]
    asides = Asides.of(hub, journal.token)
    work = _Checkout(hub, journal, asides, dict(noted.edited))
    # Two passes: a file may give way to a folder of its name, and a folder to a file.
    gone = [c for c in changes if c.new is None]
    work.bring(gone)
    _prune(hub.root, (c.path for c in gone))
    work.bring([c for c in changes if c.new is not None])
    # Once, at the end: killed before, all this is done again, and comes to the same.
    left = {path: one for path, one in noted.left.items() if path not in touched}
    write_unplaced(hub, git, noted, left | work.left, work.edited)
    return [*reports, *work.reports, *_make_modules(hub, modules)]


def _leave_modules(hub: Hub, changes: Sequence[Change]) -> list[str]:
    """The folders of what is no submodule any more go where they are empty; what lies in others is its user's."""
    reports = []
    for path in (c.path for c in changes if c.new is None or c.new.mode != SUBMODULE):
        if blocked_parent(hub.root, target := hub.root / path) is None and target.is_dir() and not target.is_symlink():
            try:
                target.rmdir()
            except OSError:
                reports.append(f"{visible(path)} is no submodule any more; its folder is not empty, and stays")
    _prune(hub.root, (c.path for c in changes if c.new is None))
    return reports


def _make_modules(hub: Hub, changes: Sequence[Change]) -> list[str]:
    """The folder of a submodule, as git makes it: without it a commit of everything takes it out of main. What git
    checks out there is for ``git submodule`` to bring (git-submodule(1), "update").
    """
    reports = []
    for path in (c.path for c in changes if c.new and c.new.mode == SUBMODULE):
        target = hub.root / path
        if blocked_parent(hub.root, target) is None and not os.path.lexists(target):
            with suppress(OSError):
                target.mkdir(parents=True)
        elif (target / ".git").exists():
            brings = command("git submodule update -- {}", path)
            reports.append(f"main has the submodule {visible(path)} at another commit: {brings} brings it")
    return reports


def place_again(hub: Hub, main: Oid) -> list[str]:
    """Try what earlier runs could not place; ``main`` is checked out. Sentences about what became of it."""
    noted = read_unplaced(hub)
    if not noted.left:
        write_unplaced(hub, hub.git, noted, {}, noted.edited)  # what is hidden still is shown to git again
        return []
    entries = read_tree(hub.git, main, list(noted.left))
    changes = [Change(path, one.here, entries.get(path)) for path, one in noted.left.items()]
    reports = check_out(hub, Journal(noted.token, main, main, ""), changes, hub.git)
    remove_tree(hub.state / "txn")
    files = read_files(hub, main, {path: (entries.get(path),) for path in noted.left})
    # Main's file lies here, and no text that a person wrote meanwhile.
    here = {path: (files[path], entries.get(path)) for path in noted.left}
    placed = [visible(p) for p, (f, entry) in here.items() if (f.holds(entry, any_mode=True) if f else entry is None)]
    if placed:
        more = f" and {len(placed) - _SHOWN} more" if len(placed) > _SHOWN else ""
        reports.append(f"brought to the work tree after all: {', '.join(placed[:_SHOWN])}{more}")
    return reports


_NONE: Mapping[str, str] = MappingProxyType({})
_SHOWN = 8
_MOST_REFUSED = 100
_MOST_HUNG = 2
"""So many paths whose filters hang are passed over in a run; more of them leave all that is filtered to the next."""
_TORN = "unable to write file"
"""What git says of a file that it began, and could not write to its end: it stays as it is."""
IN_ITS_PLACE = "is something else here"
"""Why a file of main cannot be brought: a folder, a link, a pipe; a person's, which cn does not touch."""


@dataclass
class _Checkout:
    hub: Hub
    journal: Journal
    asides: Asides
    edited: dict[str, Edited]
    left: dict[str, Left] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    reports: list[str] = field(default_factory=list)

    def bring(self, changes: Sequence[Change]) -> None:
        wanted = {c.path: (c.old, c.new) for c in changes}
        files = read_files(self.hub, self.journal.new, wanted)
        for path, file in files.items():
            if path in self.edited and file and any(file.holds(entry, any_mode=True) for entry in wanted[path]):
                del self.edited[path]
        todo: list[tuple[Change, WorkFile | None]] = []
        for change in changes:
            file = files[change.path]
            settled = change.new is None if file is None else change.new in file.same
            if not settled and self.may_replace(change, file):
                todo.append((change, file))
        self.note_dropped(todo)
        staged = self.stage([c for c, _ in todo if c.new is not None])
        old = [(c, f) for c, f in todo if f is not None]
        names = dict(zip((c.path for c, _ in old), self.asides.plan((c.path, f.raw) for c, f in old), strict=True))
        fresh: dict[str, str] = {}
        for change, file in todo:  # plain text: Paths of all these take longer than most of what follows
            new = f"{staged}/{change.path}" if change.new is not None else None
            if new is not None and not os.path.lexists(new):
                self.leave(change, file, self.refused.get(change.path, "git checkout-index failed"))
                continue
            if file is not None:
                self.replace(change, file, names[change.path], new)
            elif new is not None:
                fresh[change.path] = new
        unplaced = place_below(self.hub.root, fresh)
        for change, _ in todo:
            if change.path in unplaced:
                self.note_unplaced(change, unplaced[change.path])
        if todo:
            remove_tree(staged)

    def may_replace(self, change: Change, file: WorkFile | None) -> bool:
        if file is None:
            if change.old is None or never_blocks(change.path):
                return self.aside_is_intact(change)
            if self.asides.of_path(change.path):
                return self.aside_is_intact(change)
            self.reports.append(f"{visible(change.path)} was removed here meanwhile and stays removed; main has it")
            return False
        if file is OTHER and (why := _out_of_reach(self.hub.root / change.path)):
            self.left[change.path] = Left(change.old, why)
            return False
        if file is OTHER:
            if change.new is not None:  # else it is not main's affair any more
                stop = blocked_parent(self.hub.root, self.hub.root / change.path)
                what = visible(str(stop.relative_to(self.hub.root))) if stop else visible(change.path)
                self.left[change.path] = Left(change.old, f"{what} {IN_ITS_PLACE}")
            return False
        if self.was_ours(change, file) or main_decides(change.path):
            return True
        self.note_edited(change, file.raw)
        is_pending = change.path.startswith(f"{INBOX}/") and not change.path.startswith(f"{DONE}/")
        if change.new is not None or not is_pending:  # else whoever sets it aside tells it
            has = "another" if change.new is not None else "it no more"
            told = f"was changed here meanwhile: your text stays in the work tree, main has {has}"
            self.reports.append(f"{visible(change.path)} {told}")
        return False

    def note_edited(self, change: Change, raw: Oid | None) -> None:
        """Somebody's edit of an older version stays: it must not be committed as it stands."""
        used = (self.journal.inputs or {}).get(change.path)
        if change.new is not None and used == change.new.oid:
            return  # what lay here was committed as it was, and edited further: main is older
        if never_blocks(change.path) and raw:
            # Of a file that main overtakes twice the first base stands.
            self.edited.setdefault(change.path, Edited(change.old.oid if change.old else None, raw))

    def aside_is_intact(self, change: Change) -> bool:
        """After a crash: was the file that we moved aside written to since? Then it goes back."""
        aside = self.asides.of_path(change.path)
        if aside is None or raw_id(aside[0], aside[1]) == aside[1]:
            return True
        self.put_back(change.path, aside[0])
        return False

    def put_back(self, path: str, aside: StrPath) -> None:
        try:
            place(aside, self.hub.root / path)
        except OSError:
            kept = keep_aside(self.hub, path, aside)
            self.reports.append(kept_sentence(self.hub, path, kept, "was changed while cn replaced it"))
            return
        os.unlink(aside)
        self.say_changed(path)

    def say_changed(self, path: str) -> None:
        self.reports.append(
            f"{visible(path)} was changed at this moment: your text stays in the work tree, main has another"
        )

    def stage(self, changes: Sequence[Change]) -> Path:
        """Write the new files below ``.git/cn``, with git's filters, line ends and modes."""
        scratch = self.hub.state / "txn"
        staged = scratch / "stage"
        if not changes:
            return staged
        remove_tree(staged)
        staged.mkdir(parents=True)
        index = scratch / "index-new"
        with suppress(FileNotFoundError):
            index.unlink()
        git = self.hub.git.with_env(GIT_INDEX_FILE=index)
        git.run("read-tree", self.journal.new)
        paths = [c.path for c in changes]
        filters = filters_of(git, paths, cached=True)
        self.fill(git, staged, [path for path in paths if path not in filters], LOCAL_SECONDS)
        self.fill(git, staged, list(filters), FILTER_SECONDS, filters)
        return staged

    def fill(
        self, git: Git, staged: Path, paths: Sequence[str], seconds: float, filters: Mapping[str, str] = _NONE
    ) -> None:
        """git ends the whole batch at a path that the file system or a filter refuses: without that one it goes on."""
        hung = 0
        for _ in range(_MOST_REFUSED):
            if not paths:
                return
            into = f"--prefix={staged}/"
            args = ("checkout-index", "--quiet", "-z", "--stdin", into)
            done = git.run(*args, stdin=_lines(paths), check=False, seconds=seconds)
            if done.ok:
                return
            there = [path for path in paths if os.path.lexists(f"{staged}/{path}")]
            paths = [path for path in paths if path not in set(there)]
            if done.limited or done.killed or done.disk_full or _TORN in done.err:
                for path in there[-1:]:  # it may be half of one
                    os.unlink(f"{staged}/{path}")
                if not (done.timed_out and seconds == FILTER_SECONDS and hung < _MOST_HUNG and paths):
                    # It was no path's fault: the next would fare no better.
                    self.refused |= dict.fromkeys([*there[-1:], *paths], done.reason)
                    return
                hung += 1
                self.refused[paths[0]] = f"its {FILTER} gave no answer within {seconds:g} s"
                paths = [*there[-1:], *paths[1:]]
            elif paths:
                name = filters.get(paths[0])
                why = why_filter_failed(name, done.err) if name else _why_refused(done.err)
                self.refused[paths[0]] = why or done.reason
                paths = paths[1:]

    def note_dropped(self, todo: Sequence[tuple[Change, WorkFile | None]]) -> None:
        """Which files somebody changed in what git does not store of them (gitattributes(5), "filter", "eol")."""
        same = [(c.path, c.old.oid, f.raw) for c, f in todo if f and c.old and c.old in f.same]
        stored = {path: oid for path, oid, raw in same if oid != raw}
        untouched = find_untouched(self.hub.git, list(stored))
        self.dropped |= {path for path, oid in stored.items() if untouched.get(path) != oid}

    def replace(self, change: Change, file: WorkFile, aside: str, new: str | None) -> None:
        kept = None
        try:
            if not self.was_ours(change, file) or change.path in self.dropped:
                kept = copy_aside(self.hub, change.path)  # before it goes: a run may be killed at each step
            found, unplaced = exchange(self.hub.root, change.path, aside, new, file.raw)
        except OSError as why:
            self.leave(change, file, why.strerror or "it cannot be moved")
            return
        if found != file.raw:
            self.put_back(change.path, aside)
            self.note_edited(change, found or file.raw)
            if kept is not None:
                kept.unlink()
            return
        if unplaced:
            self.note_unplaced(change, unplaced[change.path])
        if kept is not None:
            dropped = "held what git does not store of it (its filter, or line ends)"
            told = dropped if change.path in self.dropped else "differed from main, which decides here"
            self.reports.append(kept_sentence(self.hub, change.path, kept, told))

    def note_unplaced(self, change: Change, why: OSError) -> None:
        if isinstance(why, FileExistsError):  # a person's, of this moment
            here = self.hub.root / change.path
            self.note_edited(change, raw_id(here, change.new.oid) if change.new else None)
            self.say_changed(change.path)
        else:
            self.leave(change, None, why.strerror or "it cannot be written")

    def leave(self, change: Change, file: WorkFile | None, reason: str) -> None:
        """It cannot be done now. What is no file of ours is compared with main's old one again then."""
        here = Entry(file.mode, file.raw) if file is not None else None
        if file is not None and not self.was_ours(change, file):
            here = change.old
        self.left[change.path] = Left(here, reason)

    def was_ours(self, change: Change, file: WorkFile) -> bool:
        used = (self.journal.inputs or {}).get(change.path)
        return change.old in file.same or file.raw == used


def _why_refused(said: str) -> str:
    """What git says of a path that it could not write."""
    lines = said.splitlines()
    own = [line for line in lines if line.startswith(("error: ", "fatal: "))]
    return visible((own or lines or [""])[0].removeprefix("error: ").rpartition(": ")[2])  # behind a path of any length


def _lines(paths: Sequence[str]) -> bytes:
    return b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in paths)


def _out_of_reach(target: Path) -> str:
    """Why nobody can tell what is there; empty: one can. A file that we may not read may hold what nobody has seen."""
    try:
        target.lstat()
        if is_closed(target):
            from cn.system.closed import closed_words  # few are

            words = closed_words(target)
            return f"{words[0].partition(' cannot be read: ')[2]}: {words[1]}" if words else ""
    except PermissionError as why:
        return why.strerror or "it cannot be read"
    except OSError:
        pass
    return ""


def _prune(root: Path, paths: Iterable[str]) -> None:
    """Remove the folders that became empty."""
    folders = {folder for path in paths for folder in folders_above(path)} - LAYOUT
    for folder in sorted(folders, key=len, reverse=True):
        if blocked_parent(root, root / folder) is None and not (root / folder).is_symlink():
            with suppress(OSError):
                (root / folder).rmdir()
