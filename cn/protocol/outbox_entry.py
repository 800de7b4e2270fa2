"""Files of the outbox: one outward effect each, until the remote has confirmed it.

An entry delivers a message branch, pushes a proposal, or deletes a branch of ours. The exact commit
bytes stand in the entry, so that a bare clone is enough to deliver, and so that
delivering twice pushes the same id. A text for a chat (``telegram:<id>``) waits there too;
nothing in a chat recognizes a message it has had, so one whose fate is unknown is reported, and never sent again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import assert_never

from cn.protocol.layout import NOTICE, OUTBOX, SAY, SENT
from cn.protocol.log import Row
from cn.protocol.message import object_id, tree_bytes
from cn.values.names import Branch, HubPath, Name, NameRefused, Oid, digest, topic_of
from cn.values.record_header import RecordRefused, format_record, parse_record, read_texts, texts_of
from cn.values.shell_words import command
from cn.values.text import one_line
from cn.values.timestamps import format_day

FORMAT, _SAY_FORMAT = "outbox/1", "say/1"
_CHAT = re.compile(r"telegram:(-?\d{1,20})")
PROPOSED = "propose"
"""The decision in log rows about a proposal of ours."""
_REASON = 500
"""Letters of the reason of a deletion, on one line."""


@dataclass(frozen=True, slots=True)
class Deliver:
    """Push the commit ``id`` as ``branch`` for ``to``; never over another commit.

    ``source`` and ``thread`` name the log row and the thread that the delivery belongs to,
    both empty for mail that starts a conversation. ``about`` is the branch it answers,
    ``decision`` the decision that asked for it. ``commit`` and ``content`` are the exact
    bytes of the commit and of its message.
    """

    id: Oid
    to: Name
    branch: Branch
    kind: str
    queued: datetime
    subject: str = ""
    thread: str = ""
    source: str = ""
    about: str = ""
    decision: str = ""
    commit: bytes = field(kw_only=True)
    content: bytes = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete our ``branch`` at ``to``, only if it is still at ``tip``."""

    to: Name
    branch: Branch
    tip: Oid
    queued: datetime
    reason: str = ""
    thread: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Propose:
    """Push the commit ``head`` as our ``branch`` for ``to``: a new one, or over what the ledger knows as ours.

    Its objects are not in the entry: they are where it was proposed, kept by a ref. ``subject`` is the
    title of the commit.
    """

    to: Name
    branch: Branch
    head: Oid
    queued: datetime
    subject: str = ""
    thread: str = ""
    source: str = ""


Entry = Deliver | Propose | Remove
"""What waits."""


def entry_head(entry: Entry) -> Oid:
    """The commit that is delivered or proposed, or at which the branch is deleted."""
    match entry:
        case Deliver():
            return entry.id
        case Propose():
            return entry.head
        case Remove():
            return entry.tip


def entry_source(entry: Entry) -> str:
    """What log rows about an entry name: the inbound branch it answers, else its own."""
    return entry.source or f"{entry.to}/{topic_of(entry.branch)}"


def entry_row(entry: Entry, at: datetime, executed: str, outcome: str, status: str = "") -> Row:
    """The log row about an entry; ``status`` is what a notice tells."""
    decision = "clean up"
    if isinstance(entry, Deliver):
        notice = f"notice:{status}" if status else "notice"
        decision = entry.decision or (notice if entry.kind == NOTICE else f"send:{topic_of(entry.branch)}")
    elif isinstance(entry, Propose):
        decision = PROPOSED
    return Row(at, entry_source(entry), decision, executed, entry.thread, entry.branch, entry_head(entry), outcome)


def take_out(path: str) -> str:
    """How a person looks at a file that waits in the outbox and never goes out, and takes it out."""
    look, remove = command("git log -p -- {}", path), command("git rm -- {}", path)
    return f"{look} shows who put it there; {remove}, a commit and its push take it out"


def is_deletion_of(entry: Entry, peer: Name, topic: str) -> bool:
    """Does it ask for the deletion of our branch of that name there?"""
    return isinstance(entry, Remove) and (entry.to, topic_of(entry.branch)) == (peer, topic)


def entry_name(entry: Entry) -> str:
    """The file name: day, peer, topic, and a digest of what it is; deletions say so."""
    ending = "-delete.md" if isinstance(entry, Remove) else ".md"
    return _name(entry.to, topic_of(entry.branch), entry_head(entry), entry.queued, ending)


def file_names(to: Name, topic: str, head: Oid, queued: datetime) -> tuple[str, str]:
    """The same of what was queued then, of which the ledger tells, and the name that an earlier cn gave it.

    The latter may be that of something else: :func:`is_about`.
    """
    earlier = f"{format_day(queued)}-{to}-{_plain(topic)[:70]}-{head[:8]}.md"
    return _name(to, topic, head, queued, ".md"), earlier


def is_about(entry: Entry, to: Name, topic: str, head: Oid) -> bool:
    """Is it what delivers or proposes this?"""
    is_this = (entry.to, topic_of(entry.branch), entry_head(entry)) == (to, topic, head)
    return is_this and not isinstance(entry, Remove)


def _name(to: Name, topic: str, head: Oid, queued: datetime, ending: str) -> str:
    # Peer and topic can be joined in several ways (pi and x-fix, pi-x and fix), topics look alike when made plain, and
    # whoever makes commits finds two that begin the same: only the digest means one effect.
    return f"{format_day(queued)}-{to}-{_plain(topic)[:60]}-{digest(to, topic, head, size=32)}{ending}"


def _plain(topic: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", topic)


def outbox_path(entry: Entry) -> HubPath:
    """Where it waits."""
    return HubPath(f"{OUTBOX}/{entry_name(entry)}")


def sent_path(entry: Entry) -> HubPath:
    """Where it lies once confirmed."""
    return HubPath(f"{SENT}/{entry_name(entry)}")


def format_entry(entry: Entry) -> bytes:
    """The file. Values are JSON strings; the message follows as it is."""
    match entry:
        case Deliver():
            return format_record(FORMAT, {"effect": "deliver", **texts_of(entry, "content")}, entry.content)
        case Propose():
            return format_record(FORMAT, {"effect": "propose", **texts_of(entry, "")})
        case Remove():
            short = replace(entry, reason=one_line(entry.reason, _REASON))
            return format_record(FORMAT, {"effect": "delete", **texts_of(short, "")})
        case _:
            assert_never(entry)


def parse_entry(data: bytes, algorithm: str = "sha1") -> Entry:
    """Read an outbox file; the bytes must give the id they claim. Raises :class:`RecordRefused`."""
    entry = parse_record(FORMAT, data, _read_entry)
    if not isinstance(entry, Deliver):
        return entry
    tree = object_id("tree", tree_bytes(entry.content, algorithm), algorithm)
    is_its_tree = entry.commit.startswith(f"tree {tree}\n".encode())
    if object_id("commit", entry.commit, algorithm) != entry.id or not is_its_tree:
        raise RecordRefused("its bytes do not give its id", "restore it from history")
    return entry


def _read_entry(texts: dict[str, str], body: bytes) -> Entry:
    match texts["effect"]:
        case "deliver":
            return read_texts(Deliver, texts, content=body)
        case "propose":
            return read_texts(Propose, texts, subject=one_line(texts.get("subject", ""), _REASON))
        case "delete":
            return read_texts(Remove, texts, reason=one_line(texts.get("reason", ""), _REASON))
        case _:
            raise KeyError("effect")


@dataclass(frozen=True)
class Say:
    """A text for a chat. ``id`` names its cause, so that the same cause is one file.

    ``machine`` is the clone that sends it: only that one knows how far it is.
    """

    id: str
    machine: str
    chat: str
    text: str
    queued: datetime
    decision: str = "reply"

    @property
    def name(self) -> str:
        """The file name."""
        return f"{format_day(self.queued)}-{self.chat.replace(':', '-')}-{self.id}{SAY}"

    @property
    def path(self) -> HubPath:
        """Where it waits."""
        return HubPath(f"{OUTBOX}/{self.name}")

    @property
    def sent_path(self) -> HubPath:
        """Where it lies once it was sent, or given up."""
        return HubPath(f"{SENT}/{self.name}")


def chat_id(chat: str) -> int:
    """The number of a Telegram chat; raises :class:`NameRefused`."""
    match = _CHAT.fullmatch(chat)
    if not match:
        raise NameRefused(f"{chat[:40]!r} is no chat", "a chat is telegram:<number>")
    return int(match[1])


def is_chat(sender: str) -> bool:
    """Is the sender of an item a chat?"""
    return _CHAT.fullmatch(sender) is not None


def format_say(say: Say) -> str:
    """The file; the text follows the head as it is."""
    return format_record(_SAY_FORMAT, texts_of(say, "text"), say.text.encode("utf-8", "replace")).decode()


def parse_say(data: bytes) -> Say:
    """The inverse of :func:`format_say`; raises :class:`RecordRefused`."""
    return parse_record(_SAY_FORMAT, data, _read_say)


def _read_say(texts: dict[str, str], body: bytes) -> Say:
    chat_id(texts["chat"])
    return read_texts(Say, texts, text=body.decode("utf-8"))
