"""A text to be sent to a chat, as a file of the outbox until it was sent.

A chat is ``telegram:<id>``. Sending is not repeatable: nothing there recognizes a message it
has had. So a text whose fate is unknown is reported, and never sent again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from cn.protocol.effects import Effect, Put
from cn.protocol.layout import OUTBOX, SAY, SENT
from cn.values.errors import CnError
from cn.values.names import HubPath
from cn.values.record_header import HeaderRefused, format_header, parse_header
from cn.values.text import one_line
from cn.values.timestamps import StampRefused, format_day, format_second, parse_stamp

ACKNOWLEDGED = "(acknowledged)"
_FORM = "say/1"
_CHAT = re.compile(r"telegram:(-?\d{1,20})")


class SayRefused(CnError):
    """A file that is no text to be said, or a chat that is none."""


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
    """The number of a Telegram chat; raises :class:`SayRefused`."""
    match = _CHAT.fullmatch(chat)
    if not match:
        raise SayRefused(f"{chat[:40]!r} is no chat", "a chat is telegram:<number>")
    return int(match[1])


def is_chat(sender: str) -> bool:
    """Is the sender of an item a chat?"""
    return _CHAT.fullmatch(sender) is not None


def format_say(say: Say) -> str:
    """The file; the text follows the head as it is."""
    fields = {
        "id": say.id,
        "machine": say.machine,
        "chat": say.chat,
        "queued": format_second(say.queued),
        "decision": say.decision,
    }
    return format_header(_FORM, fields, say.text.encode("utf-8", "replace")).decode()


def parse_say(data: bytes) -> Say:
    """The inverse of :func:`format_say`; raises :class:`SayRefused`."""
    try:
        fields, body = parse_header(_FORM, data)
        chat_id(fields["chat"])
        at = parse_stamp(fields["queued"])
        words = fields["id"], fields["machine"], fields["chat"]
        return Say(*words, body.decode("utf-8"), at, fields.get("decision", "reply"))
    except HeaderRefused as refused:
        raise SayRefused(refused.text) from None
    except (ValueError, KeyError, StampRefused) as error:
        raise SayRefused(f"it is damaged ({one_line(str(error), 120)})") from None


def chat_text_of(effects: Iterable[Effect]) -> str:
    """What these effects say in a chat; empty: nothing."""
    texts = (e.text for e in effects if isinstance(e, Put) and e.path.endswith(SAY))
    return next((parse_say(text.encode()).text for text in texts), "")


class Fate(Enum):
    """What became of one text that was handed to the chat's server."""

    SENT = "sent"
    NOT_SENT = "not sent"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class SendOutcome:
    """The answer of a chat's server: ``reason`` why it is not sent, ``wait`` seconds to leave it alone."""

    fate: Fate
    reason: str = ""
    wait: float = 0.0
