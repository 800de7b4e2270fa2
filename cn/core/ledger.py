"""The ledger: for ever, what became of every (peer, topic, head) (DESIGN 4).

``state/ledger/<peer>/YYYYMM`` is append-only, one event a line, written in the same
commit as the thread it speaks of. ``state/ledger/<peer>/open`` is the same history folded
to what is not finished, so that no run reads what is long done.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from urllib.parse import quote, unquote

from cn.core.errors import CnError
from cn.core.names import HubPath, Name, NameRefused, Oid, parse_branch, parse_oid, parse_thread_name
from cn.core.stamp import StampRefused, format_second, parse_stamp

FOLDER = HubPath("state/ledger")
IN, OUT = "in", "out"
_KINDS = {
    IN: {
        "received",
        "refreshed",
        "repeated",
        "deferred",
        "returned",
        "assigned",
        "refused",
        "decided",
        "gone",
        "noticed",
        # With the queue (DESIGN 12): waits for the agent, is its input, was printed to it,
        # got no answer in time, got none that holds in all attempts.
        "enqueued",
        "claimed",
        "shown",
        "timed-out",
        "dead",
    },
    OUT: {"queued", "adopted", "delivered", "answered", "deleting", "deleted", "gone"},
}
_SAFE = "/:.,-_@+~"


class LedgerRefused(CnError):
    """A line that is no event."""


@dataclass(frozen=True)
class Event:
    """One thing that became of a branch.

    ``side`` is ``in`` (the peer made it) or ``out`` (we did); ``topic`` is the branch without
    its prefix, so that the route is not part of the key. ``fields`` hold what the kind needs.
    """

    at: datetime
    side: str
    kind: str
    topic: str
    head: Oid
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Item:
    """What is known of one unfinished (side, topic): the fold of its events."""

    side: str
    topic: str
    head: Oid
    state: str
    since: datetime
    fields: Mapping[str, str] = field(default_factory=dict)

    def get(self, key: str) -> str:
        """A field, empty when it was never set."""
        return self.fields.get(key, "")


def format_event(event: Event) -> str:
    """``2026-02-05T14:00:00Z in received proposal 3f2a… branch=pi/proposal thread=…``.

    An empty field stands there only where it takes an earlier one away: in an event that
    changes an open item.
    """
    words = [format_second(event.at), event.side, event.kind, quote(event.topic, safe=_SAFE), event.head]
    changes = event.kind not in _OPENS | _CLOSES[event.side]
    words += [
        f"{key}={quote(value, safe=_SAFE)}" for key, value in sorted(event.fields.items()) if value or changes
    ]
    return " ".join(words)


def parse_event(line: str) -> Event:
    """The inverse of :func:`format_event`."""
    words = line.split(" ")
    try:
        at, side, kind, topic, head, *rest = words
        if kind not in _KINDS[side]:
            raise KeyError(kind)
        pairs = (word.split("=", 1) for word in rest)
        fields = {key: unquote(value, errors="strict") for key, value in pairs}
        return Event(parse_stamp(at), side, kind, unquote(topic, errors="strict"), parse_oid(head), fields)
    except (ValueError, KeyError, NameRefused, StampRefused) as error:
        raise LedgerRefused(f"{line[:80]!r} is no ledger event ({error})", "see 'cn doctor'") from None


def parse_events(text: str) -> list[Event]:
    """All events of a month."""
    return [parse_event(line) for line in text.split("\n") if line]


def month_path(peer: Name, at: datetime) -> HubPath:
    """The file for events of this month."""
    return HubPath(f"{FOLDER}/{peer}/{at:%Y%m}")


def open_path(peer: Name) -> HubPath:
    """The file of unfinished items."""
    return HubPath(f"{FOLDER}/{peer}/open")


Open = dict[tuple[str, str], Item]
"""Unfinished items by (side, topic)."""

_OPENS = {"received", "queued", "adopted"}
_CLOSES = {IN: {"decided", "noticed"}, OUT: {"deleted", "gone"}}
_STATES = {"refreshed": "received", "returned": "received"}
_KEEP_STATE = {"refused", "enqueued", "claimed", "shown", "timed-out", "dead"}


def apply(items: Open, event: Event) -> None:
    """Change ``items`` by one more event. Total: an event that fits nothing changes nothing."""
    key = (event.side, event.topic)
    found = items.get(key)
    if event.kind in _CLOSES[event.side]:
        # Ours is finished only at the tip we know: an old deletion does not close a new branch.
        if event.side == IN or found is None or found.head == event.head:
            items.pop(key, None)
    elif event.kind in _OPENS:
        fields = {name: value for name, value in event.fields.items() if value}
        items[key] = Item(event.side, event.topic, event.head, event.kind, event.at, fields)
    elif found is None or (event.kind == "refused" and event.head != found.head):
        return  # a head that was not let in changes nothing of what is pending
    elif event.kind == "repeated":
        if found.head == event.head:  # it was gone, and is there again
            items[key] = replace(found, fields={k: v for k, v in found.fields.items() if k != "gone"})
    elif event.kind == "gone":
        items[key] = replace(found, fields={**found.fields, "gone": format_second(event.at)})
    else:
        items[key] = _changed(found, event)


def _changed(found: Item, event: Event) -> Item:
    fields = {**found.fields, **event.fields}
    if event.kind in ("refreshed", "returned"):
        for name in ("digest", "rule", "why", "remedy", "until", "actor", "reason", "by", "gone", "input"):
            fields.pop(name, None)
    state = found.state if event.kind in _KEEP_STATE else _STATES.get(event.kind, event.kind)
    fields = {name: value for name, value in fields.items() if value}
    return replace(found, head=event.head, state=state, fields=fields)


def fold(items: Open, event: Event) -> Open:
    """The items after one more event, as a new value."""
    return fold_all([event], items)


def fold_all(events: Iterable[Event], items: Open | None = None) -> Open:
    """The items after a whole history."""
    state: Open = dict(items or {})
    for event in events:
        apply(state, event)
    return state


def format_open(items: Open) -> str:
    """One JSON object a line, sorted: the same items, the same bytes."""
    lines = [
        json.dumps(
            {
                "side": i.side,
                "topic": i.topic,
                "head": i.head,
                "state": i.state,
                "since": format_second(i.since),
                **{"fields": dict(sorted(i.fields.items()))},
            },
            ensure_ascii=True,
        )
        for _, i in sorted(items.items())
    ]
    return "".join(line + "\n" for line in lines)


def parse_open(text: str) -> Open:
    """The inverse of :func:`format_open`."""
    items: Open = {}
    for line in text.split("\n"):
        if not line:
            continue
        try:
            data = json.loads(line)
            fields = {str(k): str(v) for k, v in data["fields"].items()}
            _check_names(fields)
            item = Item(
                str(data["side"]),
                str(data["topic"]),
                parse_oid(data["head"]),
                str(data["state"]),
                parse_stamp(data["since"]),
                fields,
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, NameRefused, StampRefused):
            raise LedgerRefused(f"{line[:80]!r} is no ledger item", "see 'cn doctor'") from None
        items[(item.side, item.topic)] = item
    return items


def _check_names(fields: Mapping[str, str]) -> None:
    """Names that become paths and refs are what their parsers take, whoever wrote the file."""
    thread, branch = fields.get("thread"), fields.get("branch")
    if thread and parse_thread_name(thread) != thread:
        raise ValueError(thread)
    if branch:
        parse_branch(branch)


def mentions(history: str, side: str, topic: str) -> list[Event]:
    """The events of one topic, found by text before any line is parsed."""
    needle = f" {quote(topic, safe=_SAFE)} "
    return [
        parse_event(line)
        for line in history.split("\n")
        if needle in line and f"Z {side} " in line and line.split(" ", 5)[1:4:2] == [side, needle.strip()]
    ]
