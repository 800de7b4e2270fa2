"""Read many branches with few processes.

:mod:`cn.git.read_branch` reads any branch, with six to eight processes each. Nearly all are
*simple*: a few commits in a row on one commit of main, plain files within the limits.
Those are read together, a bounded number of processes for any number of branches: 1,000
new branches took 65 s one by one, and 0.6 s so. What is not simple, or made git say too
much, is left to the careful reader; both give the same (a property test compares them).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from cn.git.branch_content import Commit, FileText, Proposal, Touched
from cn.git.diff_many import by_head, diff_trees, halving
from cn.git.objects import read_info, read_known
from cn.git.process import Git
from cn.git.read_branch import COMMITS, LOG, OUTPUT_BYTES, PATH_BYTES, as_text, hunks_of
from cn.protocol.hub_config import Limits
from cn.values.names import Oid
from cn.values.text import decode

_PLAIN = {"000000", "100644", "100755"}
_HEADS = 250
"""How many branches are read together: bounds memory, and what one bad branch makes slow."""
_BYTES = 4 << 20
"""Bytes of old and new files that are compared and read in one go."""
_COMMIT_LINE = re.compile(rb"^([0-9a-f]{40}|[0-9a-f]{64})\n", re.MULTILINE)


class _Draft(NamedTuple):
    """A simple branch on the way to a proposal; ``size`` is that of its files, old and new."""

    head: Oid
    base: Oid
    commits: tuple[Commit, ...]
    touched: tuple[Touched, ...] = ()
    size: int = 0


def read_simple_proposals(
    git: Git, main: Oid, heads: Sequence[Oid], limits: Limits
) -> Iterator[tuple[Oid, Proposal]]:
    """The proposals of the simple branches among ``heads``; the others are not answered."""
    unique = list(dict.fromkeys(heads))
    for start in range(0, len(unique), _HEADS):
        drafts = halving(unique[start : start + _HEADS], lambda some: _chains(git, main, some))
        drafts = halving(drafts, lambda some: _with_changes(git, some))
        for group in _grouped(_within(git, drafts, limits)):
            yield from halving(group, lambda some: _proposals(git, some))


def _chains(git: Git, main: Oid, heads: Sequence[Oid]) -> list[_Draft]:
    """The branches that are at most so many commits in a row, with a base in main.

    Without what each commit changes: between two trees that nest the same folder again and again that
    takes any time, and of all but the first and the last of a branch nobody wants to know.
    """
    log = git.run(
        "log",
        "-z",
        "--date=iso-strict",
        f"{LOG}%x00%P",
        "--no-color",
        "--stdin",
        stdin="\n".join([f"^{main}", *heads, ""]).encode(),
        max_out=OUTPUT_BYTES,
    )
    rows = log.out.decode("utf-8", "surrogateescape").split("\0") if log.out else []
    new: dict[Oid, tuple[Commit, list[Oid]]] = {}
    for i in range(0, len(rows) - 5, 6):
        commit = Commit(Oid(rows[i]), *(as_text(x) for x in rows[i + 1 : i + 5]))
        new[commit.id] = commit, [Oid(parent) for parent in rows[i + 5].split()]
    found = []
    for head in heads:
        chain: list[Commit] = []
        at: Oid | None = head
        while at in new and len(chain) < COMMITS:
            commit, parents = new[at]
            chain.append(commit)
            at = parents[0] if len(parents) == 1 else None
        # What log did not list is in main: the one place where the branch leaves it.
        if at is not None and at not in new and chain:
            found.append(_Draft(head, at, tuple(chain)))
    return found


def _diff(git: Git, drafts: Sequence[_Draft], *flags: str) -> bytes:
    return diff_trees(git, [(d.head, d.base) for d in drafts], *flags)


def _fields(out: bytes, drafts: Sequence[_Draft], size: int) -> dict[str, list[str]]:
    return by_head(out, {str(d.head) for d in drafts}, size)


def _with_changes(git: Git, drafts: Sequence[_Draft]) -> list[_Draft]:
    raw = _fields(_diff(git, drafts, "-z", "--raw", "--no-abbrev"), drafts, 2)
    full = []
    for draft in drafts:
        fields = raw.get(draft.head, [])
        metas = [meta.lstrip(":").split() for meta in fields[::2]]
        # Links, submodules and changes of type: the careful reader says what it leaves out.
        if all(old in _PLAIN and new in _PLAIN for old, new, *_ in metas):
            touched = [
                Touched(status[0], path, mode, Oid(old), Oid(new), "-", "-")
                for (_, mode, old, new, status), path in zip(metas, fields[1::2], strict=True)
            ]
            full.append(draft._replace(touched=tuple(touched)))
    return full


def _within(git: Git, drafts: Sequence[_Draft], limits: Limits) -> list[_Draft]:
    """Those of which everything is shown, judged by the sizes of the files."""
    infos = iter(read_info(git, [oid for d in drafts for t in d.touched for oid in (t.new, t.old)]))
    kept = []
    for draft in drafts:
        total, fits = 0, len(draft.touched) <= limits.files_per_thread
        for t in draft.touched:
            new, old = next(infos), next(infos)
            sizes = (new.size if new else 0), (old.size if old else 0)
            fits = fits and max(sizes) <= limits.file_bytes and len(t.path) <= PATH_BYTES
            total += sum(sizes)
        if fits and total <= limits.thread_bytes:
            kept.append(draft._replace(size=total))
    return kept


def _grouped(drafts: Sequence[_Draft]) -> Iterator[list[_Draft]]:
    group, size = list[_Draft](), 0
    for draft in drafts:
        if group and size + draft.size > _BYTES:
            yield group
            group, size = [], 0
        group.append(draft)
        size += draft.size
    if group:
        yield group


def _proposals(git: Git, drafts: Sequence[_Draft]) -> list[tuple[Oid, Proposal]]:
    counts = _fields(_diff(git, drafts, "-z", "--numstat"), drafts, 1)
    plain = [(d, t) for d in drafts for t in d.touched if t.mode != "000000"]
    contents = iter(read_known(git, [oid for _, t in plain for oid in (t.new, t.old)]))
    texts: dict[Oid, list[FileText]] = {}
    left_out: dict[Oid, list[tuple[str, str]]] = {}
    for draft, t in plain:
        new, old = next(contents), next(contents)
        if b"\0" in new or b"\0" in old:
            left_out.setdefault(draft.head, []).append((t.path, f"binary, {len(new)} bytes"))
        else:
            texts.setdefault(draft.head, []).append(FileText(t.path, t.status == "A", decode(new)))
    patches = _patches(git, drafts, texts)
    return [
        (
            draft.head,
            Proposal(
                commits=draft.commits,
                more_commits=False,
                touched=_counted(draft.touched, counts.get(draft.head, [])),
                texts=tuple(
                    t if t.added else t._replace(patch=patches.get(draft.head, {}).get(t.path))
                    for t in texts.get(draft.head, [])
                ),
                left_out=tuple(left_out.get(draft.head, [])),
                base=draft.base,
            ),
        )
        for draft in drafts
    ]


def _counted(touched: Sequence[Touched], numstat: Sequence[str]) -> tuple[Touched, ...]:
    """Lines added and removed; a file that the branch deletes is not counted."""
    counts = {path: (added, removed) for added, removed, path in (f.split("\t", 2) for f in numstat)}
    return tuple(
        t._replace(added=counts[t.path][0], removed=counts[t.path][1])
        if t.mode != "000000" and t.path in counts
        else t
        for t in touched
    )


def _patches(
    git: Git, drafts: Sequence[_Draft], texts: Mapping[Oid, Sequence[FileText]]
) -> dict[Oid, dict[str, str]]:
    """The hunks of changed text files: head → path → text."""
    changed = {head: paths for head in texts if (paths := [t.path for t in texts[head] if not t.added])}
    wanted = [d for d in drafts if d.head in changed]
    if not wanted:
        return {}
    flags = ("-p", "-U3", "--diff-filter=M", "--no-ext-diff", "--no-textconv", "--no-color")
    # Every line of a hunk starts with a mark of its own, so a bare id starts the next branch.
    parts = _COMMIT_LINE.split(_diff(git, wanted, *flags))
    modified = {d.head: [t.path for t in d.touched if t.status == "M"] for d in wanted}
    pairs = zip((Oid(head.decode()) for head in parts[1::2]), parts[2::2], strict=True)
    return {head: hunks_of(part, modified[head]) for head, part in pairs}
