"""Lay commits one by one upon another, without a work tree (git-rebase(1), git-merge-tree(1))."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from cn.git.entries import merge_trees
from cn.git.fast_import import commit_again, commit_tree
from cn.git.objects import OUTPUT_BYTES, read_info, unreadable
from cn.git.process import Git
from cn.git.repository import Hub
from cn.values.names import Oid


class Rebased(NamedTuple):
    """The new tip, or the commit that does not fit and the paths at which it conflicts."""

    tip: Oid
    conflicts: tuple[str, ...] = ()


def commits_to_rebase(git: Git, onto: Oid, head: Oid) -> list[Oid]:
    """What ``head`` has beyond ``onto``, oldest first, without merges: see :func:`says_the_same`."""
    return [
        Oid(line) for line in git.run("rev-list", "--reverse", "--topo-order", "--no-merges", f"{onto}..{head}").lines
    ]


def rebase(hub: Hub, onto: Oid, commits: Sequence[Oid], at: datetime) -> Rebased:
    """The commits upon ``onto``, each by git's own merge; one whose changes are there already is left out.

    Only objects are made.
    """
    tip = onto
    for commit in commits:
        (there, theirs, before), parent = _trees(hub.git, tip, commit, f"{commit}^"), _commit(hub.git, f"{commit}^")
        # git merges by what two commits have in common: this one and the commit's parent is all that it finds.
        ours = commit_tree(hub, there, [parent], "cn: rebase", at, unsigned=True)
        merged = merge_trees(hub.git, ours, commit, max_out=OUTPUT_BYTES)
        if merged.tree is None:
            return Rebased(commit, merged.conflicts)
        if merged.tree != there or theirs == before:
            tip = commit_again(hub, commit, merged.tree, [tip], at)
    return Rebased(tip)


def says_the_same(git: Git, onto: Oid, head: Oid, rebased: Oid) -> bool:
    """Does the new tip hold what a merge of ``head`` into ``onto`` would?

    Merges among its commits are left out, and may have changed something themselves.
    """
    if not git.run("rev-list", "--merges", "--max-count=1", f"{onto}..{head}").lines:
        return True
    return merge_trees(git, onto, head, max_out=OUTPUT_BYTES).tree == _trees(git, rebased)[0]


def _trees(git: Git, *names: str) -> list[Oid]:
    return [_commit(git, f"{name}^{{tree}}") for name in names]


def _commit(git: Git, name: str) -> Oid:
    (info,) = read_info(git, [name])
    if info is None:
        raise unreadable("what is to be rebased", name)
    return info.oid
