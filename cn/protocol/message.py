"""Messages: one parentless commit with ``message.md`` at its root (``docs/protocol/messages.md``).

The commit id is the message's id; the same message always gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Container
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from cn.protocol.layout import CONCERN, FINAL, MESSAGE, NOT_FINAL, NOTICE
from cn.values.errors import CnError
from cn.values.names import Branch, Name, NameRefused, Oid, Topic, parse_branch, parse_name, parse_oid, with_digest
from cn.values.text import one_line, unix_lines, yaml_string, yaml_word
from cn.values.timestamps import StampRefused, format_second, parse_stamp
from cn.values.yaml import YamlRefused, parse_fields

FILE = "message.md"
FORMAT = "message/1"
MOST_TEXT = 200 * 1024
"""Bytes of a text that a message may carry: what a receiver shows by default, with room for the head."""
_FRONTMATTER = re.compile(r"---\n(.*?\n)---(?:\n|\Z)", re.S)


class MessageRefused(CnError):
    """Bytes that claim to be a message and are none."""


class About(NamedTuple):
    """Which branch of the addressee a message speaks of, and what became of it."""

    branch: Branch
    head: Oid
    status: str
    merge: Oid | None = None
    reason: str = ""

    @property
    def final(self) -> bool:
        """May the creator delete the branch now?"""
        return self.status in FINAL


class Message(NamedTuple):
    """One message. ``created`` is the time of its cause, in whole seconds UTC."""

    kind: str
    sender: Name
    to: Name
    subject: str
    created: datetime
    body: str = ""
    in_reply_to: str = ""
    about: About | None = None
    hops: int = 0


def format_message(message: Message) -> bytes:
    """The bytes of ``message.md``. Free text stands in JSON strings, which YAML reads as themselves."""
    lines = [
        "---",
        f"cn: {FORMAT}",
        f"kind: {message.kind}",
        f"from: {yaml_word(message.sender)}",
        f"to: {yaml_word(message.to)}",
        f"subject: {_scalar(message.subject)}",
        f'created: "{format_second(message.created)}"',
    ]
    if message.in_reply_to:
        lines.append(f"in-reply-to: {_scalar(message.in_reply_to, 500)}")
    if message.about:
        about = message.about
        lines += ["about:", f"  branch: {yaml_string(about.branch, ascii_only=True)}"]
        lines += [f'  head: "{about.head}"', f"  status: {about.status}"]
        if about.merge:
            lines.append(f'  merge: "{about.merge}"')
        if about.reason:
            lines.append(f"  reason: {_scalar(about.reason, 500)}")
    lines += [f"hops: {message.hops}", "---", ""]
    body = unix_lines(message.body).strip("\n")
    return ("\n".join(lines) + (f"\n{body}\n" if body else "")).encode("utf-8", "backslashreplace")


def _scalar(text: str, limit: int = 200) -> str:
    return yaml_string(one_line(text, limit), ascii_only=True)


@lru_cache(maxsize=1)  # who delivers a message asks what it may say, and where in it secrets may stand
def parse_message(data: bytes) -> Message:
    """Read ``message.md``; raises :class:`MessageRefused` with what is wrong.

    Unknown keys are ignored, so that later versions can add some.
    """
    try:
        text = unix_lines(data.removeprefix(b"\xef\xbb\xbf").decode("utf-8"))
    except UnicodeDecodeError:
        raise _bad("it is not UTF-8") from None
    # Split here, and not by python-frontmatter, which takes the indentation of the body's first line away.
    match = _FRONTMATTER.match(text)
    if not match:
        raise _bad("it does not start with frontmatter")
    try:
        fields = parse_fields(match[1])
    except YamlRefused as refused:
        raise _bad(str(refused)) from None
    if fields.get("cn") != FORMAT:
        raise _bad(f"its format is not {FORMAT}")
    try:
        kind = _text(fields, "kind")
        if kind not in (MESSAGE, NOTICE, CONCERN):
            raise _bad(f"its kind {one_line(kind, 40)!r} is unknown")
        about = fields.get("about")
        if about is not None and not isinstance(about, dict):
            raise _bad("about is no mapping")
        hops = fields.get("hops", 0)
        if isinstance(hops, bool) or not isinstance(hops, int) or not 0 <= hops <= 1000:
            raise _bad("hops is no small number")
        sender, to, created = (_text(fields, key) for key in ("from", "to", "created"))
        subject, reply = (_text(fields, key, "") for key in ("subject", "in-reply-to"))
        return Message(
            kind=kind,
            sender=parse_name(sender, "from"),
            to=parse_name(to, "to"),
            subject=one_line(subject),
            created=parse_stamp(created),
            body=text[match.end() :].strip("\n").rstrip("\r\n"),
            in_reply_to=one_line(reply, 500),
            about=_about(about) if about else None,
            hops=hops,
        )
    except (NameRefused, StampRefused) as refused:
        raise _bad(refused.text) from None


_ABOUT = (("branch", None), ("head", None), ("merge", ""), ("reason", ""))
"""The other fields of what a message is about, with what stands for them where they are missing."""


def _about(data: dict[str, object]) -> About:
    status = _text(data, "status")
    if status not in FINAL + NOT_FINAL:
        raise _bad(f"its status {one_line(status, 40)!r} is unknown")
    branch, head, merge, reason = (_text(data, key, default) for key, default in _ABOUT)
    merged = parse_oid(merge) if merge else None
    return About(parse_branch(branch), parse_oid(head), status, merged, one_line(reason, 500))


def _text(data: dict[str, object], key: str, default: str | None = None) -> str:
    value = data.get(key, default)
    if isinstance(value, datetime):
        return value.isoformat()
    if not isinstance(value, str):
        raise _bad(f"{key} is missing or no text")
    # JSON writes a character beyond U+FFFF as two escapes, which YAML leaves apart.
    return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _bad(reason: str) -> MessageRefused:
    return MessageRefused(f"{FILE} cannot be read: {reason}", f"a message is one of {FORMAT}: 'cn send' writes one")


# The commit that carries it.


class Sealed(NamedTuple):
    """A message as git objects: exact commit bytes, its id, and the bytes of ``message.md``."""

    id: Oid
    commit: bytes
    content: bytes


def object_id(kind: str, data: bytes, algorithm: str = "sha1") -> Oid:
    """The id git gives an object (gitformat-pack, "object IDs"); ``algorithm`` is the repository's."""
    import hashlib  # OpenSSL takes 2 ms, and who only looks makes no object

    head = f"{kind} {len(data)}\0".encode()
    return Oid(hashlib.new(algorithm, head + data, usedforsecurity=False).hexdigest())


def tree_bytes(content: bytes, algorithm: str) -> bytes:
    """The tree that holds ``message.md`` alone."""
    return f"100644 {FILE}\0".encode() + bytes.fromhex(object_id("blob", content, algorithm))


def seal(message: Message, author: tuple[str, str], algorithm: str = "sha1") -> Sealed:
    """The unsigned commit of a message: deterministic bytes, ``+0000``, author = committer."""
    content = format_message(message)
    tree = object_id("tree", tree_bytes(content, algorithm), algorithm)
    name, email = (re.sub(r"[<>\n\0]", "", part).strip() or "cn" for part in author)
    seconds = max(0, int(message.created.timestamp()))  # git knows no time before 1970
    who = f"{name} <{email}> {seconds} +0000"
    subject = one_line(message.subject) or message.kind
    commit = f"tree {tree}\nauthor {who}\ncommitter {who}\n\n{subject}\n".encode("utf-8", "replace")
    return Sealed(object_id("commit", commit, algorithm), commit, content)


def own_topic(wish: str, taken: Container[str], message_id: Oid) -> Topic:
    """A free topic of ours near ``wish``: altered, taken or used before gets ``-`` and 8 hex of the id."""
    plain = re.sub(r"[^a-z0-9._-]+", "-", wish.lower()).strip("-.") or "message"
    plain = re.sub(r"\.{2,}", ".", plain)
    plain = plain[:-5] + "-lock" if plain.endswith(".lock") else plain
    plain = plain[:90].rstrip("-.")
    if plain == wish and plain not in taken:
        return Topic(plain)
    return Topic(with_digest(plain, message_id, 100, lambda name: name in taken))
