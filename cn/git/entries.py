"""A path in a commit, in the index, and in the work tree, in comparable form.

A working file is compared by its own bytes first; only what differs is asked of git,
whose filters and line-end rules may still make the two equal (gitattributes(5)).
And what ``git merge-tree`` answers: a tree, or the paths that conflict (git-merge-tree(1), "OUTPUT").
"""

from __future__ import annotations

import os
import re
import stat
import sys
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cn.git.environment import quote_path
from cn.git.filters import without_filters
from cn.git.objects import OUTPUT_BYTES, read_info, read_object
from cn.git.process import Done, Git, GitError
from cn.git.repository import Hub
from cn.system.files import look_at
from cn.values.names import Oid, folders_above, is_oid, parse_oid

LINK = "120000"
SUBMODULE = "160000"
_FEW = 200
DIFF_SECONDS = 20.0
RENAMES = ("-M", "-l400")
"""Options that find renames, also of files that changed a little; among too many, of those that did not."""
_DIFF = ("-z", "--raw", "--no-abbrev", "--no-renames")
_PAIR = re.compile(rb"([0-9a-f]{40,64}) ([0-9a-f]{40,64})\n")
_RECORD = re.compile(
    rb":([0-7]{6}) ([0-7]{6}) ([0-9a-f]{40,64}) ([0-9a-f]{40,64}) (?:R[0-9]*\0([^\0]+)|[A-QS-Z][0-9]*)\0([^\0]+)\0",
    re.DOTALL,
)


class Entry(NamedTuple):
    """Mode and object of a tree or index entry. Modes are interned: a run has thousands of a few."""

    mode: str
    oid: Oid


UNMERGED = Entry("unmerged", Oid(""))
"""An index entry with conflict stages: equal to nothing."""


class Change(NamedTuple):
    """One path between two commits; ``source`` is what it was called before, where renames are looked for."""

    path: str
    old: Entry | None
    new: Entry | None
    source: str = ""

    @property
    def status(self) -> str:
        """``A``, ``M``, ``D``, ``R``: renamed, or ``T``: another type."""
        if self.source:
            return "R"
        if self.old is None or self.new is None:
            return "A" if self.old is None else "D"
        return "M" if self.old.mode[:3] == self.new.mode[:3] else "T"

    @property
    def is_of_submodule(self) -> bool:
        """Is there a submodule before it, or after? What lies in its folder is a repository of its own."""
        return SUBMODULE in (self.old and self.old.mode, self.new and self.new.mode)

    @property
    def of_files(self) -> Change:
        """The same of files alone: without submodules."""
        old, new = (None if one and one.mode == SUBMODULE else one for one in (self.old, self.new))
        return self._replace(old=old, new=new)


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


_NOWHERE = re.compile(r"(?:^|/)(?:\.{0,2}|(?:\.git|git~1)[. ]*(?::[^/]*)?)(?:/|$)", re.IGNORECASE)


def find_unwritable(changes: Iterable[Change]) -> str:
    """The path of one that git puts into no index, or that one tree has twice, of which git takes now the first and now
    the last; empty: there is none. Such a tree a fetch lets in that does not check what comes (git-fsck(1)).
    """
    seen = set[str]()
    for change in changes:
        if change.new is not None and (change.path in seen or _NOWHERE.search(change.path)):
            return change.path
        seen.add(change.path)
    return ""


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
    git: Git, pairs: Sequence[tuple[Oid, Oid]], *, recursive: bool = True, renames: bool = False
) -> dict[tuple[Oid, Oid], list[Change]]:
    """What differs between the trees of each pair, within limits of time and size."""
    how = [*(["-r"] if recursive else []), *(RENAMES if renames else [])]
    args = ("diff-tree", "--stdin", *_DIFF, *how)
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
        source, path = ((name or b"").decode("utf-8", "surrogateescape") for name in record.groups()[4:])
        found.append(Change(path, _entry(old_mode, old), _entry(new_mode, new), source))
        at = record.end()
    return found, at


def _entry(mode: str, oid: str) -> Entry | None:
    return None if mode == "000000" else Entry(sys.intern(mode), Oid(oid))


def list_entries(git: Git, commit: str, below: Iterable[str] = (), *, max_out: int | None = None) -> dict[str, Entry]:
    """The files of ``commit``, or those at or below some paths; ``max_out`` limits the bytes that tell them."""
    found = {}
    how = ("ls-tree", "-r", "-z", "--full-tree", "--end-of-options")
    for line in git.run(*how, commit, *below, max_out=max_out).fields:
        meta, _, path = line.partition("\t")
        mode, _, oid = meta.split()
        found[path] = Entry(sys.intern(mode), Oid(oid))
    return found


def read_tree(git: Git, commit: str, paths: Collection[str]) -> dict[str, Entry]:
    """The entries of ``commit`` at ``paths``; what is not there is missing."""
    wanted = set(paths)
    found = list_entries(git, commit, sorted(wanted) if len(wanted) <= _FEW else ()) if wanted else {}
    return {path: entry for path, entry in found.items() if path in wanted}


def read_index(git: Git) -> dict[str, Entry]:
    """All entries of the index."""
    found: dict[str, Entry] = {}
    for line in git.run("ls-files", "-s", "-z", "--full-name").fields:
        meta, _, path = line.partition("\t")
        mode, oid, stage = meta.split()
        found[path] = Entry(sys.intern(mode), Oid(oid)) if stage == "0" else UNMERGED
    return found


def find_below(index: Iterable[str], folders: Iterable[str]) -> dict[str, list[str]]:
    """Which paths of an index lie in each of these folders: sorted once, then found by halving."""
    paths = sorted(index)
    # "0" is what follows "/".
    return {name: paths[bisect_left(paths, f"{name}/") : bisect_left(paths, f"{name}0")] for name in folders}


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


def in_the_way(root: Path, change: Change, index: Collection[str]) -> str:
    """What git does not track where a new file is to come: at its path, above it, or the first below it; or nothing.

    Where git ignores it, it is neither committed nor stashed.
    """
    if change.old is not None:
        return ""
    for place in (*folders_above(change.path), change.path):
        mode = _mode(root / place)
        if mode is None:
            return ""
        if not stat.S_ISDIR(mode):
            return "" if place in index else place
    for here, folders, names in os.walk(root / change.path):
        names += [name for name in folders if Path(here, name).is_symlink()]
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


def read_files(hub: Hub, like: Oid, wanted: Mapping[str, Sequence[Entry | None]]) -> dict[str, WorkFile | None]:
    """The working files at the paths of ``wanted``; None: nothing is there.

    ``wanted`` names per path the entries it will be compared with: git's filters are run
    only for files whose bytes are none of these.
    """
    found: dict[str, WorkFile | None] = dict.fromkeys(wanted)
    unsure: list[str] = []
    for path, (mode, raw) in look_at(hub.root, wanted, like).items():
        if not mode:
            found[path] = OTHER
        elif stat.S_ISLNK(mode):
            found[path] = WorkFile(LINK, raw, raw)
        else:
            found[path] = WorkFile("100755" if mode & stat.S_IXUSR else "100644", raw, raw)
            known = {e.oid for e in wanted[path] if e is not None}
            if known and raw not in known:
                unsure.append(path)
    cleaned = _clean_ids(hub, unsure)
    odd = [path for path in unsure if cleaned.get(path) not in {e.oid for e in wanted[path] if e is not None}]
    for path, clean in (cleaned | find_untouched(hub.git, odd)).items():
        file = found[path]
        assert file is not None
        found[path] = file._replace(clean=clean)
    for path, file in found.items():
        if file is not None and file is not OTHER:
            same = (e for e in wanted[path] if e is not None and file.holds(e, any_mode=hub.any_mode))
            found[path] = file._replace(same=tuple(same))
    return found


_MOST_NAMED = 200
"""So many paths are named to one git, which takes no list of them: the arguments of a command have a limit."""


def find_untouched(git: Git, paths: Sequence[str]) -> dict[str, Oid]:
    """Those of the paths that nobody touched since git put them there, with what it put (git-status(1) calls them
    unchanged): made by settings of that time, as of line ends, they may be another's bytes by those of now.
    """
    if not paths:
        return {}
    named = ("--", *paths) if len(paths) <= _MOST_NAMED else ()
    words = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=all")
    done = git.run(*words, *named, check=False, seconds=git.filter_seconds)
    if (
        not done.ok and git.config and git.config.has_filters
    ):  # one of them cannot run: who is not asked holds up nothing
        done = without_filters(git).run(*words, *named)
    elif not done.ok:
        raise GitError(done, git.main_ref)
    changed = {line[3:] for line in done.fields if line[1] != " "}
    asked = set(paths)
    found: dict[str, Oid] = {}
    for line in git.run("ls-files", "-v", "-s", "-z", "--full-name", *named).fields:
        meta, _, path = line.partition("\t")
        tag, _, oid, stage = meta.split()
        # Of others git was told not to look at the file (git-update-index(1), "--assume-unchanged", "--skip-worktree").
        if path in asked and path not in changed and (tag, stage) == ("H", "0"):
            found[path] = Oid(oid)
    return found


def _clean_ids(hub: Hub, paths: list[str]) -> dict[str, Oid]:
    """What ``git add`` would store for each path. A path that cannot be read is left out."""
    if not paths:
        return {}
    names = b"".join(quote_path(p) + b"\n" for p in paths)
    done = hub.git.run("hash-object", "--stdin-paths", stdin=names, check=False, seconds=hub.git.filter_seconds)
    lines = done.lines
    if done.ok and len(lines) == len(paths):
        return {p: Oid(oid) for p, oid in zip(paths, lines, strict=True)}
    if len(paths) == 1 or done.timed_out:
        return {}
    # One file that vanished or cannot be read ends the whole batch: halve it until it is alone.
    half = len(paths) // 2
    return _clean_ids(hub, paths[:half]) | _clean_ids(hub, paths[half:])


_MERGE = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", "--stdin")


class Merged(NamedTuple):
    """The merged tree, or None and the paths that conflict."""

    tree: Oid | None
    conflicts: tuple[str, ...]


def merge_trees(git: Git, ours: str, theirs: str, *, max_out: int | None = None) -> Merged:
    """The merge of two commits; :class:`GitError` where git could not tell.

    With ``max_out``, in bytes, within the limits of what is another's: a large text takes fifty times its size.
    """
    done = git.run(*_MERGE, stdin=f"{ours} {theirs}\n".encode(), max_out=max_out)
    for merged in read_answers(done.out):
        return merged
    raise GitError(done)


class Conflicted(NamedTuple):
    """What a path that conflicts is by each side, as git names it there; None: it has no such file."""

    ours: Entry | None
    theirs: Entry | None


def merge_with_conflicts(git: Git, ours: str, theirs: str) -> tuple[Oid, dict[str, Conflicted]]:
    """The merge of two commits that conflict, and the paths that do, which hold git's marks (git-merge-tree(1))."""
    done = git.run("merge-tree", "--write-tree", "-z", "--no-messages", ours, theirs, check=False)
    tree, *rows = done.fields
    if not is_oid(tree):
        raise GitError(done)
    sides: dict[str, dict[str, Entry]] = {}
    for row in filter(None, rows):
        meta, _, path = row.partition("\t")
        mode, oid, stage = meta.split()
        sides.setdefault(path, {})[stage] = Entry(mode, Oid(oid))
    return Oid(tree), {path: Conflicted(found.get("2"), found.get("3")) for path, found in sides.items()}


def read_answers(out: bytes) -> Iterator[Merged]:
    """The answer to each line of ``--stdin`` ("INPUT FORMAT")."""
    fields = iter(out.split(b"\0")[:-1])
    for clean in fields:
        tree = parse_oid(next(fields, b"").decode("ascii", "replace"))
        conflicts = list(iter(lambda: next(fields, b""), b""))  # the empty field ends an answer
        if clean == b"1":
            yield Merged(tree, ())
        else:
            names = (name.decode("utf-8", "surrogateescape") for name in conflicts)
            yield Merged(None, tuple(dict.fromkeys(names)))


def merge_file(git: Git, base: Oid | None, ours: bytes, theirs: bytes) -> bytes | None:
    """git's merge of one file (git-merge-file(1)); None where it conflicts or is no text."""
    before = read_object(git, base) if base else b""
    if before is None or not base:
        return None  # two files of one name that have nothing in common
    import tempfile  # with its random numbers 3 ms, and few merge files

    with tempfile.TemporaryDirectory(prefix="cn-merge-") as folder:
        names = [Path(folder) / name for name in ("ours", "base", "theirs")]
        for name, data in zip(names, (ours, before, theirs), strict=True):
            name.write_bytes(data)
        done = git.run("merge-file", "-p", "--quiet", *map(str, names), check=False)
    return done.out if done.ok else None
