"""A path in a commit, in the index, and in the work tree, in comparable form.

A working file is compared by its own bytes first; only what differs is asked of git,
whose filters and line-end rules may still make the two equal (gitattributes(5)).
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import NamedTuple

from cn.git.environment import quote_path
from cn.git.objects import read_info
from cn.git.process import Done, Git, GitError
from cn.git.repository import Hub
from cn.system.files import StrPath, blocked_parent, read_plain
from cn.values.names import Oid, folders_above

LINK = "120000"
SUBMODULE = "160000"
_FEW = 200
OUTPUT_BYTES = 8 << 20
DIFF_SECONDS = 20.0
_DIFF = ("-z", "--raw", "--no-abbrev", "--no-renames")
_PAIR = re.compile(rb"([0-9a-f]{40,64}) ([0-9a-f]{40,64})\n")
_RECORD = re.compile(rb":([0-7]{6}) ([0-7]{6}) ([0-9a-f]{40,64}) ([0-9a-f]{40,64}) [A-Z][0-9]*\0([^\0]+)\0", re.DOTALL)


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

    @property
    def status(self) -> str:
        """``A``, ``M``, ``D``, or ``T``: another type."""
        if self.old is None or self.new is None:
            return "A" if self.old is None else "D"
        return "M" if self.old.mode[:3] == self.new.mode[:3] else "T"


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
    """What differs between two commits or trees, of any size; a folder that moved is its files."""
    if old == new:
        return []
    done = git.run("diff-tree", *_DIFF, "-r", "--end-of-options", old, new)
    changes, end = _records(done.out, 0)
    if end < len(done.out):
        raise GitError(done._replace(err="error: it answered what cn does not understand"))
    return changes


def diff_commits(
    git: Git, pairs: Sequence[tuple[str, str]], *, recursive: bool = True
) -> dict[tuple[str, str], list[Change]]:
    """The same for many pairs of commits or trees, old first, within :func:`diff_trees`' limits."""
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    infos = zip(names, read_info(git, [f"{name}^{{tree}}" for name in names]), strict=True)
    trees = {name: info.oid if info else Oid(name) for name, info in infos}
    changes = diff_trees(git, [(trees[old], trees[new]) for old, new in pairs], recursive=recursive)
    return {(old, new): changes[trees[old], trees[new]] for old, new in pairs}


def diff_trees(
    git: Git, pairs: Sequence[tuple[Oid, Oid]], *, recursive: bool = True
) -> dict[tuple[Oid, Oid], list[Change]]:
    """What differs between the trees of each pair, within limits of time and size."""
    args = ("diff-tree", "--stdin", *_DIFF, *(["-r"] if recursive else []))
    lines = "".join(f"{old} {new}\n" for old, new in dict.fromkeys(pairs)).encode()
    out = git.run(*args, stdin=lines, max_out=OUTPUT_BYTES, seconds=DIFF_SECONDS).out if pairs else b""
    changes = parse_diffs(out)
    if any(pair not in changes for pair in pairs):
        raise GitError(Done(args, 1, b"", "error: it did not answer all questions"))
    return changes


def parse_diffs(out: bytes) -> dict[tuple[Oid, Oid], list[Change]]:
    """What ``diff-tree --stdin -z --raw`` tells of pairs of trees, up to what cn does not understand."""
    changes: dict[tuple[Oid, Oid], list[Change]] = {}
    at = 0
    while found := next_pair(out, at):
        pair, records, at = found
        changes[pair] = records
    if changes and at < len(out):
        changes.popitem()
    return changes


def next_pair(out: bytes, at: int) -> tuple[tuple[Oid, Oid], list[Change], int] | None:
    """The pair of trees whose answer begins at ``at``, its records, and where they end; None: no pair is there."""
    header = _PAIR.match(out, at)
    if header is None:
        return None
    return ((Oid(header[1].decode()), Oid(header[2].decode())), *_records(out, header.end()))


def _records(out: bytes, at: int) -> tuple[list[Change], int]:
    """The records of ``--raw -z`` that begin at ``at``, and where they end (git-diff-tree(1), "RAW OUTPUT FORMAT")."""
    found = []
    while record := _RECORD.match(out, at):
        old_mode, new_mode, old, new = (word.decode() for word in record.groups()[:4])
        path = record[5].decode("utf-8", "surrogateescape")
        found.append(Change(path, _entry(old_mode, old), _entry(new_mode, new)))
        at = record.end()
    return found, at


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
