"""Building commits away from index, work tree and refs, in one ``fast-import`` stream.

See git-fast-import(1). The stream names a branch, as it must, and resets it before the
end: fast-import then writes no ref (``reset`` without ``from``).
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from cn.core.errors import Blocked, CnError
from cn.core.names import HubPath, NameRefused, Oid, parse_hub_path, parse_oid
from cn.core.text import one_line
from cn.shell.git import GitError
from cn.shell.hub import Hub

_BRANCH = "refs/cn/build"
_IMPORT = ("fast-import", "--quiet", "--done", "--force", "--date-format=raw")
_SIGN_SECONDS = 60.0


@dataclass(frozen=True)
class FileChange:
    """A file to write (``content``) or to delete (None)."""

    path: HubPath
    content: bytes | None
    mode: str = "100644"


@dataclass(frozen=True)
class EntryChange:
    """An entry to set to an object that the repository has."""

    path: str
    mode: str
    oid: Oid


@dataclass(frozen=True)
class _Settings:
    name: str
    email: str
    sign: bool


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
    settings = _settings(hub)
    tree = hub.git.run("rev-parse", "--verify", f"{base}^{{tree}}").text
    text = _clean_message(message)
    stream = b"".join(_stream(settings, tree, parents, changes, text, at))
    done = hub.git.run(*_IMPORT, stdin=stream)
    oid = parse_oid(done.lines[-1])
    built = hub.git.run("rev-parse", "--verify", f"{oid}^{{tree}}").text
    if built == tree and parents == (base,):
        return base
    return _commit_tree(hub, settings, built, parents, text, at) if settings.sign and not scratch else oid


def identity(hub: Hub) -> tuple[str, str]:
    """Name and email of the repository's commits."""
    settings = _settings(hub)
    return settings.name, settings.email


def signs(hub: Hub) -> bool:
    """Are commits signed here: ``cn.sign`` or the user's ``commit.gpgSign``?"""
    return _settings(hub).sign


class CommitStream:
    """Commits built upon each other in one ``fast-import``; each id is answered at once.

    Their objects are there for other processes only after :meth:`close`. 1,000 merges took
    30 s with three processes each, and 0.6 s so (GIT-FACTS). Those of :meth:`commit` are not signed.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._settings = _settings(hub)
        self._child: subprocess.Popen[bytes] | None = None
        self._marks: dict[Oid, int] = {}
        self._count = 0

    def commit(
        self,
        parents: tuple[Oid, ...],
        changes: Sequence[FileChange | EntryChange],
        message: str,
        at: datetime,
    ) -> Oid:
        """The commit of the first parent's tree with ``changes``."""
        self._count += 1  # not by the marks: the same commit, asked for twice, is one of them
        number = self._count
        names = tuple(f":{self._marks[p]}" if p in self._marks else str(p) for p in parents)
        parts = _commit_parts(self._settings, number, None, names, changes, _clean_message(message), at)
        if self._child is None:
            self._child = self._hub.git.start(*_IMPORT)
        stdin, stdout = self._child.stdin, self._child.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(b"".join([*parts, f"\nget-mark :{number}\n".encode()]))
            stdin.flush()
            oid = parse_oid(stdout.readline().decode().strip())
        except (OSError, NameRefused) as broken:
            raise self._broken() from broken
        self._marks[oid] = number
        return oid

    def of_tree(self, tree: Oid, parents: tuple[Oid, ...], message: str, at: datetime) -> Oid:
        """The commit of a tree that is there already, readable at once, and signed where the hub signs."""
        return _commit_tree(self._hub, self._settings, tree, parents, _clean_message(message), at)

    def close(self) -> None:
        """Make the objects readable for all. The stream may be used again."""
        if self._child is None:
            return
        _, err = self._child.communicate(f"reset {_BRANCH}\n\ndone\n".encode())
        if self._child.returncode:
            raise CnError(f"git fast-import failed: {one_line(err.decode('utf-8', 'replace'))}")
        self._child = None
        self._marks = {}

    def _broken(self) -> CnError:
        """What was built in this stream is lost, and with it the run."""
        child, self._child = self._child, None
        assert child is not None
        child.kill()
        _, err = child.communicate()
        return CnError(f"git fast-import failed: {one_line(err.decode('utf-8', 'replace'))}")

    def abandon(self) -> None:
        """End the child, whatever it holds."""
        if self._child is not None:
            self._broken()


def _stream(
    settings: _Settings,
    tree: str,
    parents: tuple[Oid, ...],
    changes: Sequence[FileChange | EntryChange],
    text: bytes,
    at: datetime,
) -> list[bytes]:
    parts = _commit_parts(settings, 1, tree, tuple(map(str, parents)), changes, text, at)
    return [*parts, f"\nget-mark :1\nreset {_BRANCH}\n\ndone\n".encode()]


def _commit_parts(
    settings: _Settings,
    mark: int,
    tree: str | None,
    parents: tuple[str, ...],
    changes: Sequence[FileChange | EntryChange],
    text: bytes,
    at: datetime,
) -> list[bytes]:
    """One commit for fast-import; ``parents`` are ids or marks, ``tree`` None keeps the first one's."""
    who = f"{settings.name} <{settings.email}> {int(at.timestamp())} +0000"
    head = [f"commit {_BRANCH}", f"mark :{mark}", f"author {who}", f"committer {who}", f"data {len(text)}"]
    parts = ["\n".join(head).encode(), b"\n", text, b"\n"]
    for word, parent in zip(["from", *["merge"] * len(parents)], parents, strict=False):
        parts.append(f"{word} {parent}\n".encode())
    if tree is not None:
        parts.append(f'M 040000 {tree} ""\n'.encode())
    # Deletions first: a file may give way to a folder of the same name.
    for change in sorted(changes, key=lambda c: not (isinstance(c, FileChange) and c.content is None)):
        if isinstance(change, FileChange):
            parse_hub_path(change.path)  # fast-import takes ".." as it comes
        path = _quoted(change.path)
        match change:
            case FileChange(content=None):
                parts.append(b"D " + path + b"\n")
            case FileChange(content=bytes() as content, mode=mode):
                parts += [
                    f"M {mode} inline ".encode() + path,
                    f"\ndata {len(content)}\n".encode(),
                    content,
                    b"\n",
                ]
            case EntryChange(mode=mode, oid=oid):
                parts.append(f"M {mode} {oid} ".encode() + path + b"\n")
    return parts


def _quoted(path: str) -> bytes:
    raw = path.encode("utf-8", "surrogateescape")
    return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'


def _clean_message(message: str) -> bytes:
    """git's commits hold no NUL and end with one line feed."""
    text = message.replace("\0", "").strip("\n") + "\n"
    return text.encode("utf-8", "replace")


def _settings(hub: Hub) -> _Settings:
    """Identity and signing in one process.

    The runner overrides ``commit.gpgSign`` on the command line, which git reads last; the
    user's own value is what stands before that.
    """
    done = hub.git.run(
        "config",
        "--show-scope",
        "-z",
        "--get-regexp",
        r"^(user\.(name|email)|cn\.sign|commit\.gpgsign)$",
        check=False,
    )
    values: dict[str, list[str]] = {}
    fields = done.fields
    for scope, pair in zip(fields[::2], fields[1::2], strict=False):
        key, newline, value = pair.partition("\n")
        if key.startswith("user.") and scope in ("system", "global"):
            continue  # the hub's identity is the hub's, whoever's machine it is on
        values.setdefault(key, []).append(value if newline else "true")
    gpg = values.get("commit.gpgsign", [])[:-1]
    sign = _true(values.get("cn.sign", [])) or _true(gpg)
    name = _clean_ident((values.get("user.name") or [""])[-1])
    name = name or _clean_ident(hub.name or hub.root.name) or "cn"
    email = _clean_ident((values.get("user.email") or [""])[-1])
    fallback = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "cn"
    return _Settings(name, email or f"{fallback}@cn.invalid", sign)


def _true(values: list[str]) -> bool:
    """git's booleans (git-config(1), "Values"); the last one counts."""
    text = values[-1].strip().lower() if values else ""
    return text in ("true", "yes", "on") or (text.lstrip("+-").isdigit() and int(text) != 0)


def _clean_ident(text: str) -> str:
    """What git itself strips from a name or an email (``ident.c``, "crud")."""
    kept = re.sub(r"[<>\x00-\x1f\x7f]", "", text.encode("utf-8", "replace").decode())
    return kept.strip(" .,:;\"\\'")


def _commit_tree(
    hub: Hub, settings: _Settings, tree: str, parents: tuple[Oid, ...], text: bytes, at: datetime
) -> Oid:
    date = f"{int(at.timestamp())} +0000"
    git = hub.git.with_env(
        GIT_AUTHOR_NAME=settings.name,
        GIT_AUTHOR_EMAIL=settings.email,
        GIT_AUTHOR_DATE=date,
        GIT_COMMITTER_NAME=settings.name,
        GIT_COMMITTER_EMAIL=settings.email,
        GIT_COMMITTER_DATE=date,
    ).with_settings({"i18n.commitEncoding": "UTF-8"})
    lineage = [word for parent in parents for word in ("-p", parent)]
    try:
        sign = ("-S",) if settings.sign else ()
        done = git.run("commit-tree", *sign, *lineage, "-F", "-", tree, stdin=text, seconds=_SIGN_SECONDS)
    except GitError as failed:
        if not settings.sign:
            raise
        raise Blocked(
            f"cannot sign the commit: {failed.done.reason}",
            "check user.signingKey and gpg.format, or turn cn.sign and commit.gpgSign off",
        ) from failed
    return parse_oid(done.text)
