"""Read what a peer's branch holds, from objects, never from a checkout.

The facts are plain data; :mod:`cn.git.branch_content` makes the thread's text of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cn.git.branch_content import Commit, FileText, Proposal, Touched
from cn.git.objects import Info, ask_history, empty_tree, read_info, read_known, read_objects
from cn.git.process import Git
from cn.protocol.hub_config import Limits
from cn.protocol.message import FILE
from cn.protocol.rules import TreeChange
from cn.values.names import Oid
from cn.values.text import decode

LOG = "--format=%H%x00%an%x00%ae%x00%ad%x00%B"
COMMITS = 100
_COMMIT_BYTES = 1 << 20
OUTPUT_BYTES = 8 << 20
PATH_BYTES = 1000
DIFF_SECONDS = 20.0


def read_commits(git: Git, heads: Sequence[Oid]) -> dict[Oid, bytes]:
    """Head → the commit's bytes, but for those that are too large for what cn asks of them."""
    known = zip(heads, read_info(git, list(heads)), strict=True)
    short = [h for h, info in known if info is not None and info.size <= _COMMIT_BYTES]
    return {h: c for h, c in zip(short, read_objects(git, short), strict=True) if c is not None}


def is_message_commit(commit: bytes) -> bool:
    """Has it no parent? Only then its ``message.md`` can be a message."""
    return b"\nparent " not in b"\n" + commit.partition(b"\n\n")[0]


def is_signed(commit: bytes) -> bool:
    """Has it a signature, whatever it is worth? Else git need not be asked for it (git's ``commit.c``)."""
    return b"\ngpgsig" in commit.partition(b"\n\n")[0]


def read_messages(git: Git, commits: Mapping[Oid, bytes], limit: int) -> dict[Oid, bytes | None]:
    """Head → bytes of ``message.md``, for parentless commits that have one (None: over ``limit``)."""
    roots = [head for head, commit in commits.items() if is_message_commit(commit)]
    infos = read_info(git, [f"{h}:{FILE}" for h in roots])
    have = {h: i for h, i in zip(roots, infos, strict=True) if i is not None and i.kind == "blob"}
    small = [h for h, i in have.items() if i.size <= limit]
    contents = dict(zip(small, read_objects(git, [have[h].oid for h in small]), strict=True))
    return {head: contents.get(head) for head in have}


def read_attachments(git: Git, head: Oid) -> list[str]:
    """The names of what came with a message."""
    done = git.run(
        "ls-tree", "-r", "-z", "--name-only", "--end-of-options", head, check=False, max_out=OUTPUT_BYTES
    )
    return [name for name in done.fields if name != FILE] if done.ok else ["(too many to list)"]


def merge_bases(git: Git, ours: str, head: Oid) -> list[Oid]:
    """All merge bases, none for unrelated histories."""
    done = ask_history(git, ("merge-base", "--all", "--end-of-options", ours, head), (ours, head))
    return [Oid(line) for line in done.lines] if done.ok else []


def tree_changes(git: Git, old: str, new: str) -> list[TreeChange]:
    """``diff --no-renames`` of two trees or commits, as paths and modes."""
    fields = _raw_changes(git, old, new)
    return [
        TreeChange(path, meta.split()[1], meta.split()[0].lstrip(":"))
        for meta, path in zip(fields[::2], fields[1::2], strict=True)
    ]


def read_proposal(git: Git, head: Oid, base: Oid | None, limits: Limits) -> Proposal:
    """Commits, changed files and text of ``head`` since ``base`` (None: everything)."""
    span = [f"{base}..{head}"] if base else [head]
    log = git.run(
        "log",
        "-z",
        f"-{COMMITS + 1}",
        "--date=iso-strict",
        LOG,
        "--no-color",
        "--end-of-options",
        *span,
        max_out=OUTPUT_BYTES,
    )
    rows = log.out.decode("utf-8", "surrogateescape").split("\0") if log.out else []
    commits = [
        Commit(Oid(rows[i]), *(as_text(x) for x in rows[i + 1 : i + 5])) for i in range(0, len(rows) - 4, 5)
    ]
    old = base or empty_tree(git)
    touched = _touched(git, old, head)
    shown, left_out = _within(git, touched, limits)
    touched = _counted(git, old, head, touched, shown)
    texts = _texts(git, old, head, shown, left_out)
    return Proposal(
        commits=tuple(commits[:COMMITS]),
        more_commits=len(commits) > COMMITS,
        touched=tuple(touched),
        texts=tuple(texts),
        left_out=tuple(left_out),
        base=base,
    )


def as_text(text: str) -> str:
    """Text of git's, split at NUL, with undecodable bytes made visible."""
    return decode(text.encode("utf-8", "surrogateescape"))


def _raw_changes(git: Git, old: str, new: str) -> list[str]:
    """``diff-tree --raw -z`` as fields; a tree that unfolds to millions of paths is not read to its end."""
    args = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--end-of-options", old, new)
    return git.run(*args, max_out=OUTPUT_BYTES, seconds=DIFF_SECONDS).fields


def _touched(git: Git, old: str, head: Oid) -> list[Touched]:
    raw = _raw_changes(git, old, head)
    found = []
    for meta, path in zip(raw[::2], raw[1::2], strict=True):
        _, mode, old_oid, new_oid, status = meta.split()
        found.append(Touched(status[0], path, mode, Oid(old_oid), Oid(new_oid), "-", "-"))
    return found


def _counted(
    git: Git, old: str, head: Oid, touched: Sequence[Touched], shown: Sequence[Touched]
) -> list[Touched]:
    """Lines added and removed, for the files that are small enough to be looked at.

    A file that the branch deletes is not counted, also where git tells of it: its folder became a file.
    """
    paths = [t.path for t in shown if len(t.path) <= PATH_BYTES]
    if not paths:
        return list(touched)
    args = ("diff-tree", "-r", "-z", "--numstat", "--no-renames", old, head, "--", *paths)
    done = git.run(*args, check=False, max_out=OUTPUT_BYTES, seconds=DIFF_SECONDS)
    counts: dict[str, tuple[str, str]] = {}
    for field in done.fields if done.ok else []:
        added, removed, path = field.split("\t", 2)
        counts[path] = (added, removed)
    return [
        t._replace(added=counts[t.path][0], removed=counts[t.path][1])
        if t.mode != "000000" and t.path in counts
        else t
        for t in touched
    ]


def _patches(git: Git, old: str, head: Oid, changed: Sequence[str]) -> dict[str, str]:
    """The hunks of changed text files, by git's own diff, within a time limit; path → text."""
    paths = [path for path in changed if len(path) <= PATH_BYTES]
    if not paths:
        return {}
    args = (
        "diff-tree",
        "-r",
        "-p",
        "-U3",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        old,
        head,
    )
    done = git.run(*args, "--", *paths, check=False, max_out=OUTPUT_BYTES, seconds=DIFF_SECONDS)
    return hunks_of(done.out, paths) if done.ok else {}


def hunks_of(diff: bytes, paths: Sequence[str]) -> dict[str, str]:
    """The hunks in ``diff``, which holds exactly the files ``paths``; path → text. Nothing if it does not."""
    # Every line of a hunk starts with a mark of its own, so "diff --git" starts a file.
    parts = ("\n" + decode(diff)).split("\ndiff --git ")[1:]
    hunks = [part.partition("\n@@ ") for part in parts]
    ordered = sorted(paths, key=lambda path: path.encode("utf-8", "surrogateescape"))
    if len(hunks) != len(ordered):
        return {}
    return {path: "@@ " + rest for path, (_, mark, rest) in zip(ordered, hunks, strict=True) if mark}


def _within(
    git: Git, touched: Sequence[Touched], limits: Limits
) -> tuple[list[Touched], list[tuple[str, str]]]:
    """The files to show, judged by size before any is read; the rest with the reason."""
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
    return wanted, left_out


def _texts(
    git: Git, old: str, head: Oid, shown: Sequence[Touched], left_out: list[tuple[str, str]]
) -> list[FileText]:
    """The new text of added files, the hunks of changed ones."""
    contents = read_known(git, [o for t in shown for o in (t.new, t.old)])
    texts: list[FileText] = []
    for i, t in enumerate(shown):
        new, before = contents[2 * i], contents[2 * i + 1]
        if b"\0" in new or b"\0" in before:
            left_out.append((t.path, f"binary, {len(new)} bytes"))
        else:
            texts.append(FileText(t.path, t.status == "A", decode(new), None))
    patches = _patches(git, old, head, [t.path for t in texts if not t.added])
    return [t if t.added else t._replace(patch=patches.get(t.path)) for t in texts]


def _size(info: Info | None) -> int:
    return info.size if info else 0
