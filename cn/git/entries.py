"""A path in a commit, in the index, and in the work tree, in comparable form.

A working file is compared by its own bytes first; only what differs is asked of git,
whose filters and line-end rules may still make the two equal (gitattributes(5)).
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import NamedTuple

from cn.git.environment import quote_path
from cn.git.process import Git
from cn.git.repository import Hub
from cn.system.files import StrPath, blocked_parent, read_plain
from cn.values.names import Oid, folders_above

LINK = "120000"
SUBMODULE = "160000"
_FEW = 200


class Entry(NamedTuple):
    """Mode and object of a tree or index entry. Modes are interned: a run has thousands of a few."""

    mode: str
    oid: Oid


UNMERGED = Entry("unmerged", Oid(""))
"""An index entry with conflict stages: equal to nothing."""


class Change(NamedTuple):
    """One path between two commits."""

    path: str
    old: Entry | None
    new: Entry | None


class WorkFile(NamedTuple):
    """A file of the work tree: ``raw`` is the id of its bytes, ``clean`` of what git would store.

    ``same`` are those of the entries it was looked up for that it is. A path that cannot be a file of ours
    (a folder, a pipe, behind a symlink) has mode ``other``.
    """

    mode: str
    raw: Oid
    clean: Oid
    same: tuple[Entry, ...] = ()

    def holds(self, entry: Entry | None, *, any_mode: bool) -> bool:
        """Is it what ``entry`` describes? ``any_mode``: the executable bit says nothing here."""
        if entry is None or entry.oid not in (self.raw, self.clean):
            return False
        both_plain = self.mode.startswith("100") and entry.mode.startswith("100")
        return self.mode == entry.mode or (any_mode and both_plain)


OTHER = WorkFile("other", Oid(""), Oid(""))


def read_changes(git: Git, old: str, new: str) -> list[Change]:
    """``diff-tree --no-renames`` of two commits or trees."""
    if old == new:
        return []
    fields = git.run(
        "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--end-of-options", old, new
    ).fields
    return [parse_change(meta, path) for meta, path in zip(fields[::2], fields[1::2], strict=True)]


def parse_change(meta: str, path: str) -> Change:
    """One entry of ``diff-tree -z --raw``: the fields before the path, and the path."""
    old_mode, new_mode, old_oid, new_oid, _ = meta.lstrip(":").split()
    return Change(path, _entry(old_mode, old_oid), _entry(new_mode, new_oid))


def _entry(mode: str, oid: str) -> Entry | None:
    return None if mode == "000000" else Entry(sys.intern(mode), Oid(oid))


def read_tree(git: Git, commit: str, paths: Collection[str]) -> dict[str, Entry]:
    """The entries of ``commit`` at ``paths``; what is not there is missing."""
    wanted = set(paths)
    if not wanted:
        return {}
    few = sorted(wanted) if len(wanted) <= _FEW else []
    done = git.run("ls-tree", "-r", "-z", "--full-tree", "--end-of-options", commit, *few)
    found = {}
    for line in done.fields:
        meta, _, path = line.partition("\t")
        if path in wanted:
            mode, _, oid = meta.split()
            found[path] = Entry(sys.intern(mode), Oid(oid))
    return found


def read_index(git: Git, index: Path | None = None) -> dict[str, Entry]:
    """All entries of the index, or of the index file given."""
    variant = git.with_env(GIT_INDEX_FILE=index) if index else git
    found: dict[str, Entry] = {}
    for line in variant.run("ls-files", "-s", "-z", "--full-name").fields:
        meta, _, path = line.partition("\t")
        mode, oid, stage = meta.split()
        found[path] = Entry(sys.intern(mode), Oid(oid)) if stage == "0" else UNMERGED
    return found


class Below:
    """Which paths of an index lie in a folder: sorted once, then found by halving."""

    def __init__(self, index: Iterable[str]) -> None:
        self._paths = sorted(index)

    def __call__(self, folder: str) -> Iterator[str]:
        """Those below ``folder``."""
        start = bisect_left(self._paths, f"{folder}/")
        return takewhile(lambda path: path.startswith(f"{folder}/"), islice(self._paths, start, None))


def gives_way(root: Path, path: str, main: Collection[str]) -> bool:
    """May a file come to ``path`` where something else lies at it or above it?

    Yes, where that is a file of ``main`` (whether somebody changed it is asked of that file), or a
    folder with nothing in it but such files.
    """
    for folder in folders_above(path):
        mode = _mode(root / folder)
        if mode is None:
            return True
        if not stat.S_ISDIR(mode):
            return folder in main
    mode = _mode(root / path)
    if mode is None or not stat.S_ISDIR(mode):
        return mode is None
    for here, folders, names in os.walk(root / path):
        found = [Path(here, name) for name in names]
        found += [link for name in folders if (link := Path(here, name)).is_symlink()]
        if not all(str(one.relative_to(root)) in main for one in found):
            return False
    return True


def untracked(root: Path, folder: str, index: Collection[str]) -> str:
    """The first file below ``folder`` that git does not know; empty if there is none, or it is no folder."""
    for here, folders, names in os.walk(root / folder):
        folders.sort()
        for name in sorted(names):
            path = str(Path(here, name).relative_to(root))
            if path not in index:
                return path
    return ""


def _mode(path: Path) -> int | None:
    try:
        return path.lstat().st_mode
    except OSError:
        return None


def blob_id(like: Oid, data: bytes) -> Oid:
    """The id of a blob, in the object format of the id ``like``."""
    name = "sha1" if len(like) == 40 else "sha256"
    return Oid(hashlib.new(name, b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest())


def raw_id(path: StrPath, like: Oid) -> Oid | None:
    """The id of a file's bytes, in the object format of ``like``; None where there is no file."""
    plain = read_plain(path)
    return blob_id(like, plain[1]) if plain else None


def read_files(hub: Hub, like: Oid, wanted: Mapping[str, Sequence[Entry | None]]) -> dict[str, WorkFile | None]:
    """The working files at the paths of ``wanted``; None: nothing is there.

    ``wanted`` names per path the entries it will be compared with: git's filters are run
    only for files whose bytes are none of these.
    """
    found: dict[str, WorkFile | None] = {}
    unsure: list[str] = []
    folders = {path: path.rpartition("/")[0] for path in wanted}  # looked at once, not for each file
    blocked = {folder for folder in set(folders.values()) if blocked_parent(hub.root, f"{hub.root}/{folder}/x")}
    for path, entries in wanted.items():
        found[path] = file = OTHER if folders[path] in blocked else _read_file(hub, like, path)
        known = {e.oid for e in entries if e is not None}
        if file and file.mode.startswith("100") and known and file.raw not in known:
            unsure.append(path)
    for path, clean in _clean_ids(hub, unsure).items():
        file = found[path]
        assert file is not None
        found[path] = file._replace(clean=clean)
    any_mode = hub.config.is_false("core.filemode")  # this file system's executable bit says nothing
    for path, file in found.items():
        if file is not None and file is not OTHER:
            same = (e for e in wanted[path] if e is not None and file.holds(e, any_mode=any_mode))
            found[path] = file._replace(same=tuple(same))
    return found


def _read_file(hub: Hub, like: Oid, path: str) -> WorkFile | None:
    target = f"{hub.root}/{path}"
    plain = read_plain(target)
    if plain is None:
        return OTHER if os.path.lexists(target) else None
    mode, data = plain
    raw = blob_id(like, data)
    if stat.S_ISLNK(mode):
        return WorkFile(LINK, raw, raw)
    return WorkFile("100755" if mode & stat.S_IXUSR else "100644", raw, raw)


def _clean_ids(hub: Hub, paths: list[str]) -> dict[str, Oid]:
    """What ``git add`` would store for each path. A path that cannot be read is left out."""
    if not paths:
        return {}
    done = hub.git.run(
        "hash-object", "--stdin-paths", stdin=b"".join(quote_path(p) + b"\n" for p in paths), check=False
    )
    if done.ok and len(done.lines) == len(paths):
        return {p: Oid(oid) for p, oid in zip(paths, done.lines, strict=True)}
    if len(paths) == 1:
        return {}
    # One file that vanished or cannot be read ends the whole batch: halve it until it is alone.
    half = len(paths) // 2
    return _clean_ids(hub, paths[:half]) | _clean_ids(hub, paths[half:])
