"""What waits to be delivered, and what was tried."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from cn.run.view import View
from cn.values.text import one_line
from cn.values.timestamps import stamp_or_none

if TYPE_CHECKING:  # imported where something waits
    from cn.protocol import outbox_entry as outbox


class Tried(NamedTuple):
    """How often a delivery was tried, why the last time did not do, and when that was."""

    attempts: int = 0
    reason: str = ""
    last: datetime | None = None


class Entry(NamedTuple):
    """One file of the outbox. ``effect`` is deliver, delete, say, or damaged (``tried.reason`` says how)."""

    file: str
    effect: str
    to: str = ""
    branch: str = ""
    head: str = ""
    kind: str = ""
    subject: str = ""
    queued: datetime | None = None
    tried: Tried = Tried()
    thread: str = ""
    source: str = ""


def list_outbox(view: View) -> list[Entry]:
    """What waits to be delivered, oldest first, then damaged files."""
    entries, broken = view.snapshot.outbox()
    says, damaged = view.snapshot.says()
    attempts = view.memory.attempts.entries
    found = [_mail(path.rpartition("/")[2], entry, attempts) for path, entry in entries]
    for _, say in says:
        words, tried = one_line(say.text, 80), _tried(attempts.get(say.name))
        found.append(Entry(say.name, "say", say.chat, "", "", "text", words, say.queued, tried, source=say.chat))
    found.sort(key=lambda e: (e.queued or view.now, e.file))
    unreadable = [*broken, *damaged]
    return found + [Entry(path.rpartition("/")[2], "damaged", tried=Tried(reason=why)) for path, why in unreadable]


def _mail(file: str, entry: outbox.Entry, attempts: Mapping[str, Mapping[str, Any]]) -> Entry:
    from cn.protocol.outbox_entry import Deliver

    if isinstance(entry, Deliver):
        effect, head, kind, subject = "deliver", entry.id, entry.kind, entry.subject
    else:
        effect, head, kind, subject = "delete", entry.tip, "", entry.reason
    tried, about = _tried(attempts.get(file)), (entry.thread, entry.source)
    return Entry(file, effect, entry.to, entry.branch, head, kind, subject, entry.queued, tried, *about)


def _tried(memory: Mapping[str, Any] | None) -> Tried:
    if not memory:
        return Tried()
    return Tried(int(memory.get("count", 0)), str(memory.get("reason", "")), stamp_or_none(memory.get("last")))
