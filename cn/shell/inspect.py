"""What a peer's branch holds, read from objects, never from a checkout (DESIGN 6).

The facts are plain data; :mod:`cn.core.content` makes the thread's text of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from cn.core.config import Limits
from cn.core.content import Commit, FileText, Proposal, Touched
from cn.core.message import FILE
from cn.core.names import Oid
from cn.core.rules import TreeChange
from cn.core.text import decode
from cn.shell.git import Git
from cn.shell.objects import Info, empty_tree, list_tree, read_info, read_objects

_LOG = "--format=%H%x00%an%x00%ae%x00%ad%x00%B"
_COMMITS = 100


def is_message_commit(commit: bytes) -> bool:
    """Has it no parent? Only then its ``message.md`` can be a message."""
    return b"\nparent " not in b"\n" + commit.partition(b"\n\n")[0]


def read_messages(git: Git, heads: Sequence[Oid], limit: int) -> dict[Oid, bytes | None]:
    """Head → bytes of ``message.md``, for parentless commits that have one (None: over ``limit``)."""
    commits = read_objects(git, list(heads))
    roots = [h for h, c in zip(heads, commits, strict=True) if c is not None and is_message_commit(c)]
    infos = read_info(git, [f"{h}:{FILE}" for h in roots])
    have = {h: i for h, i in zip(roots, infos, strict=True) if i is not None and i.kind == "blob"}
    small = [h for h, i in have.items() if i.size <= limit]
    contents = dict(zip(small, read_objects(git, [have[h].oid for h in small]), strict=True))
    return {head: contents.get(head) for head in have}


def read_attachments(git: Git, head: Oid) -> list[str]:
    """The names of what came with a message."""
    return [e.path for e in list_tree(git, head, recursive=True) if e.path != FILE]


def merge_bases(git: Git, ours: str, head: Oid) -> list[Oid]:
    """All merge bases, none for unrelated histories."""
    done = git.run("merge-base", "--all", "--end-of-options", ours, head, check=False)
    return [Oid(line) for line in done.lines] if done.ok else []


def tree_changes(git: Git, old: str, new: str) -> list[TreeChange]:
    """``diff --no-renames`` of two trees or commits, as paths and modes."""
    fields = git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--end-of-options", old, new).fields
    return [
        TreeChange(path, meta.split()[1], meta.split()[0].lstrip(":"))
        for meta, path in zip(fields[::2], fields[1::2], strict=True)
    ]


def read_proposal(git: Git, head: Oid, base: Oid | None, limits: Limits) -> Proposal:
    """Commits, changed files and text of ``head`` since ``base`` (None: everything)."""
    span = [f"{base}..{head}"] if base else [head]
    log = git.run(
        "log", "-z", f"-{_COMMITS + 1}", "--date=iso-strict", _LOG, "--no-color", "--end-of-options", *span
    )
    rows = log.out.decode("utf-8", "surrogateescape").split("\0") if log.out else []
    commits = [
        Commit(Oid(rows[i]), *(_shown(x) for x in rows[i + 1 : i + 5])) for i in range(0, len(rows) - 4, 5)
    ]
    old = base or empty_tree(git)
    touched = _touched(git, old, head)
    texts, left_out = _texts(git, touched, limits)
    return Proposal(
        commits=tuple(commits[:_COMMITS]),
        more_commits=len(commits) > _COMMITS,
        touched=tuple(touched),
        texts=tuple(texts),
        left_out=tuple(left_out),
        base=base,
    )


def _shown(text: str) -> str:
    return decode(text.encode("utf-8", "surrogateescape"))


def _touched(git: Git, old: str, head: Oid) -> list[Touched]:
    raw = git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--end-of-options", old, head).fields
    counts: dict[str, tuple[str, str]] = {}
    for field in git.run(
        "diff-tree", "-r", "-z", "--numstat", "--no-renames", "--end-of-options", old, head
    ).fields:
        added, removed, path = field.split("\t", 2)
        counts[path] = (added, removed)
    found = []
    for meta, path in zip(raw[::2], raw[1::2], strict=True):
        _, mode, old_oid, new_oid, status = meta.split()
        found.append(
            Touched(status[0], path, mode, Oid(old_oid), Oid(new_oid), *counts.get(path, ("-", "-")))
        )
    return found


def _texts(
    git: Git, touched: Sequence[Touched], limits: Limits
) -> tuple[list[FileText], list[tuple[str, str]]]:
    """The new text of added files, old and new text of changed ones; the rest with the reason."""
    left_out: list[tuple[str, str]] = []
    plain = [t for t in touched if t.mode in ("100644", "100755")]
    for t in touched:
        if t.mode in ("120000", "160000"):
            left_out.append((t.path, "symbolic link" if t.mode == "120000" else "submodule"))
    sizes = read_info(git, [o for t in plain for o in (t.new, t.old)])
    wanted: list[Touched] = []
    total = 0
    for i, t in enumerate(plain):
        size = _size(sizes[2 * i]) + (_size(sizes[2 * i + 1]) if t.status == "M" else 0)
        if _size(sizes[2 * i]) > limits.file_bytes or size > 2 * limits.file_bytes:
            left_out.append((t.path, f"{_size(sizes[2 * i])} bytes, over the limit of a file"))
        elif len(wanted) >= limits.files_per_thread or total + size > limits.thread_bytes:
            left_out.append((t.path, "over the limits of a thread"))
        else:
            wanted.append(t)
            total += size
    contents = read_objects(git, [o for t in wanted for o in (t.new, t.old)])
    texts = []
    for i, t in enumerate(wanted):
        new, before = contents[2 * i] or b"", contents[2 * i + 1]
        if b"\0" in new or b"\0" in (before or b""):
            left_out.append((t.path, f"binary, {len(new)} bytes"))
        else:
            texts.append(FileText(t.path, None if t.status == "A" else decode(before or b""), decode(new)))
    return texts, left_out


def _size(info: Info | None) -> int:
    return info.size if info else 0
