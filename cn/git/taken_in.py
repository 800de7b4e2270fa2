"""What main has in its history, and not of itself: commits that came in with another branch, without what they change.

A merge may have anybody's commits as parents and keep nothing of them (``git merge -s ours``), or bring them and a
commit that takes them back. From then on they are part of main's history: git calls them merged, and nothing of them
is on main. Main has a commit of itself where it stands on main's line (the first parents), or where a merge on that
line has it as its other parent. Any other came in with the commit of the line that has it first, and is told here where
main did not get there what it changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cn.git.entries import diff_commits, read_tree
from cn.git.objects import contained, empty_tree, merge_bases
from cn.git.process import Git
from cn.git.still_there import Versions, still_there
from cn.values.names import Oid, is_oid, is_owned

_LINE = 2000
"""Commits of main's line that are looked at before its whole graph is."""


class TakenIn(NamedTuple):
    """How main took a commit in: ``by`` is the commit of its line that brought it, ``before`` main as it was then.

    Of what it changes, main still had at ``missing`` what stood there before, and at ``other`` something else.
    ``order`` is smaller for what came earlier.
    """

    by: Oid
    before: Oid
    order: int
    missing: tuple[str, ...]
    other: tuple[str, ...]


def read_taken_in(git: Git, main: Oid, commits: Iterable[Oid]) -> dict[Oid, TakenIn]:
    """Those of ``commits``, which are all in main's history, that came in without all that they change.

    One process where main has all of them of itself.
    """
    unique = list(dict.fromkeys(commits))
    if unique:
        rows = git.run("rev-list", "--first-parent", "--parents", f"--max-count={_LINE}", main, "--").lines
        itself = {commit for row in rows for commit in row.split(" ")}
        unique = [commit for commit in unique if commit not in itself]
    return _compared(git, _brought(git, main, unique)) if unique else {}


def held(git: Git, main: Oid, heads: Sequence[Oid]) -> set[Oid]:
    """Which of these heads (they may be missing) main holds: they are in its history, and so is what they change."""
    found = contained(git, main, heads)
    return found - read_taken_in(git, main, sorted(found)).keys()


def read_taken_back(git: Git, main: Oid, shown: Iterable[tuple[Oid, str]]) -> set[Oid]:
    """Those of these heads, which are all in main's history, of which main took back all (``git revert``).

    Each is ``shown`` with the commit that it left main at, where that is known: at each path that it changes since,
    main has what stood there.
    """
    pairs = [(Oid(base), head) for head, base in shown if is_oid(base) and base != head]
    changes = diff_commits(git, pairs) if pairs else {}
    theirs = {head: [c for c in those if not is_owned(c.path)] for (_, head), those in changes.items()}
    now = read_tree(git, main, {change.path for those in theirs.values() for change in those}) if theirs else {}
    return {Oid(head) for head, those in theirs.items() if those and all(now.get(c.path) == c.old for c in those)}


def _brought(git: Git, main: Oid, commits: Sequence[Oid]) -> dict[Oid, tuple[Oid, Oid, int]]:
    """Of each commit that main has not of itself: what of the line brought it, what stands before that, its place."""
    done = git.run("merge-base", "--octopus", *commits, check=False)
    beyond = [f"^{done.text}"] if done.ok and done.text else []
    words = ("rev-list", "--topo-order", "--reverse", "--parents", main, *beyond, "--")
    graph = {commit: parents for commit, *parents in (row.split(" ") for row in git.run(*words).lines)}
    line, at = list[str](), str(main)
    while at in graph:
        line.append(at)
        at = graph[at][0] if graph[at] else ""
    itself = {at, *line, *(parent for commit in line for parent in graph[commit])}
    bits = {str(commit): 1 << n for n, commit in enumerate(commits) if commit not in itself}
    holds: dict[str, int] = {}
    for commit, parents in graph.items():  # parents first
        for one in (commit, *parents):
            holds[commit] = holds.get(commit, 0) | bits.get(one, 0) | holds.get(one, 0)
    found: dict[Oid, tuple[Oid, Oid, int]] = {}
    known = 0
    for order, commit in enumerate(reversed(line)):
        if (new := holds[commit] & ~known) and graph[commit]:
            known |= new
            brought = (Oid(commit), Oid(graph[commit][0]), order)
            found.update((Oid(one), brought) for one, bit in bits.items() if new & bit)
    return found


def _compared(git: Git, brought: dict[Oid, tuple[Oid, Oid, int]]) -> dict[Oid, TakenIn]:
    bases = {
        commit: next(iter(merge_bases(git, before, commit)), None) or empty_tree(git)
        for commit, (_, before, _) in brought.items()
    }
    changes = diff_commits(git, [(bases[commit], commit) for commit in brought])
    theirs = {commit: [c for c in changes[bases[commit], commit] if not is_owned(c.path)] for commit in brought}
    found = {}
    for by in dict.fromkeys(by for by, *_ in brought.values()):
        some = {commit: theirs[commit] for commit, (other, *_) in brought.items() if other == by}
        main = read_tree(git, by, {change.path for those in some.values() for change in those})
        for commit, those in some.items():
            now = [Versions(c.old, c.new, main.get(c.path)) for c in those]
            lost = [c for c, there in zip(those, still_there(git, now), strict=True) if not there]
            missing = tuple(c.path for c in lost if main.get(c.path) == c.old)
            if lost:
                other = tuple(c.path for c in lost if c.path not in missing)
                found[commit] = TakenIn(*brought[commit], missing, other)
    return found
