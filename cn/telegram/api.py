"""Read what Telegram sends and answers, as values (https://core.telegram.org/bots/api).

Whatever JSON comes, :func:`read_update` makes something of it; text stays data.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum

# What comes in.


class Command(Enum):
    """What is answered at once, from what is on disk, without the agent."""

    START = "start"
    STATUS = "status"
    INBOX = "inbox"


@dataclass(frozen=True)
class Unsupported:
    """Something that the agent does not get: ``what`` it is, and what the person is told."""

    what: str
    reply: str


EDITED = Unsupported(
    "a change to a message", "I do not see changes to a message. Send the correction as a new message."
)
"""The agent has the first version."""


@dataclass(frozen=True)
class Incoming:
    """A message of a person. ``text`` is empty where there is none; ``at`` is UTC.

    ``kind`` is None for a text for the agent.
    """

    update_id: int
    chat_id: int
    user_id: int
    message_id: int
    at: datetime
    text: str
    kind: Command | Unsupported | None = None


@dataclass(frozen=True)
class Ignored:
    """An update that asks for nothing; ``update_id`` is None where not even that can be read."""

    update_id: int | None
    reason: str


_MEDIA = (  # noqa: SIM905  "animation" and "venue" come together with what they replace
    "animation venue photo voice video video_note audio sticker document story paid_media live_photo "
    "contact location poll dice game checklist invoice"
).split()
_COMMAND = re.compile(r"/(start|status|inbox)(?:@\w{1,64})?(?=\s|\Z)", re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_update(update: object) -> Incoming | Ignored:
    """One element of ``getUpdates``; total: any JSON is one or the other.

    Characters that UTF-8 cannot hold become U+FFFD.
    """
    data = _mapping(update)
    update_id = _integer(data.get("update_id"))
    if update_id is None:
        return Ignored(None, "it has no update_id")
    message = _mapping(data.get("message"))
    edited = not message and bool(message := _mapping(data.get("edited_message")))
    if not message:
        return Ignored(update_id, "it is no message")
    user_id = _integer(_mapping(message.get("from")).get("id"))
    chat_id = _integer(_mapping(message.get("chat")).get("id"))
    message_id = _integer(message.get("message_id"))
    if user_id is None or chat_id is None or message_id is None:
        return Ignored(update_id, "it is nobody's message")
    found = message.get("text")
    text = _SURROGATE.sub("\ufffd", found) if isinstance(found, str) else ""
    media = next((name for name in _MEDIA if message.get(name) is not None), "")
    if not media and not text.strip():
        return Ignored(update_id, "it has no content")
    at = _time(message.get("edit_date") if edited else message.get("date"))
    kind: Command | Unsupported | None = None
    if edited:
        kind = EDITED
    elif media:
        what = media.replace("_", " ")
        kind = Unsupported(media, f"I read text only, so I cannot take this ({what}). Send it as text.")
    elif command := _COMMAND.match(text):
        kind = Command(command[1].lower())
    return Incoming(update_id, chat_id, user_id, message_id, at, text, kind)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _integer(value: object) -> int | None:
    """An integer of at most 64 bits; JSON's ``true`` is none."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and -(2**63) <= value < 2**63 else None  # type: ignore[operator,return-value]


def _time(value: object) -> datetime:
    try:
        return _EPOCH + timedelta(seconds=_integer(value) or 0)
    except OverflowError:
        return _EPOCH


def is_allowed(user_id: int, allowed: Collection[int]) -> bool:
    """May this person speak to the agent? An empty list allows nobody."""
    return user_id in allowed


def is_heard(chat_id: int, writer: int | None, allowed: Collection[int]) -> bool:
    """May a text go to this chat? A private one has its user's id; in a group ``writer`` wrote to us."""
    return chat_id in allowed or (writer is not None and writer in allowed)


START_REPLY = "Write to me as text. /status and /inbox show where things stand, without asking the agent."
"""The answer to ``/start``, which Telegram sends when a person opens the chat."""

# What Telegram answers.


class Trouble(Enum):
    """Why Telegram did not do something, as the log says it."""

    UNAUTHORIZED = "Telegram refuses the token"
    """401, 404: it does not know it."""
    CONFLICT = "another program polls with this token"
    """409: or a webhook is set."""
    RATE_LIMITED = "Telegram wants a pause"
    """429: too many requests."""
    SERVER = "Telegram has trouble"
    """5xx: a message may be out all the same."""
    NETWORK = "Telegram is not reached"
    """Certainly nothing was sent."""
    UNKNOWN = "no answer of Telegram"
    """The request left, and no answer that can be read came: it may have been done."""
    REJECTED = "Telegram does not do it"
    """400, 403: no such chat, the bot is blocked, the text is too long."""


@dataclass(frozen=True)
class Failure:
    """What did not come about, and why; not to be tried before ``retry_after`` seconds are over."""

    trouble: Trouble
    reason: str
    retry_after: float = 0.0

    @property
    def is_unsent(self) -> bool:
        """Was the message certainly not delivered, so that sending it again cannot double it?"""
        return self.trouble not in (Trouble.SERVER, Trouble.UNKNOWN)

    def __str__(self) -> str:
        """One line for the log."""
        pause = f" of {self.retry_after:g} s" if self.retry_after else ""
        return f"{self.trouble.value}{pause}: {self.reason}"


LONGEST_PAUSE = 3600.0


@dataclass(frozen=True)
class Pauses:
    """Seconds between tries: ``first``, then doubled up to ``longest``."""

    first: float = 1.0
    longest: float = 60.0

    def after(self, tries: int, chance: float, failure: Failure | None = None) -> float:
        """How long to wait after this many failed tries (from 1).

        ``chance`` in [0, 1) spreads the bots of the world; what Telegram itself asks for
        is not undercut, up to :data:`LONGEST_PAUSE`.
        """
        least = min(failure.retry_after, LONGEST_PAUSE) if failure else 0.0
        full = min(self.first * 2 ** min(tries - 1, 32), self.longest)
        return least + chance * self.first if least else full * (0.5 + chance / 2)
