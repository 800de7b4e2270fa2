"""What waits in main until a run reaches origin (``docs/protocol/outbox.md``)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from cn.protocol.layout import DRAFTS
from cn.values.names import HubPath
from cn.values.record_header import format_record, parse_record, read_texts, texts_of
from cn.values.text import one_line

FORM = "draft/1"
ABOUT_THREADS = ("reply", "comment")
"""The acts that are about a thread; the others begin something."""
_NOUNS = {"adhoc": "adhoc thread", "mca": "concern"}


@dataclass(frozen=True)
class Draft:
    """A command that waits: ``act`` is send, reply, comment, adhoc or mca, ``to`` a peer, a thread, or this hub itself.

    ``thread`` and ``head`` are the file and the head of a peer's branch as they were when it was said; empty for what
    is about none that waits. ``called`` is the ``to`` with which that was seen: who edits ``to`` means another thread,
    as it is then. ``tried`` are commits that say it and may have come to origin all the same, with blanks between.
    """

    act: str
    to: str
    message: str
    actor: str
    written: datetime
    body: bytes
    thread: str = ""
    head: str = ""
    called: str = ""
    tried: str = ""

    @property
    def text(self) -> str:
        """All of it as one text."""
        body = self.body.decode()
        return f"{self.message}\n\n{body}" if body else self.message

    @property
    def waited(self) -> bool:
        """Was it written down, and not said at once? That notes what it is about."""
        return bool(self.called or self.head)

    @property
    def noun(self) -> str:
        """What it is called in messages."""
        return _NOUNS.get(self.act, self.act)

    @property
    def what(self) -> str:
        """What it is called in messages, and to whom it is."""
        about = self.message if self.act in _NOUNS else f"to {self.to}"
        return f"{self.noun} {one_line(about, 60)}"

    @property
    def path(self) -> HubPath:
        """Where it waits; the same words at the same time are one."""
        name = hashlib.sha256(format_draft(self)).hexdigest()[:8]
        return HubPath(f"{DRAFTS}/{self.written:%Y%m%d-%H%M%S}-{self.act}-{name}.md")


def format_draft(draft: Draft) -> bytes:
    """The file."""
    return format_record(FORM, texts_of(draft, "body"), draft.body)


def parse_draft(data: bytes) -> Draft:
    """The inverse; raises :class:`RecordRefused`."""
    return parse_record(FORM, data, lambda texts, body: read_texts(Draft, {"actor": "", **texts}, body=body))
