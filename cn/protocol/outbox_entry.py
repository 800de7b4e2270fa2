"""An entry of the outbox: one outward effect as a file, until the remote has confirmed it.

An entry either delivers a message branch or deletes a branch of ours. The exact commit
bytes stand in the entry, so that a bare clone is enough to deliver, and so that
delivering twice pushes the same id.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import assert_never

from cn.protocol.layout import OUTBOX, SENT
from cn.protocol.log import Row
from cn.protocol.message import object_id, tree_bytes
from cn.protocol.message_kinds import NOTICE
from cn.values.names import Branch, HubPath, Name, Oid, topic_of
from cn.values.record_header import RecordRefused, format_record, parse_record, read_texts, texts_of
from cn.values.shell_words import command
from cn.values.text import one_line
from cn.values.timestamps import format_day

FORMAT = "outbox/1"
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


Entry = Deliver | Remove
"""What waits."""


def entry_head(entry: Entry) -> Oid:
    """The commit that is delivered, or at which the branch is deleted."""
    return entry.id if isinstance(entry, Deliver) else entry.tip


def entry_source(entry: Entry) -> str:
    """What log rows about an entry name: the inbound branch it answers, else its own."""
    return entry.source or f"{entry.to}/{topic_of(entry.branch)}"


def entry_row(entry: Entry, at: datetime, executed: str, outcome: str, status: str = "") -> Row:
    """The log row about an entry; ``status`` is what a notice tells."""
    source, decision = entry_source(entry), _decision(entry, status)
    return Row(at, source, decision, executed, entry.thread, entry.branch, entry_head(entry), outcome)


def _decision(entry: Entry, status: str) -> str:
    if isinstance(entry, Remove):
        return "clean up"
    notice = f"notice:{status}" if status else "notice"
    return entry.decision or (notice if entry.kind == NOTICE else f"send:{topic_of(entry.branch)}")


def take_out(path: str) -> str:
    """How a person looks at a file that waits in the outbox and never goes out, and takes it out."""
    look, remove = command("git log -p -- {}", path), command("git rm -- {}", path)
    return f"{look} shows who put it there; {remove}, a commit and its push take it out"


def entry_name(entry: Entry) -> str:
    """The file name: day, peer and topic; deletions carry the tip, so a name means one effect."""
    topic = re.sub(r"[^A-Za-z0-9._-]+", "-", topic_of(entry.branch))[:70]
    ending = "-delete.md" if isinstance(entry, Remove) else ".md"
    return f"{format_day(entry.queued)}-{entry.to}-{topic}-{entry_head(entry)[:8]}{ending}"


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
        case Remove():
            short = replace(entry, reason=one_line(entry.reason, _REASON))
            return format_record(FORMAT, {"effect": "delete", **texts_of(short, "")})
        case _:
            assert_never(entry)


def parse_entry(data: bytes, algorithm: str = "sha1") -> Entry:
    """Read an outbox file; the bytes must give the id they claim. Raises :class:`RecordRefused`."""
    entry = parse_record(FORMAT, data, _read_entry)
    if isinstance(entry, Remove):
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
        case "delete":
            return read_texts(Remove, texts, reason=one_line(texts.get("reason", ""), _REASON))
        case _:
            raise KeyError("effect")
