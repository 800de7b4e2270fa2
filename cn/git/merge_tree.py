"""Read what ``git merge-tree`` answers: a tree, or the paths that conflict (git-merge-tree(1), "OUTPUT")."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from cn.git.entries import Change, diff_trees
from cn.git.objects import read_info, read_object
from cn.git.process import Git, GitError
from cn.values.errors import CnError
from cn.values.names import Oid, parse_oid

_WORDS = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", "--stdin")
_SECONDS = 60.0


class Merged(NamedTuple):
    """The merged tree, or None and the paths that conflict."""

    tree: Oid | None
    conflicts: tuple[str, ...]


def merge_trees(git: Git, ours: str, theirs: str) -> Merged:
    """The merge of two commits; :class:`GitError` where git could not tell."""
    done = git.run(*_WORDS, stdin=f"{ours} {theirs}\n".encode())
    for merged in read_answers(done.out):
        return merged
    raise GitError(done)


def merge_each(git: Git, main: Oid, heads: Sequence[Oid]) -> dict[Oid, tuple[Change, ...]]:
    """Head → what its merge into ``main`` changes there, asked together; heads that conflict are missing.

    All are missing when git cannot do all of them in time: who then asks for one learns why.
    """
    if not heads:
        return {}
    lines = "".join(f"{main} {head}\n" for head in heads)
    try:
        answers = read_answers(git.run(*_WORDS, stdin=lines.encode(), seconds=_SECONDS).out)
        trees = {head: merged.tree for head, merged in zip(heads, answers, strict=True) if merged.tree}
        (root,) = read_info(git, [f"{main}^{{tree}}"])
        pairs = [(root.oid, tree) for tree in sorted(set(trees.values()))] if root else []
        changes = diff_trees(git, pairs)
    except (CnError, ValueError):
        return {}
    return {head: tuple(changes[root.oid, tree]) for head, tree in trees.items()} if root else {}


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
    with tempfile.TemporaryDirectory(prefix="cn-merge-") as folder:
        names = [Path(folder) / name for name in ("ours", "base", "theirs")]
        for name, data in zip(names, (ours, before, theirs), strict=True):
            name.write_bytes(data)
        done = git.run("merge-file", "-p", "--quiet", *map(str, names), check=False)
    return done.out if done.ok else None
