"""Bringing the work tree to a new commit without ever overwriting a byte (DESIGN 5, step 9).

An old file is moved aside and looked at again before the new one is linked in its place;
an editor that saves at that very moment finds its text in the work tree or in the aside.
Asides are kept until the next run, which compares once more, and keeps what has changed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from cn.core.names import Oid
from cn.core.text import visible
from cn.core.value import dataclass
from cn.shell.diverged import forget_diverged, note_diverged, read_diverged
from cn.shell.entries import (
    OTHER,
    SUBMODULE,
    Change,
    Entry,
    WorkFile,
    blob_id,
    ignores_mode,
    main_decides,
    never_blocks,
    read_files,
)
from cn.shell.files import blocked_parent, free_name, move, place, read_plain, write_file
from cn.shell.hub import Hub
from cn.shell.journal import Journal

LAYOUT = frozenset(
    (
        *("threads", "threads/inbox", "threads/inbox/done", "threads/adhoc", "threads/reflections"),
        *("threads/mail", "threads/mail/outbox", "threads/mail/sent"),
        *("logs", "logs/inbox", "logs/input", "logs/output"),
        *("state", "state/ledger", "state/queue", "state/mca"),
    )
)
"""Folders that stay when they become empty."""


def check_out(hub: Hub, journal: Journal, changes: Sequence[Change]) -> list[str]:
    """Bring the working files of ``changes`` from old to new; sentences about what was kept."""
    changes = [c for c in changes if SUBMODULE not in (c.old and c.old.mode, c.new and c.new.mode)]
    work = _Checkout(
        hub, journal, _Asides.of(hub, journal.token), ignores_mode(hub) if changes else False, []
    )
    # Two passes: a file may give way to a folder of its name, and a folder to a file.
    gone = [c for c in changes if c.new is None]
    work.bring(gone)
    _prune(hub.root, (c.path for c in gone))
    work.bring([c for c in changes if c.new is not None])
    return work.reports


def sweep_asides(hub: Hub, current: str = "") -> list[str]:
    """Look at the asides of earlier runs once more; keep those that were written to, drop the rest."""
    reports = []
    for folder in _folders(hub.state / "old"):
        if folder.name == current:
            continue
        asides = _Asides.of(hub, folder.name)
        for name, (path, raw) in asides.manifest.items():
            file = folder / name
            if os.path.lexists(file) and _raw(file, raw) != raw:
                reports.append(
                    kept_sentence(
                        hub, path, keep_aside(hub, path, file), "was written to while cn replaced it"
                    )
                )
        shutil.rmtree(folder, ignore_errors=True)
    return reports


def aside_name(hub: Hub, path: str, run: str = "") -> Path:
    """A free name below ``.git/cn/aside`` for a copy of ``path`` that people may want back."""
    stamp = run or datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return free_name(hub.state / "aside" / stamp / path)


def keep_aside(hub: Hub, path: str, source: Path) -> Path:
    """Move ``source`` to where people find it."""
    target = aside_name(hub, path)
    move(source, target)
    return target


def kept_sentence(hub: Hub, path: str, kept: Path, why: str) -> str:
    """One sentence that tells where a copy is."""
    try:
        where = kept.relative_to(hub.root)
    except ValueError:
        where = kept
    return f"{visible(path)} {why}; your copy is kept at {visible(str(where))}"


@dataclass
class _Asides:
    """The files moved aside under one token, and what each held when it was looked at."""

    folder: Path
    manifest: dict[str, tuple[str, Oid]]

    @classmethod
    def of(cls, hub: Hub, token: str) -> _Asides:
        folder = hub.state / "old" / token
        manifest: dict[str, tuple[str, Oid]] = {}
        with suppress(OSError, ValueError):
            plain = json.loads((folder / "manifest").read_bytes())
            manifest = {name: (path, Oid(raw)) for name, (path, raw) in plain.items()}
        return cls(folder, manifest)

    def plan(self, files: Iterable[tuple[str, Oid]]) -> list[Path]:
        """Names for the files to be moved here, written down before anything moves."""
        names = []
        for path, raw in files:
            name = str(len(self.manifest))
            self.by_path.setdefault(path, []).append(name)
            self.manifest[name] = (path, raw)
            names.append(self.folder / name)
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


@dataclass
class _Checkout:
    hub: Hub
    journal: Journal
    asides: _Asides
    any_mode: bool
    reports: list[str]

    def bring(self, changes: Sequence[Change]) -> None:
        inputs = self.journal.inputs or {}
        wanted = {c.path: (c.old, c.new) for c in changes}
        files = read_files(self.hub, self.journal.new, wanted)
        if known := read_diverged(self.hub):
            forget_diverged(
                self.hub, [p for p in known if (f := files.get(p)) and self.is_main(wanted[p], f)]
            )
        todo: list[tuple[Change, WorkFile | None]] = []
        for change in changes:
            file = files[change.path]
            if self.settled(change, file):
                continue
            if self.may_replace(change, file, inputs.get(change.path)):
                todo.append((change, file))
        staged = self.stage([c for c, _ in todo if c.new is not None])
        old = [(c, f) for c, f in todo if f is not None]
        names = dict(
            zip((c.path for c, _ in old), self.asides.plan((c.path, f.raw) for c, f in old), strict=True)
        )
        for change, file in todo:
            new = staged / change.path if change.new is not None else None
            if new is not None and not os.path.lexists(new):
                self.reports.append(
                    f"{visible(change.path)} cannot be written to the work tree: git checkout-index failed"
                )
                continue
            self.replace(change, file, names.get(change.path), new)
        if todo:
            shutil.rmtree(staged, ignore_errors=True)

    def is_main(self, entries: Sequence[Entry | None], file: WorkFile) -> bool:
        return any(file.holds(entry, any_mode=True) for entry in entries)

    def settled(self, change: Change, file: WorkFile | None) -> bool:
        if file is None:
            return change.new is None
        return file.holds(change.new, any_mode=self.any_mode)

    def may_replace(self, change: Change, file: WorkFile | None, used: Oid | None) -> bool:
        path = visible(change.path)
        if file is None:
            if change.old is None or never_blocks(change.path):
                return self.aside_is_intact(change)
            if self.asides.of_path(change.path):
                return self.aside_is_intact(change)
            self.reports.append(f"{path} was removed here meanwhile and stays removed; main has it")
            return False
        if file is OTHER:
            self.reports.append(f"{path} cannot be written to the work tree: something else is in its place")
            return False
        if file.holds(change.old, any_mode=self.any_mode) or file.raw == used or main_decides(change.path):
            return True
        self.left_diverged(change, file.raw)
        self.reports.append(
            f"{path} was changed here meanwhile: your text stays in the work tree, main has another"
        )
        return False

    def left_diverged(self, change: Change, raw: Oid) -> None:
        """Somebody's edit of an older version stays: it must not be committed as it stands."""
        used = (self.journal.inputs or {}).get(change.path)
        if change.new is not None and used == change.new.oid:
            return  # what lay here was committed as it was, and edited further: main is older
        if never_blocks(change.path) and raw:
            note_diverged(self.hub, change.path, change.old.oid if change.old else None, raw)

    def aside_is_intact(self, change: Change) -> bool:
        """After a crash: was the file that we moved aside written to since? Then it goes back."""
        aside = self.asides.of_path(change.path)
        if aside is None or _raw(aside[0], aside[1]) == aside[1]:
            return True
        self.put_back(change.path, aside[0])
        return False

    def put_back(self, path: str, aside: Path) -> None:
        try:
            place(aside, self.hub.root / path)
        except OSError:
            kept = keep_aside(self.hub, path, aside)
            self.reports.append(kept_sentence(self.hub, path, kept, "was changed while cn replaced it"))
            return
        aside.unlink()
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
        paths = b"".join(c.path.encode("utf-8", "surrogateescape") + b"\0" for c in changes)
        git.run("checkout-index", "--quiet", "-z", "--stdin", f"--prefix={staged}/", stdin=paths, check=False)
        return staged

    def replace(self, change: Change, file: WorkFile | None, aside: Path | None, new: Path | None) -> None:
        target = self.hub.root / change.path
        if file is not None and aside is not None:
            try:
                move(target, aside)
            except OSError as why:
                self.reports.append(f"{visible(change.path)} cannot be replaced: {why.strerror}")
                return
            if (found := _raw(aside, file.raw)) != file.raw:
                self.put_back(change.path, aside)
                self.left_diverged(change, found or file.raw)
                return
        if new is not None:
            self.link_new(change.path, new, target)
        if file is not None and aside is not None and not self.was_ours(change, file):
            kept = keep_aside(self.hub, change.path, aside)
            self.reports.append(
                kept_sentence(self.hub, change.path, kept, "differed from main, which decides here")
            )

    def link_new(self, path: str, new: Path, target: Path) -> None:
        try:
            if blocked_parent(self.hub.root, target) is not None:
                raise NotADirectoryError(0, "a parent is not a real folder")
            try:
                place(new, target)
            except FileNotFoundError:
                target.parent.mkdir(parents=True, exist_ok=True)
                place(new, target)
        except OSError as why:
            self.reports.append(f"{visible(path)} cannot be written to the work tree: {why.strerror}")

    def was_ours(self, change: Change, file: WorkFile) -> bool:
        used = (self.journal.inputs or {}).get(change.path)
        return file.holds(change.old, any_mode=self.any_mode) or file.raw == used


def _raw(path: Path, like: Oid) -> Oid | None:
    plain = read_plain(path)
    return blob_id(like, plain[1]) if plain else None


def _folders(parent: Path) -> list[Path]:
    try:
        return sorted(p for p in parent.iterdir() if p.is_dir() and not p.is_symlink())
    except OSError:
        return []


def _prune(root: Path, paths: Iterable[str]) -> None:
    """Remove the folders that became empty."""
    folders = {str(parent) for path in paths for parent in Path(path).parents} - {"."} - LAYOUT
    for folder in sorted(folders, key=len, reverse=True):
        if blocked_parent(root, root / folder) is None and not (root / folder).is_symlink():
            with suppress(OSError):
                (root / folder).rmdir()
