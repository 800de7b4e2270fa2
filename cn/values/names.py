"""A distinct type for each kind of name, built only by its parser."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Container, Iterator, Sequence
from typing import NewType

from cn.values.errors import CnError
from cn.values.text import is_plain, slug, visible

Name = NewType("Name", str)
"""A hub, peer or actor: ``[a-z0-9][a-z0-9_-]*``, at most 40 characters."""
Oid = NewType("Oid", str)
"""A full git object id, 40 (SHA-1) or 64 (SHA-256) lower-case hex digits."""
Branch = NewType("Branch", str)
"""A branch name without ``refs/heads/``, always ``prefix/topic``."""
Topic = NewType("Topic", str)
"""What follows the prefix of a branch."""
HubPath = NewType("HubPath", str)
"""A path inside a hub, with ``/``, without ``..``, never absolute."""
ThreadName = NewType("ThreadName", str)
"""The file name of a thread, with ``.md``: ``20260205-pi-proposal.md``."""
InputId = NewType("InputId", str)
"""What the agent is asked, ``YYYYMMDD-HHMMSS-xxxxxx``: when it was queued and 6 hex digits."""
Url = NewType("Url", str)
"""A remote that git may contact: a local path, file, git, http, https or ssh."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_OID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_TOPIC = re.compile(r"(?!.*\.\.)[a-z0-9_-][a-z0-9._-]{0,99}(?<!\.)(?<!\.lock)")
_PART = r"(?!\.)[^\x00-\x20\x7f~^:?*\[\\/]+(?<!\.lock)"
_BRANCH = re.compile(rf"(?!-|refs/)(?!.*(?:\.\.|@\{{|[\ud800-\udfff])){_PART}(?:/{_PART})+(?<!\.)")
"""git-check-ref-format(1); none of its parts can be read in two ways."""
_SCHEMES = ("file", "git", "http", "https", "ssh")
_THREAD_BYTES = 120
_RESERVED = {"head", "refs", "heads", "cn", "done"}


class NameRefused(CnError):
    """A name, path or URL that does not fit its grammar."""


def _refuse(kind: str, text: str, rule: str) -> NameRefused:
    return NameRefused(f"{kind} {visible(text)[:80]!r} is not valid", rule)


def parse_name(text: str, kind: str = "name") -> Name:
    """A hub, peer or actor name."""
    if text in _RESERVED:
        raise NameRefused(f"{kind} {text!r} is reserved", f"{', '.join(sorted(_RESERVED))} mean something else")
    if not is_name(text):
        raise _refuse(kind, text, "use lower-case letters, digits, '-' and '_', at most 40 characters")
    return Name(text)


def is_name(text: str) -> bool:
    """Is it a name by the grammar of :func:`parse_name`?"""
    return _NAME.fullmatch(text) is not None and text not in _RESERVED


def parse_oid(text: str) -> Oid:
    """A full object id."""
    if not _OID.fullmatch(text):
        raise _refuse("object id", text, "a full id has 40 or 64 hexadecimal digits")
    return Oid(text)


def is_oid(text: str) -> bool:
    """Is it a full object id?"""
    return _OID.fullmatch(text) is not None


def short_ids(ids: Sequence[str]) -> list[str]:
    """The beginnings of some ids, for people: eight digits, or as many more as tell them apart."""
    size = next((size for size in range(8, 64, 8) if len({one[:size] for one in ids}) == len(set(ids))), 64)
    return [one[:size] for one in ids]


def parse_branch(text: str) -> Branch:
    """A branch of the protocol, ``prefix/topic``, as ``git check-ref-format`` would take it."""
    if not _BRANCH.fullmatch(text):
        raise _refuse("branch", text, "a branch is PREFIX/TOPIC in git's grammar for names, as UTF-8")
    return Branch(text)


def is_branch(name: str) -> bool:
    """Would git take it for a branch, also for one without a slash?"""
    return _BRANCH.fullmatch(f"x/{name}") is not None


def topic_of(branch: Branch) -> Topic:
    """What follows the prefix."""
    return Topic(branch.partition("/")[2])


def parse_topic(text: str) -> Topic:
    """A topic of ours: ``[a-z0-9._-]``, at most 100 bytes, no slash, no ``.lock``."""
    if not _TOPIC.fullmatch(text):
        grammar = "use a-z, 0-9, '.', '_' and '-', at most 100, no slash, not ending in .lock"
        would = slug(text, empty="")
        raise _refuse("topic", text, f"'{would}' would do: {grammar}" if would else grammar)
    return Topic(text)


def reply_subject(subject: str) -> str:
    """The subject of a reply: ``Re: <subject>``; of a reply to one the same."""
    return subject if subject.startswith("Re: ") else f"Re: {subject}"


def reply_topic(topic: str) -> Topic:
    """The topic of a reply: ``re-<topic>``; of a reply to one the same."""
    topic = topic.removeprefix("re-")
    try:
        return parse_topic(f"re-{topic}")
    except NameRefused:
        return parse_topic(f"re-{slug(topic)}")


def join_branch(prefix: Name, topic: Topic) -> Branch:
    """``prefix/topic``."""
    return Branch(f"{prefix}/{topic}")


def parse_hub_path(text: str) -> HubPath:
    """A path inside the hub."""
    parts = text.split("/")
    if not text or "\0" in text or any(p in ("", ".", "..") or p.lower() == ".git" for p in parts):
        raise _refuse("path", text, "name a file inside the hub")
    return HubPath(text)


def parse_url(text: str) -> Url:
    """A remote: a path, or a URL of a transport that cn allows.

    Options (a leading ``-``), remote helpers (``ext::…``), other schemes, control characters and
    white space around it, which could hide one of them, are refused: see gitremote-helpers(7),
    git(1) ``GIT_ALLOW_PROTOCOL``.
    """
    hint = "give a path, HOST:PATH, or a file://, git://, http(s):// or ssh:// URL"
    if text != text.strip() or not text:
        raise _refuse("URL", text, "leave out the blanks around it; " + hint)
    if text.startswith("-") or any(unicodedata.category(c)[0] == "C" for c in text):
        raise _refuse("URL", text, hint)
    if re.match(r"[A-Za-z0-9+.-]*::", text):
        raise _refuse("URL", text, "remote helpers run commands; " + hint)
    scheme = re.match(r"([A-Za-z0-9+.-]*)://", text)
    if scheme and scheme[1] not in _SCHEMES:
        raise _refuse("URL", text, hint)
    if scheme:
        host = text[scheme.end() :].split("/")[0].rpartition("@")[2]
        if host.startswith("-") or (not host and scheme[1] != "file"):
            raise _refuse("URL", text, hint)
    return Url(text)


def is_local(url: str) -> bool:
    """Does git reach it through the file system (gitfaq, "local protocol")?"""
    if url.startswith("file://"):
        return True
    colon, slash = url.find(":"), url.find("/")
    return "://" not in url and (colon < 0 or (0 <= slash < colon))


_INBOX_FOLDER = re.compile(r"\A(([./].*/)?threads/inbox/)?(done/(\d{4}/)?)?", re.DOTALL)
"""As a path of the hub, or of this machine; no branch begins like the latter."""


def parse_thread_name(text: str) -> ThreadName:
    """A thread's file name; ``.md`` may be left out, the folder of the inbox may stand before it."""
    base = _INBOX_FOLDER.sub("", text)
    base = base if base.endswith(".md") else base + ".md"
    if "/" in base or base.startswith((".", "-")) or not is_plain(base):
        raise _refuse("thread", text, "see 'cn inbox' for the names")
    return ThreadName(base)


def thread_name(date: str, peer: Name, topic: str, head: Oid, taken: Container[str]) -> ThreadName:
    """The file name of a thread: ``YYYYMMDD-peer-topic.md``.

    ``date`` is ``YYYYMMDD``; ``taken`` holds the folded names (:func:`fold`) in use. An
    altered, long or taken name gets ``-`` and 8 hex of the head.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", topic).strip("-.") or "branch"
    name = f"{date}-{peer}-{plain}"
    if plain == topic and len(name) + 3 <= _THREAD_BYTES and fold(name + ".md") not in taken:
        return ThreadName(name + ".md")
    unique = with_digest(name, head, _THREAD_BYTES - len(".md"), lambda one: fold(one + ".md") in taken)
    return ThreadName(unique + ".md")


def with_digest(stem: str, id: Oid, size: int, is_taken: Callable[[str], bool]) -> str:
    """A name of at most ``size`` characters that ends with 8 hex of an id, or with as many more as make it free."""
    for length in range(8, len(id) + 1, 8):
        name = f"{stem[: size - 1 - length]}-{id[:length]}"
        if not is_taken(name):
            break
    return name


def fold(name: str) -> str:
    """The key under which a case-insensitive, normalizing file system would store a name."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def digest(*parts: str, size: int = 16) -> str:
    """A short stable digest of a condition, to report it once; with 32 digits nobody finds two that have the same."""
    import hashlib  # OpenSSL takes 2 ms, and who only looks needs no digest

    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:size]


_PAGES = {"spec/soul.md", "spec/user.md", "spec/hub.md", "spec/agent.md"}
_PROTECTED = frozenset({".cn/hub.yaml", ".cn/agent.yaml", *_PAGES, "state/peers.md"})
OWNED = ("threads", "logs", "state")
_FORBIDDEN_NAMES = frozenset({".gitattributes", ".gitignore", ".gitmodules"})
PROTECTED_PATHS = (
    ".cn",
    *(f":(icase){page}" for page in sorted(_PAGES)),
    "state/peers.md",
    *(f":(glob)**/{name}" for name in sorted(_FORBIDDEN_NAMES)),
)
"""Where :func:`is_protected` holds of a plain spelling, as git takes it (gitglossary(7), "pathspec")."""


def is_protected(path: str) -> bool:
    """Is it a file that only people change, in any spelling a file system may equate?"""
    key = _stored(path)
    return key in _PROTECTED or key == ".cn" or key.startswith(".cn/") or key.rsplit("/", 1)[-1] in _FORBIDDEN_NAMES


_MACHINE_LOCAL = frozenset({"state/input.md", "state/output.md", "state/telegram.offset"})


def is_machine_local(path: str) -> bool:
    """Is it a file that belongs to one machine and is never committed?"""
    return _stored(path) in _MACHINE_LOCAL or path.startswith("logs/cn.log")


def is_owned(path: str) -> bool:
    """Does it lie in cn's own folders ``threads/ logs/ state/``?"""
    return _stored(path).split("/", 1)[0] in OWNED


_MAINS = (
    "state/ledger/",
    "state/queue/",
    "state/turn.md",
    "state/mca/done/",
    "logs/",
    "threads/mail/",
    "threads/inbox/done/",
)


def main_decides(path: str) -> bool:
    """Is ``main`` the truth here, whatever the working copy says?"""
    return path.startswith(_MAINS) and not is_protected(path)


def never_blocks(path: str) -> bool:
    """Is it in cn's own folders, where a differing working copy stops no run?"""
    return is_owned(path) and not is_protected(path)


def _stored(path: str) -> str:
    """:func:`fold`, without the format characters that HFS+ ignores in names."""
    if path.isascii():  # nearly every path, and no such character
        return path.casefold()
    return fold("".join(c for c in path if unicodedata.category(c) != "Cf"))


ThreadKey = tuple[Name, str]
"""(peer, topic): what an inbound branch is known by, whatever its route."""


NAME_BYTES, PATH_BYTES = 255, 1000
"""What the file systems of Linux and macOS hold of a name (NAME_MAX), and below what they hold of a path."""


def too_long(path: str, most: int = PATH_BYTES) -> str:
    """Why not every file system can hold this path, or nothing; undecodable bytes as surrogates."""
    longest = max(len(part.encode("utf-8", "surrogateescape")) for part in path.split("/"))
    if longest > NAME_BYTES:
        return f"a part of it has {longest} bytes, and file systems hold {NAME_BYTES}"
    size = len(path.encode("utf-8", "surrogateescape"))
    return f"it has {size} bytes, and cn takes paths of up to {most}" if size > most else ""


def folders_above(path: str) -> Iterator[str]:
    """``a`` and ``a/b`` for ``a/b/c``."""
    parts = path.split("/")
    return ("/".join(parts[:i]) for i in range(1, len(parts)))
