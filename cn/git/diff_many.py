"""Diff many branches with one git, so that one bad branch does not spoil the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from cn.git.process import Git, GitError
from cn.git.read_branch import DIFF_SECONDS, OUTPUT_BYTES
from cn.values.names import Oid

_T = TypeVar("_T")
_R = TypeVar("_R")


def halving(
    items: Sequence[_T],
    read: Callable[[Sequence[_T]], list[_R]],
    failed: Callable[[_T, GitError], list[_R]] = lambda _, __: [],
) -> list[_R]:
    """``read`` of all at once; where git fails or says too much, in halves down to the bad one.

    ``failed`` is what one item stands for that git cannot answer even alone.
    """
    if not items:
        return []
    try:
        return read(items)
    except GitError as error:
        if len(items) == 1:
            return failed(items[0], error)
    half = len(items) // 2
    return halving(items[:half], read, failed) + halving(items[half:], read, failed)


def diff_trees(git: Git, pairs: Sequence[tuple[Oid, Oid]], *flags: str, recursive: bool = True) -> bytes:
    """``diff-tree`` of many (new, old) pairs of commits; each answer follows the id of its new one."""
    lines = "".join(f"{new} {old}\n" for new, old in pairs)
    args = ("diff-tree", "--stdin", "--no-renames", *(["-r"] if recursive else []), *flags)
    return git.run(*args, stdin=lines.encode(), max_out=OUTPUT_BYTES, seconds=DIFF_SECONDS).out


def by_head(out: bytes, heads: set[str], size: int) -> dict[str, list[str]]:
    """The fields of ``diff-tree -z`` per head; an entry has ``size`` fields."""
    found: dict[str, list[str]] = {}
    fields = out.decode("utf-8", "surrogateescape").rstrip("\0").split("\0") if out else []
    at, entries = 0, list[str]()
    while at < len(fields):
        if fields[at] in heads:
            entries = found.setdefault(fields[at], [])
            at += 1
        else:
            entries += fields[at : at + size]
            at += size
    return found
