"""Which commits that were made in this clone may hold what others changed.

What git made of other commits (git-rebase(1), git-cherry-pick(1), git-revert(1)) may. And so may what a person
committed, after a merge that was begun and left, or squashed: where it brings in a line that an unaccepted commit of
others, known here, brought in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

from cn.git.entries import SUBMODULE, Entry
from cn.git.objects import is_ancestor, merge_bases, read_info, read_known
from cn.git.process import GitError
from cn.git.repository import Hub
from cn.transaction.accepted_history import Changes, Pair, Parents, later, read_changes_of, read_parents
from cn.transaction.made_here import ACT, AGAIN, KNOWN, Made, signed
from cn.values.errors import Blocked
from cn.values.names import Oid

_MOST = 50_000
"""Unaccepted commits that are looked at for a file, and pairs of changes that are compared."""
_MOST_ALIKE = 200
"""Commits that bring in a line of ours: of each it is asked whether it is accepted."""
_MOST_BYTES = 64 << 20
_LARGEST = 1 << 20
"""Of a longer file no line is compared."""
_LIKE = 4
"""git follows a file that was moved where half of it is alike (git-diff(1), "-M"); a quarter is looked at."""


class _Their(NamedTuple):
    """What a commit of others changed; ``moved``: in a file of another name."""

    commit: Oid
    pair: Pair
    moved: bool


class _TooMuch(Exception):
    """More than is looked at."""


def in_doubt(
    hub: Hub, made: Made, touched: Mapping[str, Changes], new: Oid, trusted: Oid
) -> frozenset[tuple[str, Oid]]:
    """Path and commit of what was made here, and may hold what others changed.

    ``touched`` are the changes of files up to ``new`` that came after ``trusted``, which was accepted. Where objects
    are missing, or too many, all are in doubt.
    """
    again = {(path, c) for path, changes in touched.items() for c in changes if made.get(c) == AGAIN}
    acts = {path: {c: touched[path][c] for c in touched[path] if made.get(c) == ACT} for path in touched}
    acts = {path: changes for path, changes in acts.items() if changes}
    try:
        return frozenset(again | (_beside_others(hub, made, acts, new, trusted) if acts else set()))
    except (GitError, Blocked, _TooMuch):
        return frozenset(again | {(path, c) for path, changes in acts.items() for c in changes})


def _beside_others(hub: Hub, made: Made, acts: Mapping[str, Changes], new: Oid, trusted: Oid) -> set[tuple[str, Oid]]:
    parents = read_parents(hub.git, new, *KNOWN, f"^{trusted}")
    theirs = {c: above for c, above in parents.items() if made.get(c, AGAIN) == AGAIN}
    if not theirs:
        return set()
    others = _changes_of_others(hub, theirs, list(acts))
    if sum(len(_pairs(acts[path])) * len(others[path]) for path in acts) > _MOST:
        raise _TooMuch
    pairs = [
        (path, act, mine, one)
        for path in acts
        for act in acts[path]
        for mine in acts[path][act].values()
        for one in others[path]
    ]
    lines = _Lines(hub, {entry for *_, mine, one in pairs for entry in (*mine, *one.pair) if entry})
    alike: dict[tuple[str, Oid], set[Oid]] = {}
    for path, act, mine, one in pairs:
        if lines.share(mine, one.pair) and (not one.moved or lines.are_like(mine, one.pair)):
            alike.setdefault((path, act), set()).add(one.commit)
    # What stands upon it came after it.
    return {key for key, found in alike.items() if _count(hub, key[1], found - later([key[1]], parents), trusted)}


def _changes_of_others(hub: Hub, theirs: Parents, paths: list[str]) -> dict[str, list[_Their]]:
    """What they change in each file; where their commit has no such file, in any: git may follow it there."""
    asked = [f"{c}:{path}" for path in paths for c in theirs]
    if len(asked) > _MOST or any("\n" in path for path in paths):
        raise _TooMuch
    there = iter(read_info(hub.git, asked))
    lacking = {path: {c for c in theirs if next(there) is None} for path in paths}
    without = {c: above for c, above in theirs.items() if any(c in some for some in lacking.values())}
    named = read_changes_of(hub.git, theirs, paths)
    others = read_changes_of(hub.git, without) if without else {}
    found = {path: [_Their(c, pair, False) for c, pair in _pairs(named.get(path, {}))] for path in paths}
    moved = [one for changes in others.values() for one in _pairs(changes)]
    if len(moved) * len(paths) > _MOST:
        raise _TooMuch
    for path in paths:
        found[path] += [_Their(commit, pair, True) for commit, pair in moved if commit in lacking[path]]
    return found


def _pairs(changes: Changes) -> list[tuple[Oid, Pair]]:
    return [(commit, pair) for commit, above in changes.items() for pair in above.values()]


def _count(hub: Hub, act: Oid, others: Collection[Oid], trusted: Oid) -> bool:
    """Is one of these neither signed nor accepted, nor of a history of its own, such as that of a peer's hub, which git
    merges with none of ours? Where dates are odd, git lists accepted ones too.
    """
    unsigned = set(others) - signed(hub, others)
    if len(unsigned) > _MOST_ALIKE:
        return True
    return any(not is_ancestor(hub.git, one, trusted) and merge_bases(hub.git, act, one) for one in unsigned)


class _Lines:
    """The lines of files, by which changes of them are compared."""

    def __init__(self, hub: Hub, entries: Collection[Entry]) -> None:
        oids = sorted({entry.oid for entry in entries if entry.mode != SUBMODULE})
        infos = zip(oids, read_info(hub.git, oids), strict=True)
        small = {oid: info.size for oid, info in infos if info and info.size <= _LARGEST}
        if sum(small.values()) > _MOST_BYTES:
            raise _TooMuch
        known = dict(zip(small, read_known(hub.git, list(small)), strict=True))
        texts = {entry: known.get(entry.oid, entry.oid.encode()) for entry in entries}
        self._lines = {entry: Counter(line.strip() for line in text.split(b"\n")) for entry, text in texts.items()}
        self._brought: dict[Pair, frozenset[tuple[str, bytes]]] = {}

    def share(self, ours: Pair, theirs: Pair) -> bool:
        """Do both bring in the same line, or take out the same?"""
        return not self._bring(ours).isdisjoint(self._bring(theirs))

    def are_like(self, ours: Pair, theirs: Pair) -> bool:
        """Would git take a file of one for a file of the other that was moved?"""
        return any(self._is_like(one, other) for one in ours if one for other in theirs if other)

    def _is_like(self, one: Entry, other: Entry) -> bool:
        first, second = self._lines[one], self._lines[other]
        return _LIKE * _size(first & second) >= max(_size(first), _size(second))

    def _bring(self, pair: Pair) -> frozenset[tuple[str, bytes]]:
        if pair not in self._brought:
            (old, new), none = pair, Counter[bytes]()
            before, after = (self._lines[entry] if entry else none for entry in pair)
            found = {("+", line) for line in after - before if line} | {("-", line) for line in before - after if line}
            if new and (old is None or old.mode != new.mode) and new.mode != "100644":
                found.add(("mode", new.mode.encode()))
            self._brought[pair] = frozenset(found or {("order", b"")})
        return self._brought[pair]


def _size(lines: Counter[bytes]) -> int:
    return sum(len(line) * count for line, count in lines.items())
