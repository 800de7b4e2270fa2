"""Merge without a work tree: what each merge would do, and its commit (git-merge-tree(1)).

git's own merge decides each. All of a run are asked together, each with main as the run began; where no
earlier merge of the run can matter, that answer laid upon it is the merge, and its commit is one more in a
stream. All others are asked one after the other. A property test compares both with ``git merge``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from types import TracebackType

from cn.git.branch_content import merge_bases, read_in_halves
from cn.git.entries import OUTPUT_BYTES, Change, diff_commits, read_changes
from cn.git.fast_import import CommitStream, build_commit, commit_tree, set_entry
from cn.git.merge_tree import merge_each, merge_trees
from cn.git.objects import list_tree, read_info
from cn.git.process import Git, GitError
from cn.git.repository import Hub
from cn.git.signatures import read_signatures
from cn.protocol.rules import MergeFacts, Person, TreeChange
from cn.transaction.commit import local_changes
from cn.values.names import NameRefused, Oid, fold, folders_above, is_owned, parse_hub_path

MOST_COMMITS = 500
_HEADS = 500


@dataclass(frozen=True)
class MergeCandidate:
    """A branch against main.

    ``bases`` are its merge bases (the head itself when main has it, none for a stranger),
    ``commits`` what main has not, ``count`` their number, ``people`` their authors and
    signers. ``stale`` are paths outside cn's folders that main changed since the best base,
    ``changes`` what the branch changes since the first one. ``failed`` is set where git could
    not tell.
    """

    head: Oid
    bases: tuple[Oid, ...] = ()
    commits: frozenset[Oid] = frozenset()
    count: int = 0
    people: tuple[Person, ...] = ()
    stale: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    failed: GitError | None = None

    @property
    def is_open(self) -> bool:
        """Is there more to know: would a merge bring something, within the limits?"""
        new = bool(self.bases) and self.head not in self.bases and self.failed is None
        return new and self.count <= MOST_COMMITS


def read_candidates(git: Git, main: Oid, heads: Sequence[Oid], keys: Mapping[str, str]) -> dict[Oid, MergeCandidate]:
    """One for each of ``heads``; ``keys`` are the signing keys of known people (name → key)."""
    unique = list(dict.fromkeys(heads))
    infos = zip(unique, read_info(git, unique), strict=True)
    there = [head for head, info in infos if info is not None and info.kind == "commit"]
    candidates = {h: MergeCandidate(h) for h in unique}
    for start in range(0, len(there), _HEADS):
        found = read_in_halves(
            there[start : start + _HEADS],
            lambda some: _ranges(git, main, some),
            lambda head, error: [MergeCandidate(head, failed=error)],
        )
        for step in (
            lambda some: _with_people(git, some, keys),
            lambda some: _with_changes(git, some),
            lambda some: _with_stale(git, main, some),
        ):
            candidates.update((c.head, c) for c in found)
            todo = [c for c in found if c.is_open]
            found = read_in_halves(todo, step, lambda c, error: [replace(c, failed=error)])
        candidates.update((c.head, c) for c in found)
    return candidates


def _ranges(git: Git, main: Oid, heads: Sequence[Oid]) -> list[MergeCandidate]:
    """What each head has that main has not, and where it leaves main."""
    lines = "\n".join([f"^{main}", *heads, ""]).encode()
    rows = git.run("rev-list", "--parents", "--stdin", stdin=lines, max_out=OUTPUT_BYTES).lines
    parents: dict[Oid, list[Oid]] = {}
    for row in rows:
        commit, *above = (Oid(word) for word in row.split(" "))
        parents[commit] = above
    return [_range(git, main, head, parents) for head in heads]


def _range(git: Git, main: Oid, head: Oid, parents: Mapping[Oid, Sequence[Oid]]) -> MergeCandidate:
    """``parents`` names all that main has not, so every other parent is in main."""
    if head not in parents:
        return MergeCandidate(head, (head,))
    commits, bases = {head: True}, dict[Oid, bool]()  # in the order they are met
    waiting = [head]
    while waiting and len(commits) <= MOST_COMMITS:
        for parent in parents[waiting.pop()]:
            if parent not in parents:
                bases[parent] = True
            elif parent not in commits:
                commits[parent] = True
                waiting.append(parent)
    count, found = len(commits), list(bases)
    if count > MOST_COMMITS:
        count = int(git.run("rev-list", "--count", f"{main}..{head}").text)
    if count > MOST_COMMITS or len(bases) > 1:  # of several, one may contain another
        found = merge_bases(git, main, head)
    return MergeCandidate(head, tuple(found), frozenset(commits), count)


def _with_people(git: Git, candidates: Sequence[MergeCandidate], keys: Mapping[str, str]) -> list[MergeCandidate]:
    """Authors and signers of the commits that a merge would bring."""
    commits = list(dict.fromkeys(c for one in candidates for c in sorted(one.commits)))
    of: dict[Oid, list[Person]] = {}
    for s in read_signatures(git, commits, keys):
        of[s.commit] = [Person(s.author, s.email), *([Person(s.signer, "")] if s.good else [])]
    return [
        replace(one, people=tuple(dict.fromkeys(p for c in sorted(one.commits) for p in of[c]))) for one in candidates
    ]


def _with_changes(git: Git, candidates: Sequence[MergeCandidate]) -> list[MergeCandidate]:
    changes = diff_commits(git, [(one.bases[0], one.head) for one in candidates])
    return [replace(one, changes=tuple(changes[one.bases[0], one.head])) for one in candidates]


def _with_stale(git: Git, main: Oid, candidates: Sequence[MergeCandidate]) -> list[MergeCandidate]:
    """What main changed since the base of each branch since which it changed least."""
    bases = {base: True for one in candidates for base in one.bases}
    # Nearly always cn's folders alone: the root trees tell, however much changed in these.
    roots = diff_commits(git, [(base, main) for base in bases], recursive=False)
    since: dict[Oid, tuple[str, ...]] = {}
    for base in bases:
        moved = any(not is_owned(change.path) for change in roots[base, main])
        changes = read_changes(git, base, main) if moved else []
        since[base] = tuple(c.path for c in changes if not is_owned(c.path))
    return [replace(one, stale=min((since[base] for base in one.bases), key=len)) for one in candidates]


_FEW = 200


class FoldedNames:
    """Names in main as a file system sees them that knows no case or normal forms (macOS, Windows).

    How each path and folder of a commit is written; read when a path is new. Of cn's own folders, which may be
    far larger than all others, only the names at the root are read: what a merge brings never lies in them.
    """

    def __init__(self, git: Git, main: Oid) -> None:
        self._git, self._main = git, main

    def clashes(self, changes: Iterable[TreeChange]) -> tuple[str, ...]:
        """The new paths that would be another's: of main's, or of the same changes."""
        changes = list(changes)
        gone = {c.path for c in changes if c.removes}
        gone |= self._emptied(gone) if gone else set()
        new, found = dict[str, str](), []
        for path in (c.path for c in changes if c.adds):
            for name in (*folders_above(path), path):
                old = self._known.get(fold(name))
                if old is None or old in gone:  # in the second case the branch renames it
                    old = new.setdefault(fold(name), name)
                if old != name:
                    found.append(f"{name} and {old}")
                    break
        return tuple(found)

    def _emptied(self, gone: set[str]) -> set[str]:
        """The folders of these files that keep no other file."""
        left = set(self._known.values()) - _folders(self._known.values()) - gone
        return _folders(gone) - _folders(left)

    def add(self, changes: Iterable[TreeChange]) -> None:
        """These changes are in main now."""
        changes = list(changes)
        for change in changes:
            if change.removes and self._known.get(fold(change.path)) == change.path:
                del self._known[fold(change.path)]
        added = {c.path for c in changes if c.adds}
        self._known.update((fold(name), name) for name in sorted(added | _folders(added)))

    @cached_property
    def _known(self) -> dict[str, str]:
        top = [e.path for e in list_tree(self._git, self._main)]
        known = {fold(name): name for name in top}
        wanted = [name for name in top if not is_owned(name)]
        few = wanted if len(wanted) <= _FEW else []
        words = ("ls-tree", "-r", "-z", "--name-only", "--full-tree", "--end-of-options", self._main)
        paths = {path for path in self._git.run(*words, *few).fields if not is_owned(path)} if wanted else set()
        known.update((fold(name), name) for name in sorted(paths | _folders(paths)))
        return known


def _folders(paths: Iterable[str]) -> set[str]:
    """All folders above these paths."""
    return {folder for path in paths for folder in folders_above(path)}


_FILES = ("100644", "100755")
_ABSENT = "000000"


@dataclass
class _Touched:
    """What the merges of this run brought to main: paths, their folders, those that got or lost a file."""

    paths: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    filled: set[str] = field(default_factory=set)
    thinned: set[str] = field(default_factory=set)
    commits: set[Oid] = field(default_factory=set)

    def add(self, changes: Sequence[TreeChange], commits: frozenset[Oid]) -> None:
        paths, filled, thinned = _folders_of(changes)
        self.paths |= paths
        self.folders |= _folders(paths)
        self.filled |= filled
        self.thinned |= thinned
        self.commits |= commits

    def clashing(self, paths: set[str]) -> set[str]:
        """Those that were touched, or lie below or above what was."""
        return {p for p in paths if p in self.folders or not self.paths.isdisjoint((p, *folders_above(p)))}

    def may_matter(self, changes: Sequence[TreeChange], commits: frozenset[Oid]) -> bool:
        """May git's merge of these be another one upon those merges?

        Yes, where both touch a path, and where one brings a file to a folder from which the other takes
        one: git may see a folder that moved, and move the file too.
        """
        paths, filled, thinned = _folders_of(changes)
        apart = self.commits.isdisjoint(commits) and self.thinned.isdisjoint(filled) and self.filled.isdisjoint(thinned)
        return not apart or bool(self.clashing(paths))


def _folders_of(changes: Sequence[TreeChange]) -> tuple[set[str], set[str], set[str]]:
    """Their paths, and all folders above what they add, and above what they take away."""
    added, removed = {c.path for c in changes if c.adds}, {c.path for c in changes if c.removes}
    return {c.path for c in changes}, _folders(added), _folders(removed)


class Merges:
    """The merges of one run that began at ``base``, upon each other; a context manager.

    ``keys`` are the signing keys of known people (name → key). Only objects are made,
    nothing points to them; they are there for other processes after :meth:`flush`.
    """

    def __init__(self, hub: Hub, base: Oid, local: Oid, at: datetime, keys: Mapping[str, str]) -> None:
        self._hub, self._base, self._local, self._at, self._keys = hub, base, local, at, keys
        self._candidates: dict[Oid, MergeCandidate] = {}
        self._alone: dict[Oid, tuple[Change, ...]] = {}
        self._dirty: dict[str, bool] = {}
        self._tried: dict[Oid, Sequence[TreeChange]] = {}
        self._touched = _Touched()
        self._names = FoldedNames(hub.git, base)
        self._stream = CommitStream(hub)

    def __enter__(self) -> Merges:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        if kind is None:
            self.flush()
        else:
            self._stream.abandon()

    def read(self, heads: Sequence[Oid]) -> None:
        """Read what the merges of ``heads`` need to know, all at once."""
        if not heads:
            return
        self._candidates = read_candidates(self._hub.git, self._base, heads, self._keys)
        candidates = self._candidates.values()
        self._find_dirty({c.path for one in candidates for c in one.changes})
        some = [one.head for one in candidates if one.is_open and not one.stale]
        self._alone = merge_each(self._hub.git, self._base, some)

    def flush(self) -> None:
        """Make every commit readable for all."""
        self._stream.close()

    def accept(self, head: Oid) -> None:
        """The merge of ``head``, as it was tried last, was taken: the next ones are made upon it."""
        self._touched.add(self._tried[head], self._candidates[head].commits)
        self._names.add(self._tried[head])

    def try_merge(self, tip: Oid, head: Oid, message: str) -> MergeFacts:
        """The facts of merging ``head`` on ``tip``, which is the base or the last merge accepted."""
        candidate = self._candidates[head]
        if candidate.failed is not None:
            raise candidate.failed
        if not candidate.bases:
            return MergeFacts(head, common=False)
        if candidate.count > MOST_COMMITS:
            why = f"({candidate.count} commits: more than the {MOST_COMMITS} whose authors cn checks; merge it by hand)"
            return MergeFacts(head, True, conflicts=(why,))
        if head in candidate.bases or head in self._touched.commits:
            return MergeFacts(head, True, people=candidate.people, merged_already=True)
        overlap = sorted(self._touched.clashing({c.path for c in candidate.changes}))
        if candidate.stale or overlap:  # refused in any case: what git would make of it is not asked
            theirs = self._own_changes(candidate)
            return MergeFacts(head, True, candidate.stale, tuple(overlap), changes=theirs, people=candidate.people)
        laid, tree = self._laid(candidate), None
        if laid is not None:
            changes = tuple(_tree_change(c) for c in laid)
        else:
            self.flush()
            tree, conflicts = merge_trees(self._hub.git, tip, head)
            if tree is None:  # of a folder that was renamed to several places git names no path
                conflicts = conflicts or ("(a folder was renamed, and git finds no single place for it)",)
                return MergeFacts(head, True, conflicts=conflicts, people=candidate.people)
            changes = tuple(map(_tree_change, diff_commits(self._hub.git, [(tip, tree)])[tip, tree]))
        self._tried[head] = changes
        return MergeFacts(
            head,
            True,
            dirty=self._dirty_among(changes),
            clashes=self._names.clashes(changes),
            changes=changes,
            people=candidate.people,
            commit=self._commit(tip, head, tree, laid or (), message),
        )

    def _own_changes(self, candidate: MergeCandidate) -> tuple[TreeChange, ...]:
        """What the branch changes, but for paths that main changed too: a rebase may take those out of it.

        With several merge bases that cannot be told from what main has.
        """
        if len(candidate.bases) > 1:
            return ()
        stale = set(candidate.stale)
        return tuple(_tree_change(c) for c in candidate.changes if c.path not in stale)

    def _laid(self, candidate: MergeCandidate) -> tuple[Change, ...] | None:
        """The changes that, laid upon the tip, are what git's merge gives; None: git is to be asked again."""
        alone = self._alone.get(candidate.head)
        if alone is None or not all(map(_can_be_laid, alone)):
            return None
        changes = [_tree_change(c) for c in alone]
        return None if self._touched.may_matter(changes, candidate.commits) else alone

    def _commit(self, tip: Oid, head: Oid, tree: Oid | None, laid: Sequence[Change], message: str) -> Oid:
        """The commit of a merge: of its ``tree``, or of what is ``laid`` upon the tip."""
        parents = (tip, head)
        if tree is not None:
            return commit_tree(self._hub, tree, parents, message, self._at)
        changes = [set_entry(c.path, c.new) for c in laid]
        if not self._hub.signs:
            return self._stream.commit(parents, changes, message, self._at)
        return build_commit(self._hub, base=tip, parents=parents, changes=changes, message=message, at=self._at)

    def _dirty_among(self, changes: Sequence[TreeChange]) -> tuple[str, ...]:
        paths = [c.path for c in changes]
        if any(p not in self._dirty for p in paths):
            self._find_dirty(set(paths))  # together: where a file becomes a folder they hang on each other
        return tuple(p for p in paths if self._dirty[p])

    def _find_dirty(self, paths: set[str]) -> None:
        changed = set(local_changes(self._hub, self._local, sorted(paths))) if paths else set()
        self._dirty.update({path: path in changed for path in paths})


def _tree_change(change: Change) -> TreeChange:
    new = change.new.mode if change.new else _ABSENT
    return TreeChange(change.path, new, change.old.mode if change.old else _ABSENT)


def _can_be_laid(change: Change) -> bool:
    """Is it a plain file, before and after, outside cn's folders, with a path that cn writes?"""
    if is_owned(change.path) or any(entry and entry.mode not in _FILES for entry in (change.old, change.new)):
        return False
    try:
        parse_hub_path(change.path)
    except NameRefused:
        return False
    return True
