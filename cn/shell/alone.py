"""What git makes of merges into main as the run began, for any number of them with three processes.

``git merge-tree --stdin`` answers only at its end, so it cannot merge one branch upon the other.
:mod:`cn.shell.merging` lays these answers upon each other where git would come to the same: 50
merges that rename start 3 processes for it, not 150.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cn.core.names import Oid, parse_oid
from cn.shell.batch import diff_trees
from cn.shell.entries import Change, parse_change
from cn.shell.git import Git, GitError
from cn.shell.objects import read_info

_SECONDS = 60.0


def merge_alone(git: Git, main: Oid, heads: Sequence[Oid]) -> dict[Oid, tuple[Change, ...]]:
    """Head → what merging it into ``main`` changes there; heads that conflict are missing.

    All are missing when git cannot do all of them in time: who then asks for one learns why.
    """
    if not heads:
        return {}
    lines = "".join(f"{main} {head}\n" for head in heads)
    words = ("merge-tree", "--write-tree", "--stdin", "-z", "--name-only", "--no-messages")
    try:
        out = git.run(*words, stdin=lines.encode(), seconds=_SECONDS).out
        trees = {head: tree for head, tree in zip(heads, _answers(out), strict=True) if tree is not None}
        (root,) = read_info(git, [f"{main}^{{tree}}"])
        changes = _changes(git, root.oid, set(trees.values())) if root is not None else {}
    except (GitError, ValueError):
        return {}
    return {head: changes[tree] for head, tree in trees.items() if tree in changes}


def _answers(out: bytes) -> Iterator[Oid | None]:
    """Per merge the tree, None for a conflict (git-merge-tree(1), "INPUT FORMAT" and "OUTPUT")."""
    fields = iter(out.split(b"\0")[:-1])
    for clean in fields:
        tree = next(fields, b"").decode()
        while next(fields, b""):
            pass  # the paths that conflict, up to the empty field that ends an answer
        yield parse_oid(tree) if clean == b"1" else None


def _changes(git: Git, old: Oid, trees: set[Oid]) -> dict[Oid, tuple[Change, ...]]:
    """What each of ``trees`` changes against the tree ``old``."""
    found: dict[Oid, list[Change]] = {}
    pairs = [(old, tree) for tree in sorted(trees)]
    fields = diff_trees(git, pairs, "-z", "--raw", "--no-abbrev").decode("utf-8", "surrogateescape")
    entries = iter(fields.split("\0"))
    entry = list[Change]()
    for field in entries:
        *headers, meta = field.split("\n")  # "OLD NEW" and a line feed come before what differs
        for header in headers:
            entry = found.setdefault(parse_oid(header.partition(" ")[2]), [])
        if meta:
            entry.append(parse_change(meta, next(entries)))
    return {tree: tuple(changes) for tree, changes in found.items()}
