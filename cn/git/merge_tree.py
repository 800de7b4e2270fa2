"""Read what ``git merge-tree`` answers: a tree, or the paths that conflict (git-merge-tree(1), "OUTPUT")."""

from __future__ import annotations

from collections.abc import Iterator

from cn.git.entries import Change, parse_change
from cn.git.process import Done, Git, GitError
from cn.values.errors import Refused
from cn.values.names import Oid, parse_oid
from cn.values.text import one_line

_WORDS = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages")


def merge_trees(git: Git, ours: str, theirs: str) -> tuple[Oid | None, tuple[str, ...]]:
    """The merged tree, or None and the conflicting paths; :class:`GitError` where git could do neither."""
    return read_merge(git.run(*_WORDS, ours, theirs, check=False))


def read_merge(done: Done) -> tuple[Oid | None, tuple[str, ...]]:
    """The same, read from what git said."""
    fields = done.fields
    if done.code == 0 and fields:
        return parse_oid(fields[0]), ()
    if done.code == 1 and fields:
        return None, tuple(dict.fromkeys(f for f in fields[1:] if f))
    raise GitError(done)  # no conflict: git could not do it here and now


def ask_merges(git: Git, lines: str, seconds: float) -> list[Oid | None]:
    """Per line (two commits) the merged tree, None for a conflict; asked together."""
    return list(read_answers(git.run(*_WORDS, "--stdin", stdin=lines.encode(), seconds=seconds).out))


def read_answers(out: bytes) -> Iterator[Oid | None]:
    """Per merge the tree, None for a conflict ("INPUT FORMAT")."""
    fields = iter(out.split(b"\0")[:-1])
    for clean in fields:
        tree = next(fields, b"").decode("ascii", "replace")
        while next(fields, b""):
            pass  # the paths that conflict, up to the empty field that ends an answer
        yield parse_oid(tree) if clean == b"1" else None


def read_tree_diffs(out: bytes) -> dict[Oid, tuple[Change, ...]]:
    """``diff-tree --stdin --raw -z`` of pairs of trees: per second tree, what differs (git-diff-tree(1))."""
    found: dict[Oid, list[Change]] = {}
    entries = iter(out.decode("utf-8", "surrogateescape").split("\0"))
    entry = list[Change]()
    for field in entries:
        *headers, meta = field.split("\n")  # "OLD NEW" and a line feed come before what differs
        for header in headers:
            entry = found.setdefault(parse_oid(header.partition(" ")[2]), [])
        if meta:
            try:
                entry.append(parse_change(meta, next(entries)))
            except (ValueError, StopIteration):
                raise Refused(f"git diff-tree says what cn does not know: {one_line(meta, 80)}") from None
    return {tree: tuple(changes) for tree, changes in found.items()}
