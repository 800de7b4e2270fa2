"""What branches would change in main, read for any number of them with few processes.

Read against main as the run began, whatever is merged meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cn.git.diff_many import by_head, diff_trees, halving
from cn.git.entries import Change, parse_change, read_changes
from cn.git.objects import read_info, read_objects, unreadable
from cn.git.process import Git, GitError
from cn.git.read_branch import OUTPUT_BYTES, merge_bases
from cn.git.signatures import read_signatures
from cn.protocol.rules import Person
from cn.values.names import Oid, is_owned

MOST_COMMITS = 500
_HEADS = 500


@dataclass(frozen=True)
class Offer:
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


def read_offers(git: Git, main: Oid, heads: Sequence[Oid], keys: Mapping[str, str]) -> dict[Oid, Offer]:
    """The offers of ``heads``; ``keys`` are the signing keys of known people (name → key)."""
    unique = list(dict.fromkeys(heads))
    there = [
        h
        for h, info in zip(unique, read_info(git, unique), strict=True)
        if info is not None and info.kind == "commit"
    ]
    offers = {h: Offer(h) for h in unique}
    for start in range(0, len(there), _HEADS):
        found = halving(there[start : start + _HEADS], lambda some: _ranges(git, main, some), _no_range)
        done = [o for o in found if not o.is_open]
        todo = [o for o in found if o.is_open]
        for step in (
            lambda some: _with_people(git, some, keys),
            lambda some: _with_changes(git, some),
            lambda some: _with_stale(git, main, some),
        ):
            todo = halving(todo, step, lambda o, error: [replace(o, failed=error)])
            done += [o for o in todo if not o.is_open]
            todo = [o for o in todo if o.is_open]
        offers.update({o.head: o for o in done + todo})
    return offers


def _no_range(head: Oid, error: GitError) -> list[Offer]:
    return [Offer(head, failed=error)]


def _ranges(git: Git, main: Oid, heads: Sequence[Oid]) -> list[Offer]:
    """What each head has that main has not, and where it leaves main."""
    lines = "\n".join([f"^{main}", *heads, ""]).encode()
    rows = git.run("rev-list", "--parents", "--stdin", stdin=lines, max_out=OUTPUT_BYTES).lines
    parents: dict[Oid, list[Oid]] = {}
    for row in rows:
        commit, *above = (Oid(word) for word in row.split(" "))
        parents[commit] = above
    return [_range(git, main, head, parents) for head in heads]


def _range(git: Git, main: Oid, head: Oid, parents: Mapping[Oid, Sequence[Oid]]) -> Offer:
    """``parents`` names all that main has not, so every other parent is in main."""
    if head not in parents:
        return Offer(head, (head,))
    commits, bases = {head: True}, dict[Oid, bool]()  # in the order they are met
    waiting = [head]
    while waiting and len(commits) <= MOST_COMMITS:
        for parent in parents[waiting.pop()]:
            if parent not in parents:
                bases[parent] = True
            elif parent not in commits:
                commits[parent] = True
                waiting.append(parent)
    count = len(commits)
    if count > MOST_COMMITS:
        count = int(git.run("rev-list", "--count", f"{main}..{head}").text)
    if count > MOST_COMMITS or len(bases) > 1:  # of several, one may contain another
        return Offer(head, tuple(merge_bases(git, main, head)), frozenset(commits), count)
    return Offer(head, tuple(bases), frozenset(commits), count)


def _with_people(git: Git, offers: Sequence[Offer], keys: Mapping[str, str]) -> list[Offer]:
    """Authors and signers of the commits that a merge would bring."""
    commits = list(dict.fromkeys(c for o in offers for c in sorted(o.commits)))
    of: dict[Oid, list[Person]] = {}
    for s in read_signatures(git, commits, keys):
        of[s.commit] = [Person(s.author, s.email), *([Person(s.signer, "")] if s.good else [])]
    return [
        replace(o, people=tuple(dict.fromkeys(p for c in sorted(o.commits) for p in of[c]))) for o in offers
    ]


def _with_changes(git: Git, offers: Sequence[Offer]) -> list[Offer]:
    pairs = [(o.head, o.bases[0]) for o in offers]
    fields = by_head(
        diff_trees(git, pairs, "-z", "--raw", "--no-abbrev"), {str(head) for head, _ in pairs}, 2
    )
    return [
        replace(o, changes=tuple(parse_change(m, p) for m, p in zip(f[::2], f[1::2], strict=True)))
        for o in offers
        for f in [fields.get(o.head, [])]
    ]


def _with_stale(git: Git, main: Oid, offers: Sequence[Offer]) -> list[Offer]:
    """What main changed since the base of each branch since which it changed least."""
    bases = dict.fromkeys(base for o in offers for base in o.bases)
    roots = _roots(git, [main, *bases])
    since: dict[Oid, tuple[str, ...]] = {}
    for base in bases:
        # Nearly always nothing: the roots tell, however much the folders of cn changed.
        changes = read_changes(git, base, main) if roots[base] != roots[main] else []
        since[base] = tuple(c.path for c in changes if not is_owned(c.path))
    return [replace(o, stale=min((since[base] for base in o.bases), key=len)) for o in offers]


def _roots(git: Git, commits: Sequence[Oid]) -> dict[Oid, set[bytes]]:
    """The entries of the root trees (mode, name, raw id), but for cn's own folders."""
    trees = read_objects(git, [f"{commit}^{{tree}}" for commit in commits])
    for commit, tree in zip(commits, trees, strict=True):
        if tree is None:
            raise unreadable("the tree of a commit", commit)
    return {c: set(_entries(tree or b"", len(c) // 2)) for c, tree in zip(commits, trees, strict=True)}


def _entries(tree: bytes, size: int) -> Iterator[bytes]:
    at = 0
    while at < len(tree):
        end = tree.index(b"\0", at) + 1 + size
        name = tree[at : end - size - 1].partition(b" ")[2]
        if not is_owned(name.decode("utf-8", "surrogateescape")):
            yield tree[at:end]
        at = end
