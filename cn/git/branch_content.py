"""The text of a thread: what a branch says and changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from cn.git.entries import OUTPUT_BYTES
from cn.git.objects import ask_history, read_info
from cn.git.process import Git, GitError
from cn.protocol.message import Message
from cn.values.names import Oid, too_long
from cn.values.text import one_line, visible


class Commit(NamedTuple):
    """One commit of the branch; ``date`` is ISO 8601 as the author claims it."""

    id: Oid
    author: str
    email: str
    date: str
    message: str


class Touched(NamedTuple):
    """One changed path: status A, M, D or T, new mode, blob ids, lines added and removed ("-": binary)."""

    status: str
    path: str
    mode: str
    old: Oid
    new: Oid
    added: str
    removed: str


class FileText(NamedTuple):
    """The text of one path: ``patch`` are the hunks of a changed file, None if they are not known."""

    path: str
    added: bool
    text: str
    patch: str | None = None


class Proposal(NamedTuple):
    """A branch of changes. ``left_out`` names what the limits or its kind kept out, with the reason."""

    commits: tuple[Commit, ...]
    more_commits: bool
    touched: tuple[Touched, ...]
    texts: tuple[FileText, ...]
    left_out: tuple[tuple[str, str], ...]
    base: Oid | None


_WORDS = {"A": "added", "M": "changed", "D": "deleted", "T": "type changed"}


def format_proposal(proposal: Proposal, limit: int) -> str:
    """Commits, files and text as markdown, still unquoted, at most ``limit`` bytes."""
    lines = ["## Commits", ""]
    for commit in proposal.commits:
        subject, *rest = commit.message.strip().splitlines() or [""]
        lines.append(
            f"- {commit.id[:10]} {one_line(commit.author, 60)} <{one_line(commit.email, 80)}>"
            f" {one_line(commit.date, 30)}: {one_line(subject)}"
        )
        lines += [f"  {line}" if line.strip() else "" for line in rest]
    if proposal.more_commits:
        lines.append(f"- … and more (the last {len(proposal.commits)} are shown)")
    lines += ["", "## Files", ""]
    for touched in proposal.touched[:1000]:
        counts = f" (+{touched.added} −{touched.removed})" if touched.added != "-" else " (binary)"
        lines.append(f"- {_WORDS.get(touched.status, touched.status)} {_path(touched.path)}{counts}")
    if len(proposal.touched) > 1000:
        lines.append(f"- … and {len(proposal.touched) - 1000} more")
    if not proposal.touched:
        lines.append("(no file changed)")
    for path in (t.path for t in proposal.touched if too_long(t.path)):
        lines += ["", f"(This cannot be merged: {_path(path)[:100]}… is too long a name: {too_long(path)}.)"]
        break
    for text in proposal.texts:
        word = "added" if text.added else "changed"
        lines += ["", f"## {_path(text.path)} ({word})", "", *_body(text)]
    if proposal.left_out:
        lines += ["", "## Not shown", ""]
        lines += [f"- {_path(path)}: {reason}" for path, reason in proposal.left_out[:1000]]
    return _cap("\n".join(lines), limit)


def _path(path: str) -> str:
    """A path on one line; the bytes of it that are no UTF-8 as hexadecimal escapes."""
    return one_line("".join(f"\\x{ord(c) - 0xDC00:02x}" if "\udc80" <= c <= "\udcff" else c for c in path), 300)


def _body(text: FileText) -> list[str]:
    if text.added:
        return text.text.splitlines()
    if text.patch is None:
        return ["(the new text)", "", *text.text.splitlines()]
    return text.patch.splitlines()


def format_message_content(message: Message, attachments: list[str], limit: int) -> str:
    """A message as markdown, still unquoted."""
    lines = [f"# {one_line(message.subject) or '(no subject)'}", ""]
    lines.append(f"{message.kind} from {message.sender}, written {message.created:%Y-%m-%dT%H:%MZ}")
    if message.in_reply_to:
        lines.append(f"in reply to {one_line(message.in_reply_to)}")
    if message.about:
        lines.append(f"about {one_line(message.about.branch)} at {message.about.head[:10]}: {message.about.status}")
    if message.body:
        lines += ["", message.body]
    if attachments:
        lines += ["", "## Attachments", "", *(f"- {_path(name)}" for name in attachments[:200])]
    return _cap("\n".join(lines), limit)


def _cap(text: str, limit: int) -> str:
    shown = visible(text) if len(text) > limit else text
    data = shown.encode("utf-8", "replace")
    if len(data) <= limit:
        return shown
    return data[:limit].decode("utf-8", "ignore") + f"\n\n… cut here: {len(data) - limit} bytes more"


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
