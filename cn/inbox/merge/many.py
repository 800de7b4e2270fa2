"""Ask git for many merges into main with three processes, each as main was when the run began.

``git merge-tree --stdin`` answers only at its end, so it cannot merge one branch upon the other.
:mod:`cn.inbox.merge.merges` lays these answers upon each other where git would come to the same: 50
merges that rename start 3 processes for it, not 150.
"""

from __future__ import annotations

from collections.abc import Sequence

from cn.git.diff_many import diff_trees
from cn.git.entries import Change
from cn.git.merge_tree import ask_merges, read_tree_diffs
from cn.git.objects import read_info
from cn.git.process import Git
from cn.values.errors import CnError
from cn.values.names import Oid

_SECONDS = 60.0


def merge_alone(git: Git, main: Oid, heads: Sequence[Oid]) -> dict[Oid, tuple[Change, ...]]:
    """Head → what merging it into ``main`` changes there; heads that conflict are missing.

    All are missing when git cannot do all of them in time: who then asks for one learns why.
    """
    if not heads:
        return {}
    lines = "".join(f"{main} {head}\n" for head in heads)
    try:
        answers = ask_merges(git, lines, _SECONDS)
        trees = {head: tree for head, tree in zip(heads, answers, strict=True) if tree is not None}
        (root,) = read_info(git, [f"{main}^{{tree}}"])
        changes = _changes(git, root.oid, set(trees.values())) if root is not None else {}
    except (CnError, ValueError):
        return {}
    return {head: changes[tree] for head, tree in trees.items() if tree in changes}


def _changes(git: Git, old: Oid, trees: set[Oid]) -> dict[Oid, tuple[Change, ...]]:
    """What each of ``trees`` changes against the tree ``old``."""
    pairs = [(old, tree) for tree in sorted(trees)]
    return read_tree_diffs(diff_trees(git, pairs, "-z", "--raw", "--no-abbrev"))
