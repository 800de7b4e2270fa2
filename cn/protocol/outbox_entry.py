"""An entry of the outbox: one outward effect as a file, until the remote has confirmed it.

An entry either delivers a message branch or deletes a branch of ours. The exact commit
bytes stand in the entry, so that a bare clone is enough to deliver, and so that
delivering twice pushes the same id.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import assert_never

from cn.protocol.layout import OUTBOX, SENT
from cn.protocol.log import Row
from cn.protocol.message import object_id, tree_bytes
from cn.values.errors import CnError
from cn.values.names import Branch, HubPath, Name, NameRefused, Oid, parse_branch, parse_name, parse_oid, topic_of
from cn.values.record_header import HeaderRefused, format_header, parse_header
from cn.values.shell_words import command
from cn.values.text import one_line
from cn.values.timestamps import StampRefused, format_day, format_second, parse_stamp

FORMAT = "outbox/1"
_REASON = 500
"""Letters of the reason of a deletion, on one line."""


class OutboxRefused(CnError):
    """A file in the outbox that cn did not write this way."""


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
    subject: str
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
    reason: str
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
    return Row(
        at,
        entry_source(entry),
        _decision(entry, status),
        executed,
        entry.thread,
        entry.branch,
        entry_head(entry),
        outcome,
    )


def _decision(entry: Entry, status: str) -> str:
    match entry:
        case Remove():
            return "clean up"
        case Deliver(decision=decision) if decision:
            return decision
        case Deliver(kind="notice"):
            return f"notice:{status}" if status else "notice"
        case Deliver():
            return f"send:{topic_of(entry.branch)}"
        case _:
            assert_never(entry)


def take_out(path: str) -> str:
    """How a person looks at a file that waits in the outbox and never goes out, and takes it out."""
    look, remove = command("git log -p -- {}", path), command("git rm -- {}", path)
    return f"{look} shows who put it there; {remove}, a commit and its push take it out"


def entry_name(entry: Entry) -> str:
    """The file name: day, peer and topic; deletions carry the tip, so a name means one effect."""
    topic = re.sub(r"[^A-Za-z0-9._-]+", "-", topic_of(entry.branch))[:70]
    day = format_day(entry.queued)
    match entry:
        case Deliver():
            return f"{day}-{entry.to}-{topic}-{entry.id[:8]}.md"
        case Remove():
            return f"{day}-{entry.to}-{topic}-{entry.tip[:8]}-delete.md"
        case _:
            assert_never(entry)


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
            fields: Mapping[str, str] = {
                "effect": "deliver",
                "id": entry.id,
                "to": entry.to,
                "branch": entry.branch,
                "kind": entry.kind,
                "queued": format_second(entry.queued),
                "subject": entry.subject,
                "thread": entry.thread,
                "source": entry.source,
                "about": entry.about,
                "decision": entry.decision,
                "commit": entry.commit.decode("utf-8", "surrogateescape"),
            }
            body = entry.content
        case Remove():
            fields = {
                "effect": "delete",
                "to": entry.to,
                "branch": entry.branch,
                "tip": entry.tip,
                "queued": format_second(entry.queued),
                "reason": one_line(entry.reason, _REASON),
                "thread": entry.thread,
                "source": entry.source,
            }
            body = b""
        case _:
            assert_never(entry)
    return format_header(FORMAT, fields, body)


def parse_entry(data: bytes, algorithm: str = "sha1") -> Entry:
    """Read an outbox file; the bytes must give the id they claim."""
    try:
        fields, body = parse_header(FORMAT, data)
    except HeaderRefused as refused:
        raise OutboxRefused(refused.text, "remove it, or restore it from history") from None
    try:
        to, branch = parse_name(fields["to"], "peer"), parse_branch(fields["branch"])
        queued = parse_stamp(fields["queued"])
        thread, source = fields.get("thread", ""), fields.get("source", "")
        if fields["effect"] == "delete":
            reason = one_line(fields.get("reason", ""), _REASON)
            return Remove(to, branch, parse_oid(fields["tip"]), queued, reason, thread, source)
        if fields["effect"] != "deliver":
            raise KeyError("effect")
        commit = fields["commit"].encode("utf-8", "surrogateescape")
        entry = Deliver(
            parse_oid(fields["id"]),
            to,
            branch,
            fields["kind"],
            queued,
            fields.get("subject", ""),
            thread,
            source,
            fields.get("about", ""),
            fields.get("decision", ""),
            commit=commit,
            content=body,
        )
    except (KeyError, NameRefused, StampRefused) as error:
        raise OutboxRefused(f"it is damaged ({one_line(str(error), 120)})", "restore it from history") from None
    tree = object_id("tree", tree_bytes(body, algorithm), algorithm)
    if object_id("commit", commit, algorithm) != entry.id or not commit.startswith(f"tree {tree}\n".encode()):
        raise OutboxRefused("its bytes do not give its id", "restore it from history")
    return entry
