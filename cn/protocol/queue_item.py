"""Items that wait for the agent, and the one it was given (``docs/protocol/agent.md``, "The queue").

``state/queue/<cadence>-<id>.md`` waits (``chat-<id>.md`` where it has no thread), what lies in
``state/queue/dead/`` is given up until a person looks at it, ``state/turn.md`` is in flight: an
item, who took it, and the exact text that the agent got as ``state/input.md``. All three are
in main, so every clone sees them. An item has a cadence: how often such things come to the agent.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from enum import Enum
from typing import NamedTuple

from cn.values.names import HubPath, InputId, digest, parse_hub_path, parse_name
from cn.values.record_header import format_record, parse_record, read_texts, texts_of
from cn.values.text import one_line
from cn.values.timestamps import format_second

# Cadences, and the periods they divide time into.


class Cadence(Enum):
    """In order of priority: what comes first is done first."""

    INBOX = "inbox"
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    QUARTERLY = "quarterly"
    YEARLY = "yearly"
    ADHOC = "adhoc"

    @property
    def priority(self) -> int:
        """0 is the most urgent."""
        return list(Cadence).index(self)


PERIODIC = (Cadence.DAILY, Cadence.WEEKLY, Cadence.MONTHLY, Cadence.QUARTERLY, Cadence.YEARLY)
"""The cadences that have a reflection per period."""
REFLECTIONS = HubPath("threads/reflections")


def period(cadence: Cadence, at: datetime) -> str:
    """The period a time lies in: ``20260205``, ``2026-W06`` (ISO 8601), ``2026-02``, ``2026-Q1``, ``2026``.

    The names of one cadence sort as the periods do. Time is UTC.
    """
    day = at.astimezone(UTC).date()
    iso, year = day.isocalendar(), f"{day.year:04}"
    names = {
        Cadence.DAILY: day.isoformat().replace("-", ""),
        Cadence.WEEKLY: f"{iso.year:04}-W{iso.week:02}",
        Cadence.MONTHLY: day.isoformat()[:7],
        Cadence.QUARTERLY: f"{year}-Q{(day.month + 2) // 3}",
        Cadence.YEARLY: year,
    }
    if cadence not in names:
        raise ValueError(f"{cadence.value} has no periods")
    return names[cadence]


def is_period(cadence: Cadence, name: str) -> bool:
    """Is it the name of a period of this cadence, and is there such a period?"""
    try:
        first_day(cadence, name)
    except ValueError:
        return False
    return True


def first_day(cadence: Cadence, name: str) -> date:
    """The day a period begins; raises ValueError for a name that is none."""
    year, rest = int(name[:4]), name[4:].lstrip("-WQ")
    match cadence:
        case Cadence.DAILY:
            day = date(year, int(rest[:2]), int(rest[2:]))
        case Cadence.WEEKLY:
            day = date.fromisocalendar(year, int(rest), 1)
        case Cadence.QUARTERLY:
            day = date(year, int(rest) * 3 - 2, 1)
        case _:
            day = date(year, int(rest or 1), 1)
    if period(cadence, datetime.combine(day, time(), UTC)) != name:
        raise ValueError(f"{name!r} is no {cadence.value} period")
    return day


def reflection_path(cadence: Cadence, name: str) -> HubPath:
    """Where the reflection of a period lies."""
    return HubPath(f"{REFLECTIONS}/{cadence.value}/{name}.md")


# Items.

QUEUE = HubPath("state/queue")
DEAD = HubPath("state/queue/dead")
TURN = HubPath("state/turn.md")
INPUT = HubPath("state/input.md")
OUTPUT = HubPath("state/output.md")
LOGS = {"input": HubPath("logs/input"), "output": HubPath("logs/output")}
_QUEUED, _TURN = "queue/1", "turn/1"
_ID = "[0-9]{8}-[0-9]{6}-[0-9a-f]{6}"
_NAME = re.compile(rf"([a-z]+)-({_ID})(?:-([0-9]{{1,6}}))?\.md")
CHAT = "chat"
_PRIORITIES = {CHAT: 0, **{cadence.value: number for number, cadence in enumerate(Cadence)}}


@dataclass(frozen=True)
class Input:
    """One thing the agent is to answer.

    ``sender`` is the peer, or the hub itself. ``path`` is the thread it is about (empty:
    ``content`` says it all). ``topic`` and ``head`` name the peer's branch, empty for
    threads of our own. ``attempts`` were used up before, ``reason`` is why the last failed.
    """

    id: InputId
    sender: str
    cadence: Cadence
    queued: datetime
    path: HubPath
    topic: str = ""
    head: str = ""
    attempts: int = 0
    reason: str = ""
    content: str = ""

    @property
    def thread(self) -> str:
        """The name of its thread, without folder and ``.md``."""
        return self.path.rpartition("/")[2].removesuffix(".md")

    @property
    def lane(self) -> str:
        """The first word of its file name: ``chat`` for what has no thread, else its cadence."""
        return self.cadence.value if self.path else CHAT

    @property
    def names(self) -> frozenset[str]:
        """What an op may call it: the id, the thread with or without ``.md``, or ``peer/topic``."""
        source = f"{self.sender}/{self.topic}" if self.topic else ""
        return frozenset({self.id, self.thread, f"{self.thread}.md", source} - {"", ".md"})


@dataclass(frozen=True)
class Turn:
    """An item in flight: taken by clone ``machine`` as attempt number ``attempt`` (from 1).

    ``text`` is the agent's input byte for byte; ``sent`` all that a model was sent for it, as it is archived: known on
    this machine alone, and no part of the file.
    """

    input: Input
    machine: str
    attempt: int
    since: datetime
    text: str
    sent: bytes = b""

    @property
    def trigger(self) -> str:
        """The name under which this attempt is archived."""
        return str(Trigger(self.input.id, self.attempt))

    def archive_path(self, kind: str) -> HubPath:
        """``logs/input/<trigger>.md`` or ``logs/output/<trigger>.md``."""
        return HubPath(f"{LOGS[kind]}/{self.trigger}.md")

    @property
    def sent_path(self) -> HubPath:
        """``logs/input/<trigger>.json``: all that a model was sent."""
        return HubPath(f"{LOGS['input']}/{self.trigger}.json")

    def expired(self, now: datetime, limit: timedelta) -> bool:
        """Is its time over? Exactly at the limit it is not yet."""
        return now - self.since > limit


def is_input_id(text: str) -> bool:
    """Does it look like the id of an input?"""
    return re.fullmatch(_ID, text) is not None


def new_input_id(at: datetime, cause: Iterable[str], taken: Collection[str] = (), nth: int = 0) -> InputId:
    """The id of what is queued at this time; ``cause`` holds something that no peer can guess.

    Whoever knew the id could write an answer into the question, for a model to copy.
    ``nth`` puts what one run queues, all in the same second, in an order: ids sort by it.
    """
    words = list(cause)
    while True:
        found = InputId(f"{at:%Y%m%d-%H%M%S}-{min(nth, 0xFF):02x}{digest(*words)[:4]}")
        if found not in taken:
            return found
        words.append("again")


def next_nth(at: datetime, taken: Iterable[str]) -> int:
    """The ``nth`` of :func:`new_input_id` that sorts behind those of the same second."""
    second = f"{at:%Y%m%d-%H%M%S}-"
    return max((int(id[len(second) :][:2], 16) + 1 for id in taken if id.startswith(second)), default=0)


def queue_path(item: Input) -> HubPath:
    """Where it waits; the name alone tells its place in the order."""
    again = f"-{item.attempts + 1}" if item.attempts else ""
    return HubPath(f"{QUEUE}/{item.lane}-{item.id}{again}.md")


def dead_path(item: Input) -> HubPath:
    """Where it lies once it is given up."""
    return HubPath(f"{DEAD}/{item.lane}-{item.id}.md")


class Place(NamedTuple):
    """An item's place in the order: cadence, then attempts (what failed lets others pass), then age."""

    priority: int
    attempt: int
    id: InputId


def parse_queue_name(name: str) -> Place | None:
    """The place that a file name of the queue tells; None for any other file."""
    match = _NAME.fullmatch(name)
    if not match or match[1] not in _PRIORITIES:
        return None
    return Place(_PRIORITIES[match[1]], int(match[3] or 1), InputId(match[2]))


def places(paths: Iterable[str]) -> list[tuple[Place, HubPath]]:
    """Which of these are items of the queue, in the order of their turns."""
    found = ((parse_queue_name(path.rpartition("/")[2]), HubPath(path)) for path in paths)
    return sorted((place, path) for place, path in found if place is not None)


def _fields(item: Input) -> dict[str, str]:
    texts = texts_of(replace(item, reason=one_line(item.reason, 1000)), "content")
    return {"from" if key == "sender" else key: text for key, text in texts.items()}


def _input(texts: dict[str, str], content: str) -> Input:
    if not is_input_id(texts["id"]):
        raise ValueError(texts["id"])
    if "topic" in texts:
        parse_name(texts["from"], "peer")
    path = parse_hub_path(texts["path"]) if "path" in texts else HubPath("")
    cadence = Cadence(texts["cadence"])
    return read_texts(Input, texts, sender=texts["from"], cadence=cadence, path=path, content=content)


def format_queued(item: Input) -> str:
    """A file of the queue."""
    return format_record(_QUEUED, _fields(item), item.content.encode("utf-8", "replace")).decode()


def parse_queued(data: bytes) -> Input:
    """The inverse of :func:`format_queued`; raises :class:`~cn.values.record_header.RecordRefused`."""
    return parse_record(_QUEUED, data, lambda texts, body: _input(texts, body.decode("utf-8")))


def format_turn(turn: Turn) -> str:
    """The file ``state/turn.md``."""
    claim = texts_of(turn, "text")
    del claim["input"], claim["sent"]
    return format_record(_TURN, {**_fields(turn.input), **claim}, turn.text.encode("utf-8", "replace")).decode()


def parse_turn(data: bytes) -> Turn:
    """The inverse of :func:`format_turn`, but for an item's own content; raises as :func:`parse_queued`."""
    return parse_record(
        _TURN, data, lambda texts, body: read_texts(Turn, texts, input=_input(texts, ""), text=body.decode("utf-8"))
    )


def format_input(item: Input, attempt: int, content: str) -> str:
    """What the agent reads: frontmatter, then the content.

    At a further attempt it is told why the answer before did not hold.
    """
    fields = {
        "id": item.id,
        "from": item.sender,
        "cadence": item.cadence.value,
        "queued": format_second(item.queued),
        "thread": item.thread,
    }
    if attempt > 1:
        fields |= {"attempt": str(attempt), "rejected": one_line(item.reason, 1000)}
    lines = [f"{key}: {value}" for key, value in fields.items() if value]
    return "\n".join(["---", *lines, "---", "", content.strip("\n")]) + "\n"


class Shown(NamedTuple):
    """The agent's input as text tells it (``cn input --json``)."""

    id: str
    sender: str
    content: str
    cadence: str
    attempt: str = "1"
    thread: str = ""

    @property
    def trigger(self) -> str:
        """As :attr:`Turn.trigger`."""
        return self.id if self.attempt == "1" else f"{self.id}-{self.attempt}"


def parse_input(text: str) -> Shown:
    """The inverse of :func:`format_input`, for what is printed."""
    head, _, content = text.removeprefix("---\n").partition("\n---\n")
    fields = dict(line.split(": ", 1) for line in head.split("\n") if ": " in line)
    words = (fields.get("id", ""), fields.get("from", ""), content.strip("\n"), fields.get("cadence", ""))
    return Shown(*words, fields.get("attempt", "1"), fields.get("thread", ""))


class Trigger(NamedTuple):
    """The name of an archived attempt; they sort as they were queued."""

    id: str
    attempt: int

    def __str__(self) -> str:
        return self.id if self.attempt == 1 else f"{self.id}-{self.attempt}"


def parse_trigger(text: str) -> Trigger | None:
    """``20260219-141209-abc123`` or, for a further attempt, with ``-2``; None for any other text."""
    match = re.fullmatch(rf"({_ID})(?:-(\d{{1,6}}))?", text)
    if match is None or (match[2] is not None and int(match[2]) < 2):
        return None
    return Trigger(match[1], int(match[2] or 1))
