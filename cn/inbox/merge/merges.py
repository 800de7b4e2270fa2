"""Merge without a work tree: what each merge would do, and its commit (git-merge-tree(1)).

git's own merge decides each. All of a run are asked together, each with main as the run began; where no
earlier merge of the run can matter, that answer laid upon it is the merge, and its commit is one more in a
stream. All others are asked one after the other. A property test compares both with ``git merge``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType

from cn.git.entries import Change
from cn.git.fast_import import CommitStream, EntryChange, FileChange, build_commit, signs
from cn.git.merge_tree import merge_each, merge_trees
from cn.git.read_branches import tree_changes
from cn.git.repository import Hub
from cn.inbox.merge.candidates import MOST_COMMITS, MergeCandidate, read_candidates
from cn.inbox.merge.folded_names import FoldedNames
from cn.protocol.rules import MergeFacts, TreeChange
from cn.transaction.commit import local_changes
from cn.values.names import NameRefused, Oid, is_owned, parse_hub_path
from cn.values.paths import folders_above

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
        self.paths.update(c.path for c in changes)
        self.folders |= _folders(changes)
        self.filled |= _folders(c for c in changes if c.adds)
        self.thinned |= _folders(c for c in changes if c.removes)
        self.commits |= commits

    def clashes(self, path: str) -> bool:
        """Was it touched, or is one a folder of the other?"""
        return path in self.paths or path in self.folders or any(f in self.paths for f in folders_above(path))

    def may_matter(self, changes: Sequence[TreeChange], commits: frozenset[Oid]) -> bool:
        """May git's merge of these be another one upon those merges?

        Yes, where both touch a path, and where one brings a file to a folder from which the other takes
        one: git may see a folder that moved, and move the file too.
        """
        return (
            not self.commits.isdisjoint(commits)
            or any(self.clashes(c.path) for c in changes)
            or not self.thinned.isdisjoint(_folders(c for c in changes if c.adds))
            or not self.filled.isdisjoint(_folders(c for c in changes if c.removes))
        )


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
        self._signs = False

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
        self._signs = signs(self._hub)
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
        overlap = sorted({c.path for c in candidate.changes if self._touched.clashes(c.path)})
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
            changes = tuple(tree_changes(self._hub.git, tip, tree))
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
            return self._stream.of_tree(tree, parents, message, self._at)
        changes = [
            EntryChange(c.path, c.new.mode, c.new.oid) if c.new else FileChange(parse_hub_path(c.path), None)
            for c in laid
        ]
        if not self._signs:
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


def _folders(changes: Iterable[TreeChange]) -> set[str]:
    """All folders above these paths."""
    return {folder for change in changes for folder in folders_above(change.path)}


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
