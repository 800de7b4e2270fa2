"""Bring the work tree to a new commit without ever overwriting a byte.

An old file is moved aside and looked at again before the new one is linked in its place;
an editor that saves at that very moment finds its text in the work tree or in the aside.
What cannot be put in place now is noted, and :func:`place_again` tries it in the next runs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cn.git.entries import OTHER, SUBMODULE, Change, Entry, WorkFile, raw_id, read_files, read_tree
from cn.git.process import Done, Git
from cn.git.repository import Hub
from cn.protocol.layout import is_pending
from cn.system.files import StrPath, blocked_parent, move, place, place_below
from cn.transaction.journal import Journal
from cn.transaction.kept_copies import Asides, keep_aside, kept_sentence
from cn.transaction.unplaced import Edited, Left, read_unplaced, write_unplaced
from cn.values.names import Oid, folders_above, main_decides, never_blocks
from cn.values.text import visible

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


def check_out(hub: Hub, journal: Journal, changes: Sequence[Change]) -> list[str]:
    """Bring the working files of ``changes`` from old to new; sentences about what was kept."""
    changes = [c for c in changes if SUBMODULE not in (c.old and c.old.mode, c.new and c.new.mode)]
    if not changes:
        return []
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
    write_unplaced(hub, left | work.left, work.edited)
    return work.reports


def place_again(hub: Hub, main: Oid) -> list[str]:
    """Try what earlier runs could not place; ``main`` is checked out. Sentences about what became of it."""
    noted = read_unplaced(hub)
    if not noted.left:
        write_unplaced(hub, {}, noted.edited)  # what is hidden still is shown to git again
        return []
    entries = read_tree(hub.git, main, list(noted.left))
    changes = [Change(path, one.here, entries.get(path)) for path, one in noted.left.items()]
    reports = check_out(hub, Journal(noted.token, main, main, ""), changes)
    shutil.rmtree(hub.state / "txn", ignore_errors=True)
    files = read_files(hub, main, {path: (entries.get(path),) for path in noted.left})
    placed = [visible(path) for path in noted.left if _is_placed(files[path], entries.get(path))]
    if placed:
        more = f" and {len(placed) - _SHOWN} more" if len(placed) > _SHOWN else ""
        reports.append(f"brought to the work tree after all: {', '.join(placed[:_SHOWN])}{more}")
    return reports


def _is_placed(file: WorkFile | None, entry: Entry | None) -> bool:
    """Does main's file lie here, and no text that a person wrote meanwhile?"""
    return entry is None if file is None else file.holds(entry, any_mode=True)


_SHOWN = 8
_MOST_REFUSED = 100
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
    reports: list[str] = field(default_factory=list)

    def bring(self, changes: Sequence[Change]) -> None:
        wanted = {c.path: (c.old, c.new) for c in changes}
        files = read_files(self.hub, self.journal.new, wanted)
        for path in [p for p in self.edited if (f := files.get(p)) and self.is_main(wanted[p], f)]:
            del self.edited[path]
        todo: list[tuple[Change, WorkFile | None]] = []
        for change in changes:
            file = files[change.path]
            if self.settled(change, file):
                continue
            if self.may_replace(change, file):
                todo.append((change, file))
        staged = self.stage([c for c, _ in todo if c.new is not None])
        old = [(c, f) for c, f in todo if f is not None]
        names = dict(zip((c.path for c, _ in old), self.asides.plan((c.path, f.raw) for c, f in old), strict=True))
        for change, file in todo:  # plain text: Paths of all these take longer than most of what follows
            new = f"{staged}/{change.path}" if change.new is not None else None
            if new is not None and not os.path.lexists(new):
                self.leave(change, file, self.refused.get(change.path, "git checkout-index failed"))
                continue
            self.replace(change, file, names.get(change.path), new)
        if todo:
            shutil.rmtree(staged, ignore_errors=True)

    def is_main(self, entries: Sequence[Entry | None], file: WorkFile) -> bool:
        return any(file.holds(entry, any_mode=True) for entry in entries)

    def settled(self, change: Change, file: WorkFile | None) -> bool:
        if file is None:
            return change.new is None
        return change.new in file.same

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
        if change.new is not None or not is_pending(change.path):  # else whoever sets it aside tells it
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
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir(parents=True)
        index = scratch / "index-new"
        with suppress(FileNotFoundError):
            index.unlink()
        git = self.hub.git.with_env(GIT_INDEX_FILE=index)
        git.run("read-tree", self.journal.new)
        self.fill(git, staged, [c.path for c in changes])
        return staged

    def fill(self, git: Git, staged: Path, paths: Sequence[str]) -> None:
        """git ends the whole batch at a path that the file system refuses: without that one it goes on."""
        for _ in range(_MOST_REFUSED):
            lines = b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in paths)
            into = f"--prefix={staged}/"
            done = git.run("checkout-index", "--quiet", "-z", "--stdin", into, stdin=lines, check=False)
            if done.limited or done.killed or done.disk_full or _TORN in done.err:
                self.stop(staged, paths, done)
                return
            paths = [path for path in paths if not os.path.lexists(f"{staged}/{path}")]
            if done.ok or not paths:
                return
            said = done.err.partition("\n")[0].rpartition(": ")[2]  # behind a path of any length
            self.refused[paths[0]] = visible(said) or done.reason
            paths = paths[1:]

    def stop(self, staged: Path, paths: Sequence[str], done: Done) -> None:
        """It was no path's fault: the next would fare no better. The last file there may be half of one."""
        there = [path for path in paths if os.path.lexists(f"{staged}/{path}")]
        for path in there[-1:]:
            os.unlink(f"{staged}/{path}")
        absent = set(paths) - set(there[:-1])
        self.refused |= dict.fromkeys(absent, done.reason)

    def replace(self, change: Change, file: WorkFile | None, aside: str | None, new: str | None) -> None:
        target = f"{self.hub.root}/{change.path}"
        if file is not None and aside is not None:
            try:
                move(target, aside)
            except OSError as why:
                self.leave(change, file, why.strerror or "it cannot be moved")
                return
            if (found := raw_id(aside, file.raw)) != file.raw:
                self.put_back(change.path, aside)
                self.note_edited(change, found or file.raw)
                return
        if new is not None:
            self.link_new(change, new, target)
        if file is not None and aside is not None and not self.was_ours(change, file):
            kept = keep_aside(self.hub, change.path, aside)
            self.reports.append(kept_sentence(self.hub, change.path, kept, "differed from main, which decides here"))

    def link_new(self, change: Change, new: str, target: str) -> None:
        try:
            place_below(self.hub.root, new, target)
        except FileExistsError:  # a person's, of this moment
            self.note_edited(change, raw_id(target, change.new.oid) if change.new else None)
            self.say_changed(change.path)
        except OSError as why:
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


def _out_of_reach(target: Path) -> str:
    """Why nobody can tell what is there; empty: one can."""
    try:
        target.lstat()
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
