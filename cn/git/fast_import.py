"""Build commits away from index, work tree and refs, in one ``fast-import`` stream.

See git-fast-import(1). The stream names a branch, as it must, and resets it before the
end: fast-import then writes no ref (``reset`` without ``from``).
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from cn.git.entries import Entry
from cn.git.objects import read_info, read_object, unreadable
from cn.git.process import Done, GitError
from cn.git.repository import Hub
from cn.git.signatures import why_unsigned
from cn.values.errors import Blocked
from cn.values.names import HubPath, NameRefused, Oid, parse_hub_path, parse_oid
from cn.values.text import decode

BRANCH = "refs/cn/build"
"""What the stream names. No ref, but git's report of a crash holds it."""
_IMPORT = ("fast-import", "--quiet", "--done", "--force", "--date-format=raw")
_SIGN_SECONDS = 60.0
_END_SECONDS = 5.0
_PARTS = ("NAME", "EMAIL", "DATE")


class FileChange(NamedTuple):
    """A file to write (``content``) or to delete (None)."""

    path: HubPath
    content: bytes | None
    mode: str = "100644"


class EntryChange(NamedTuple):
    """An entry to set to an object that the repository has."""

    path: str
    mode: str
    oid: Oid


def set_entry(path: str, entry: Entry | None) -> FileChange | EntryChange:
    """The change after which a path has this entry (None: none)."""
    return EntryChange(path, entry.mode, entry.oid) if entry else FileChange(HubPath(path), None)


def written_paths(changes: Iterable[FileChange | EntryChange]) -> list[str]:
    """Where they put a file; the others take one away."""
    return [c.path for c in changes if isinstance(c, EntryChange) or c.content is not None]


def build_commit(
    hub: Hub,
    *,
    base: Oid,
    parents: tuple[Oid, ...],
    changes: Sequence[FileChange | EntryChange],
    message: str,
    at: datetime,
    scratch: bool = False,
) -> Oid:
    """The commit of ``base``'s tree with ``changes``; ``base`` itself if that changes nothing.

    ``base`` may also be a tree. Author and committer are the repository's identity at
    ``at``; signed when ``cn.sign`` or ``commit.gpgSign`` says so, unless it is only a
    ``scratch`` step towards another commit. No ref moves.
    """
    if not changes and parents == (base,):
        return base
    stream = CommitStream(hub)
    try:
        tree = None if parents[:1] == (base,) else _trees_of(hub, base)[0]
        oid = stream.commit(parents, changes, message, at, tree)
        stream.close()
    except BaseException:
        stream.abandon()
        raise
    built, before = _trees_of(hub, oid, base)
    if parents == (base,) and built == before:
        return base
    if hub.signs and not scratch:
        return commit_tree(hub, built, parents, message, at)
    return oid


class CommitStream:
    """Commits built upon each other in one ``fast-import``; each id is answered at once.

    Their objects are there for other processes only after :meth:`close`. 1,000 merges took
    30 s with three processes each, and 0.6 s so. Those of :meth:`commit` are not signed.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._child: subprocess.Popen[bytes] | None = None
        self._marks: dict[Oid, int] = {}
        self._count = 0

    def commit(
        self,
        parents: tuple[Oid, ...],
        changes: Sequence[FileChange | EntryChange],
        message: str,
        at: datetime,
        tree: Oid | None = None,
    ) -> Oid:
        """The commit of the first parent's tree (or another ``tree``) with ``changes``."""
        for change in changes:
            if isinstance(change, FileChange):
                parse_hub_path(change.path)  # fast-import takes ".." as it comes
        self._count += 1  # not by the marks: the same commit, asked for twice, is one of them
        number = self._count
        names = tuple(f":{self._marks[p]}" if p in self._marks else str(p) for p in parents)
        parts = _commit_parts(self._hub.identity, number, tree, names, changes, _clean_message(message), at)
        if self._child is None:
            self._child = self._hub.git.start(*_IMPORT)
        stdin, stdout = self._child.stdin, self._child.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.writelines(parts)  # one after the other: joined, 10,000 new threads are 25 MB more
            stdin.write(f"\nget-mark :{number}\n".encode())
            stdin.flush()
            oid = parse_oid(stdout.readline().decode().strip())
        except (OSError, NameRefused) as broken:
            raise self._broken() from broken
        self._marks[oid] = number
        return oid

    def close(self) -> None:
        """Make the objects readable for all. The stream may be used again."""
        child, self._child = self._child, None
        if child is None:
            return
        self._marks = {}
        _, err = child.communicate(f"reset {BRANCH}\n\ndone\n".encode())
        if child.returncode:
            raise self._failed(child, err)

    def _broken(self) -> Blocked:
        """What was built in this stream is lost, and with it the run."""
        child, self._child = self._child, None
        assert child is not None
        with suppress(subprocess.TimeoutExpired):
            child.wait(_END_SECONDS)  # it is ending by itself: killed, it would not say why
        child.kill()
        _, err = child.communicate()
        return self._failed(child, err)

    def _failed(self, child: subprocess.Popen[bytes], err: bytes) -> Blocked:
        """No thread is to blame, as :class:`GitError` may say: nothing of this run can be committed."""
        with suppress(OSError):
            (self._hub.git_dir / f"fast_import_crash_{child.pid}").unlink()
        why = GitError(Done(_IMPORT, child.returncode, b"", decode(err)))
        return Blocked(why.text, why.hint)

    def abandon(self) -> None:
        """End the child, whatever it holds."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.communicate()


def _commit_parts(
    identity: tuple[str, str],
    mark: int,
    tree: Oid | None,
    parents: tuple[str, ...],
    changes: Sequence[FileChange | EntryChange],
    text: bytes,
    at: datetime,
) -> Iterator[bytes]:
    """One commit for fast-import; ``parents`` are ids or marks, ``tree`` None keeps the first one's."""
    who = f"{identity[0]} <{identity[1]}> {int(at.timestamp())} +0000"
    head = [f"commit {BRANCH}", f"mark :{mark}", f"author {who}", f"committer {who}", f"data {len(text)}"]
    yield "\n".join(head).encode() + b"\n" + text + b"\n"
    for word, parent in zip(["from", *["merge"] * len(parents)], parents, strict=False):
        yield f"{word} {parent}\n".encode()
    if tree is not None:
        yield f'M 040000 {tree} ""\n'.encode()
    # Deletions first: a file may give way to a folder of the same name.
    for change in sorted(changes, key=lambda c: bool(written_paths([c]))):
        path = _quoted(change.path)
        match change:
            case FileChange(content=None):
                yield b"D " + path + b"\n"
            case FileChange(content=bytes() as content, mode=mode):
                yield f"M {mode} inline ".encode() + path + f"\ndata {len(content)}\n".encode()
                yield content
                yield b"\n"
            case EntryChange(mode=mode, oid=oid):
                yield f"M {mode} {oid} ".encode() + path + b"\n"


def _trees_of(hub: Hub, *names: Oid) -> list[Oid]:
    trees = []
    for name, info in zip(names, read_info(hub.git, [f"{name}^{{tree}}" for name in names]), strict=True):
        if info is None:
            raise unreadable("the tree of what cn builds on", name)
        trees.append(info.oid)
    return trees


def _quoted(path: str) -> bytes:
    raw = path.encode("utf-8", "surrogateescape")
    return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'


def _clean_message(message: str) -> bytes:
    """git's commits hold no NUL and end with one line feed."""
    text = message.replace("\0", "").strip("\n") + "\n"
    return text.encode("utf-8", "replace")


def commit_tree(
    hub: Hub, tree: Oid, parents: Sequence[Oid], message: str, at: datetime, *, unsigned: bool = False
) -> Oid:
    """The commit of a tree that is there already, readable at once, and signed where the hub signs."""
    words = _Words(*hub.identity, f"@{int(at.timestamp())} +0000", "UTF-8", _clean_message(message))
    return _commit_tree(hub, tree, parents, words, at, sign=hub.signs and not unsigned)


def commit_again(hub: Hub, commit: Oid, tree: Oid, parents: Sequence[Oid], at: datetime) -> Oid:
    """A commit once more, on another tree and other parents: its author, date and message are kept.

    The hub commits it, and signs it where it signs; an earlier signature was for another commit.
    """
    head, _, message = (read_object(hub.git, commit) or b"").partition(b"\n\n")
    lines = dict(line.partition(b" ")[::2] for line in reversed(head.split(b"\n")))
    found = _AUTHOR.fullmatch(lines.get(b"author", b""))
    if found is None:
        raise unreadable("the author of a commit", commit)
    name, email, date = (os.fsdecode(part) for part in found.groups())
    words = _Words(name, email, f"@{date}", os.fsdecode(lines.get(b"encoding", b"UTF-8")), message)
    return _commit_tree(hub, tree, parents, words, at, sign=hub.signs)


_AUTHOR = re.compile(rb"(.*?) ?<(.*)> (\d+ [-+]\d{4})", re.DOTALL)


_OPEN_KEY = "UNPROTECTED PRIVATE KEY"
"""What ssh-keygen says, in a frame of signs, of a key file with too many rights."""


class _Words(NamedTuple):
    """What a commit says: its author, when (as git reads it), and the message in its encoding."""

    name: str
    email: str
    date: str
    encoding: str
    message: bytes


def _commit_tree(hub: Hub, tree: Oid, parents: Sequence[Oid], words: _Words, at: datetime, *, sign: bool) -> Oid:
    committer = (*hub.identity, f"@{int(at.timestamp())} +0000")
    who = {"AUTHOR": words[:3], "COMMITTER": committer}
    env = {f"GIT_{role}_{key}": value for role, told in who.items() for key, value in zip(_PARTS, told, strict=True)}
    git = hub.git.with_env(**env).with_settings({"i18n.commitEncoding": words.encoding})
    lineage = [word for parent in parents for word in ("-p", parent)]
    args = ("commit-tree", *(["-S"] if sign else []), *lineage, "-F", "-", tree)
    try:
        done = git.run(*args, stdin=words.message, seconds=_SIGN_SECONDS)
    except GitError as failed:
        if not sign:
            raise
        why, step = why_unsigned(hub.config)
        if not why and _OPEN_KEY in failed.done.err:
            why, step = (
                "ssh takes no private key that others can read",
                "'chmod 600' closes the file that user.signingKey names",
            )
        step = step or "check user.signingKey and gpg.format, or turn cn.sign and commit.gpgSign off"
        raise Blocked(f"cannot sign the commit: {why or failed.done.reason}", step) from failed
    return parse_oid(done.text)
