"""What branches would change in main, read for any number of them with few processes.

Read against main as the run began, whatever is merged meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cn.git.diff_many import OUTPUT_BYTES, by_head, diff_trees, merge_bases, read_in_halves
from cn.git.entries import Change, parse_change, read_changes
from cn.git.objects import read_info
from cn.git.process import Git, GitError
from cn.git.signatures import read_signatures
from cn.protocol.rules import Person
from cn.values.names import Oid, is_owned

MOST_COMMITS = 500
_HEADS = 500
_RAW = ("-z", "--raw", "--no-abbrev")


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
    pairs = [(one.head, one.bases[0]) for one in candidates]
    fields = by_head(diff_trees(git, pairs, *_RAW), {str(head) for head, _ in pairs}, 2)
    return [
        replace(one, changes=tuple(parse_change(m, p) for m, p in zip(f[::2], f[1::2], strict=True)))
        for one in candidates
        for f in [fields.get(one.head, [])]
    ]


def _with_stale(git: Git, main: Oid, candidates: Sequence[MergeCandidate]) -> list[MergeCandidate]:
    """What main changed since the base of each branch since which it changed least."""
    bases = {base: True for one in candidates for base in one.bases}
    # Nearly always cn's folders alone: the root trees tell, however much changed in these.
    pairs = [(base, main) for base in bases]
    roots = by_head(diff_trees(git, pairs, *_RAW, recursive=False), {str(base) for base in bases}, 2)
    since: dict[Oid, tuple[str, ...]] = {}
    for base in bases:
        moved = any(not is_owned(name) for name in roots.get(base, [])[1::2])
        changes = read_changes(git, base, main) if moved else []
        since[base] = tuple(c.path for c in changes if not is_owned(c.path))
    return [replace(one, stale=min((since[base] for base in one.bases), key=len)) for one in candidates]
