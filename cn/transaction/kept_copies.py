"""Files that a checkout moved out of its way, and copies that people may want back.

Asides lie in ``.git/cn/old/TOKEN`` until the next run, which compares once more and keeps what has
changed; what is kept goes to ``.git/cn/aside``.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from cn.git.entries import raw_id
from cn.git.repository import Hub
from cn.system.files import StrPath, free_name, move, write_file
from cn.transaction.unplaced import read_unplaced
from cn.values.names import Oid
from cn.values.text import visible


def sweep_asides(hub: Hub, current: str = "") -> list[str]:
    """Look at the asides of earlier runs once more; keep those that were written to, drop the rest."""
    reports = []
    kept = {current, read_unplaced(hub).token}  # what is tried again may have been killed in the middle of it
    for folder in _folders(hub.state / "old"):
        if folder.name not in kept:
            for file, path in _written(hub, folder):
                aside = keep_aside(hub, path, file)
                reports.append(kept_sentence(hub, path, aside, "was written to while cn replaced it"))
            shutil.rmtree(folder, ignore_errors=True)
    return reports


def _written(hub: Hub, folder: Path) -> Iterator[tuple[Path, str]]:
    """The asides in a folder that were written to since, and where each lay."""
    for name, (path, raw) in Asides.of(hub, folder.name).manifest.items():
        if os.path.lexists(folder / name) and raw_id(folder / name, raw) != raw:
            yield folder / name, path


def has_written_asides(hub: Hub) -> bool:
    """Was one of the files that cn replaced written to since?"""
    return any(written for folder in _folders(hub.state / "old") for written in _written(hub, folder))


def aside_name(hub: Hub, path: str, run: str = "") -> Path:
    """A free name below ``.git/cn/aside`` for a copy of ``path`` that people may want back."""
    stamp = run or datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return free_name(hub.state / "aside" / stamp / path)


def keep_aside(hub: Hub, path: str, source: StrPath) -> Path:
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
class Asides:
    """The files moved aside under one token, and what each held when it was looked at."""

    folder: Path
    manifest: dict[str, tuple[str, Oid]]

    @classmethod
    def of(cls, hub: Hub, token: str) -> Asides:
        """Those that were made under this token."""
        folder = hub.state / "old" / token
        manifest: dict[str, tuple[str, Oid]] = {}
        with suppress(OSError, ValueError):
            plain = json.loads((folder / "manifest").read_bytes())
            manifest = {name: (path, Oid(raw)) for name, (path, raw) in plain.items()}
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


def _folders(parent: Path) -> list[Path]:
    try:
        return sorted(p for p in parent.iterdir() if p.is_dir() and not p.is_symlink())
    except OSError:
        return []
