"""Diff many branches with one git, so that one bad branch does not spoil the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from cn.git.objects import ask_history, read_info
from cn.git.process import Git, GitError
from cn.values.names import Oid

OUTPUT_BYTES = 8 << 20
DIFF_SECONDS = 20.0
_SLOW = 3
"""After so many commits that took all the time, others are not asked for alone."""

_T = TypeVar("_T")
_R = TypeVar("_R")


def read_in_halves(
    items: Sequence[_T],
    read: Callable[[Sequence[_T]], list[_R]],
    failed: Callable[[_T, GitError], list[_R]] = lambda _, __: [],
    given_up: Callable[[_T], bool] = lambda _: False,
) -> list[_R]:
    """``read`` of all at once; where git fails or says too much, in halves down to the bad one.

    ``failed`` is what one item stands for that git cannot answer even alone. What is ``given_up`` by then
    is not asked for once more.
    """
    if not items:
        return []
    try:
        return read(items)
    except GitError as error:
        if len(items) == 1:
            return failed(items[0], error)
    left = [item for item in items if not given_up(item)]
    half = len(left) // 2
    first = read_in_halves(left[:half], read, failed, given_up)
    return first + read_in_halves([item for item in left[half:] if not given_up(item)], read, failed, given_up)


def contained(git: Git, tip: Oid, commits: Sequence[Oid]) -> set[Oid]:
    """Which of ``commits`` (they may be missing) are part of the history of ``tip``.

    One that git cannot tell of within the limits is not; after some that took all the time, the others that
    git failed over are not either.
    """
    asked = list(dict.fromkeys(commits))
    infos = zip(asked, read_info(git, asked), strict=True)
    there = [commit for commit, info in infos if info is not None and info.kind == "commit"]

    def read(some: Sequence[Oid]) -> list[Oid]:
        lines = "\n".join([f"^{tip}", *some, ""]).encode()
        others = set(git.run("rev-list", "--stdin", stdin=lines, max_out=OUTPUT_BYTES).lines)
        return [commit for commit in some if commit not in others]

    slow = list[Oid]()

    def failed(commit: Oid, error: GitError) -> list[Oid]:
        if not error.done.limited:
            raise error
        slow.extend([commit] if error.done.timed_out else [])
        return []

    return set(read_in_halves(there, read, failed, lambda _: len(slow) >= _SLOW))


def merge_bases(git: Git, ours: str, head: Oid) -> list[Oid]:
    """All merge bases, none for unrelated histories."""
    done = ask_history(git, ("merge-base", "--all", "--end-of-options", ours, head), (ours, head))
    return [Oid(line) for line in done.lines] if done.ok else []


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
