"""A text to be sent to a chat, as a file of the outbox until it was sent.

A chat is ``telegram:<id>``. Sending is not repeatable: nothing there recognizes a message it
has had. So a text whose fate is unknown is reported, and never sent again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from cn.protocol.effects import Effect, Put
from cn.protocol.layout import OUTBOX, SAY, SENT
from cn.values.names import HubPath, NameRefused
from cn.values.record_header import format_record, parse_record, read_texts, texts_of
from cn.values.timestamps import format_day

ACKNOWLEDGED = "(acknowledged)"
_FORM = "say/1"
_CHAT = re.compile(r"telegram:(-?\d{1,20})")


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
    return format_record(_FORM, texts_of(say, "text"), say.text.encode("utf-8", "replace")).decode()


def parse_say(data: bytes) -> Say:
    """The inverse of :func:`format_say`; raises :class:`~cn.values.record_header.RecordRefused`."""
    return parse_record(_FORM, data, _read_say)


def _read_say(texts: dict[str, str], body: bytes) -> Say:
    chat_id(texts["chat"])
    return read_texts(Say, texts, text=body.decode("utf-8"))


def chat_text_of(effects: Iterable[Effect]) -> str:
    """What these effects say in a chat; empty: nothing."""
    texts = (e.text for e in effects if isinstance(e, Put) and e.path.endswith(SAY))
    return next((parse_say(text.encode()).text for text in texts), "")
