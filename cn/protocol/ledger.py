"""The ledger: what became of every (peer, topic, head), for ever (``docs/protocol/ledger.md``).

``state/ledger/<peer>/YYYYMM`` is append-only, one event a line, written in the same
commit as the thread it speaks of. ``state/ledger/<peer>/open`` is the same history folded
to what is not finished, so that no run reads what is long done.
"""

from __future__ import annotations

import json
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote, unquote

from cn.protocol.layout import PROPOSAL
from cn.protocol.states import IN_QUEUE, NONE, SENDER, THREAD, InvalidTransition, Machine
from cn.values.errors import CnError
from cn.values.names import HubPath, Name, NameRefused, Oid, parse_branch, parse_oid, parse_thread_name
from cn.values.text import one_line
from cn.values.timestamps import StampRefused, format_second, parse_stamp, stamp_or_none

FOLDER = HubPath("state/ledger")
IN, OUT = "in", "out"
WITHDRAWN = "withdrawn"
"""The field of a deletion of ours by which we took back what we sent: when."""
AGAIN = "again"
"""The field of a notice of ours that was refused for its signature, and goes once more under another name: when."""
SAID = "said"
"""When words came to a thread that waited for the agent, so that its question is another, with an id of its own."""
_MACHINES = {IN: THREAD, OUT: SENDER}
"""The machine of each side: its events are the kinds, its states the ``state`` of open items."""
_SAFE = "/:.,-_@+~"
_NO_FIELDS: Mapping[str, str] = MappingProxyType({})


class LedgerRefused(CnError):
    """A line that is no event."""


class Event(NamedTuple):
    """One thing that became of a branch.

    ``side`` is ``in`` (the peer made it) or ``out`` (we did); ``topic`` is the branch without
    its prefix, so that the route is not part of the key. ``fields`` hold what the kind needs.
    """

    at: datetime
    side: str
    kind: str
    topic: str
    head: Oid
    fields: Mapping[str, str] = _NO_FIELDS


class Item(NamedTuple):
    """What is known of one unfinished (side, topic): the fold of its events.

    ``state`` is one of :data:`~cn.protocol.states.THREAD` (``in``) or :data:`~cn.protocol.states.SENDER` (``out``).
    """

    side: str
    topic: str
    head: Oid
    state: str
    since: datetime
    fields: Mapping[str, str] = _NO_FIELDS

    def get(self, key: str) -> str:
        """A field, empty when it was never set."""
        return self.fields.get(key, "")

    @property
    def written(self) -> datetime:
        """When message or commit say that they were written; where they do not, when it arrived."""
        return stamp_or_none(self.get("written")) or self.since

    @property
    def order(self) -> tuple[datetime, datetime, str]:
        """Sorts oldest first: by the time of writing, then of arrival."""
        return self.written, self.since, self.get("thread")

    @property
    def is_withdrawn(self) -> bool:
        """Does a proposal's branch not stand any more where its thread shows it? Nothing can be merged then."""
        return bool(self.get("gone")) and self.get("kind") in ("", PROPOSAL)

    def is_due(self, now: datetime) -> bool:
        """Has the time of a deferral come?"""
        until = self.get("until")
        return self.state == "deferred" and bool(until) and until <= format_second(now)


def format_event(event: Event) -> str:
    """``2026-02-05T14:00:00Z in received proposal 3f2a… branch=pi/proposal thread=…``.

    An empty field stands there only where it takes an earlier one away: in an event that
    changes an open item.
    """
    words = [format_second(event.at), event.side, event.kind, quote(event.topic, safe=_SAFE), event.head]
    changes = event.kind not in _OPENS | _CLOSES[event.side]
    words += [f"{key}={quote(value, safe=_SAFE)}" for key, value in sorted(event.fields.items()) if value or changes]
    return " ".join(words)


def parse_event(line: str) -> Event:
    """The inverse of :func:`format_event`."""
    words = line.split(" ")
    try:
        if len(words) < 5:
            raise ValueError("it is cut off: time, side, kind, topic and head are needed")
        at, side, kind, topic, head, *rest = words
        if side not in _MACHINES or kind not in _MACHINES[side].events:
            raise ValueError(f"there is no kind {side} {kind}")
        if bad := [word for word in rest if "=" not in word]:
            raise ValueError(f"{bad[0]!r} is no key=value")
        pairs = (word.split("=", 1) for word in rest)
        fields = {sys.intern(key): unquote(value, errors="strict") for key, value in pairs}
        side, kind = sys.intern(side), sys.intern(kind)
        return Event(parse_stamp(at), side, kind, unquote(topic, errors="strict"), parse_oid(head), fields)
    except (ValueError, KeyError, NameRefused, StampRefused) as error:
        raise LedgerRefused(
            f"{line[:80]!r} is no ledger event ({one_line(str(error), 120)})", "see 'cn doctor'"
        ) from None


_BLANKS = " \t\ufeff"
"""What an editor or a formatter leaves at the ends of a line: :func:`format_event` writes none of them there, nor any
character of control.
"""
_TOUCHED = ("\r", "\ufeff", " \n", "\t\n", "\n ", "\n\t", "\n\n", "%0D")


def numbered_lines(text: str) -> list[tuple[int, str]]:
    """The lines of a month as cn wrote them, whatever a person's tools made of them, each with its number there.

    Line ends, a byte order mark, blanks at the ends of lines and blank lines say nothing. A value that an earlier cn
    took with a carriage return is the value without. A line that stands there both ways is one event: an
    earlier cn put the lines that it missed beside those with other ends.
    """
    found, same, touched = list[tuple[int, str]](), Counter[str](), Counter[str]()
    for number, raw in enumerate(text.split("\n"), 1):
        for part in raw.split("\r"):
            if line := part.strip(_BLANKS):
                line = " ".join(map(_without_return, line.split(" "))) if "%0D" in line else line
                found.append((number, line))
                (same if line == raw else touched)[line] += 1
    if not same.keys() & touched.keys():
        return found
    left, kept = same | touched, list[tuple[int, str]]()  # of each as often as it stands there one way
    for number, line in found:
        if left[line]:
            left[line] -= 1
            kept.append((number, line))
    return kept


def _without_return(word: str) -> str:
    end = len(word)  # a peer's ledger is read so too: in time linear in its length
    while word.endswith("%0D", 0, end):
        end -= 3
    return word[:end]


def as_written(text: str) -> str:
    """A month as cn wrote it (:func:`numbered_lines`); nearly always the very text."""
    edges = text.startswith(("\n", " ", "\t")) or (text and not text.endswith("\n"))
    if not edges and not any(mark in text for mark in _TOUCHED):
        return text
    return "".join(f"{line}\n" for _, line in numbered_lines(text))


def missing_events(lines: Iterable[str], there: Collection[str]) -> set[str]:
    """The lines that say something which no line ``there`` says.

    What is no event says nothing, nor does the mere beginning of a line that is there: a program that went over the
    files (one that replaces words, or wraps lines) leaves both. What it made is no entry that may not be taken out.
    """
    missing = set(lines).difference(there)
    whole = sorted(there) if missing else []
    return {line for line in missing if _is_event(line) and not _begins_one(line, whole)}


def _begins_one(line: str, whole: list[str]) -> bool:
    """Does one of these sorted lines begin with this one?"""
    at = bisect_left(whole, line)
    return at < len(whole) and whole[at].startswith(line)


def _is_event(line: str) -> bool:
    try:
        line.encode("utf-8")  # what is no text there cannot be read either
        parse_event(line)
    except (LedgerRefused, UnicodeEncodeError):
        return False
    return True


def each_event(text: str) -> Iterator[Event]:
    """All events of a month, one by one: together they may take more memory than all the rest of a run."""
    return (parse_event(line) for line in text.split("\n") if line)


def months(names: Iterable[str]) -> list[str]:
    """The files of a peer's history among the names in its folder, oldest first."""
    return sorted(name for name in names if name.isdigit())


def month_path(peer: Name, at: datetime, names: Iterable[str] = ()) -> HubPath:
    """The file for events of this month; ``names`` is what the peer's folder holds.

    Never one before the last: the order of the files is the order in which things happened,
    whatever the clocks of the clones that write them say.
    """
    return HubPath(f"{FOLDER}/{peer}/{max([f'{at:%Y%m}', *months(names)])}")


def open_path(peer: Name) -> HubPath:
    """The file of unfinished items."""
    return HubPath(f"{FOLDER}/{peer}/open")


Open = dict[tuple[str, str], Item]
"""Unfinished items by (side, topic)."""

_OPENS = {"received", "queued", "adopted"}
_CLOSES = {IN: {"decided", "noticed"}, OUT: {"deleted", "gone"}}
_OF_THIS_HEAD = {IN: {"refused", "repeated"}, OUT: {"deleted", "gone"}}
"""Kinds that at another head speak of another branch of that name, and change nothing here.

A head that was not let in is not the pending one, an old deletion does not close a new branch.
"""
_ENDS = {IN: {"decided"}, OUT: {"deleted", "gone"}}
_BEGINS = {IN: {"received", "refreshed"}, OUT: {"queued"}}
"""Kinds that begin something at a head. A branch of ours that was deleted may be adopted again."""
_DECIDED = ("digest", "rule", "why", "remedy", "until", "actor", "reason", "by")
"""Fields that speak of a decision on an earlier head."""


def closes(event: Event) -> bool:
    """Is nothing open any more after it?"""
    return event.kind in _CLOSES[event.side]


def check(items: Open, event: Event, what: str = "") -> None:
    """Raise :class:`InvalidTransition` if a new event of ours does not fit what is open."""
    found = items.get((event.side, event.topic))
    machine, state = _MACHINES[event.side], found.state if found else NONE
    if (state, event.kind) not in machine.after and not _of_another_head(found, event):
        raise InvalidTransition(machine.name, state, event.kind, what)


def _of_another_head(found: Item | None, event: Event) -> bool:
    return found is not None and event.kind in _OF_THIS_HEAD[event.side] and event.head != found.head


def apply(items: Open, event: Event) -> None:
    """Change ``items`` by one more event. Total: an event that fits nothing changes nothing.

    Histories may come from several clones, from older versions, or be damaged; what we add
    ourselves goes through :func:`check` first.
    """
    key = (event.side, event.topic)
    found = items.get(key)
    machine = _MACHINES[event.side]
    after = machine.after.get((found.state if found else NONE, event.kind))
    if after is None or after == NONE or _of_another_head(found, event):
        return
    if after in machine.finals:
        items.pop(key, None)
    elif event.kind in _OPENS:
        fields = {name: value for name, value in event.fields.items() if value}
        items[key] = Item(event.side, event.topic, event.head, after, event.at, fields)
    elif found is not None:
        items[key] = _changed(found, event, after)


def _changed(found: Item, event: Event, state: str) -> Item:
    if event.kind == "gone":
        return found._replace(fields={**found.fields, "gone": format_second(event.at)})
    if event.kind == "repeated":  # it was gone, and is there again
        fields = {**found.fields, **event.fields}
        return found._replace(fields={k: v for k, v in fields.items() if v and k != "gone"})
    fields = {**found.fields, **event.fields}
    dropped = _DECIDED if event.kind in ("refreshed", "returned") else ()
    if event.kind == "refreshed":  # the branch is there; what returns may be withdrawn
        dropped = (*dropped, "gone")
    if event.side == IN and state not in IN_QUEUE:
        dropped = (*dropped, "input")
    fields = {name: value for name, value in fields.items() if value and name not in dropped}
    return found._replace(head=event.head, state=state, fields=fields)


def fold_history(events: Iterable[Event], items: Open | None = None) -> Open:
    """The items after a history from the files, which may not be in order.

    A clone whose clock was slow may have written into a month before (:func:`month_path` does not):
    there the end of a thread comes before its beginning, and must stay its end. What has begun before has ended in
    its order, and may begin again.
    """
    state: Open = dict(items or {})
    begun: set[tuple[str, str, Oid]] = set()
    ended: set[tuple[str, str, Oid]] = set()
    for event in events:
        found = state.get((event.side, event.topic))
        this = (event.side, event.topic, event.head)
        if event.kind in _ENDS[event.side] and (found is None or found.head != event.head) and this not in begun:
            ended.add(this)
        apply(state, event)
        if event.kind in _BEGINS[event.side]:
            begun.add(this)
            if this in ended:
                state.pop((event.side, event.topic), None)
    return state


def format_open(items: Open) -> str:
    """One JSON object a line, sorted: the same items, the same bytes."""
    shapes = (
        {**item._asdict(), "since": format_second(item.since), "fields": dict(sorted(item.fields.items()))}
        for _, item in sorted(items.items())
    )
    return "".join(f"{json.dumps(shape)}\n" for shape in shapes)


def parse_open(text: str) -> Open:
    """The inverse of :func:`format_open`, without empty fields, which the history need not keep.

    What tools do to lines says nothing here either, nor does a carriage return that an earlier cn took into a field.
    """
    items: Open = {}
    for line in filter(None, (line.strip(f"{_BLANKS}\r") for line in text.split("\n"))):
        try:
            data = json.loads(line)
            # The same few words in thousands of items: one object each.
            values = ((sys.intern(str(k)), str(v).rstrip("\r")) for k, v in data["fields"].items())
            fields = {key: value for key, value in values if value}
            if "kind" in fields:
                fields["kind"] = sys.intern(fields["kind"])
            side, state = sys.intern(str(data["side"])), sys.intern(str(data["state"]))
            _check(_MACHINES[side], state, fields)
            head, since = parse_oid(data["head"]), parse_stamp(data["since"])
            item = Item(side, str(data["topic"]), head, state, since, fields)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, NameRefused, StampRefused):
            raise LedgerRefused(f"{line[:80]!r} is no ledger item", "see 'cn doctor'") from None
        items[(item.side, item.topic)] = item
    return items


def _check(machine: Machine, state: str, fields: Mapping[str, str]) -> None:
    """An open item has neither no state nor one that ends; what becomes a path or a ref is a name."""
    if state == NONE or state not in machine.states:
        raise ValueError(state)
    thread, branch = fields.get("thread"), fields.get("branch")
    if thread and parse_thread_name(thread) != thread:
        raise ValueError(thread)
    if branch:
        parse_branch(branch)


def events_of_topics(history: str, side: str, topics: Iterable[str]) -> dict[str, list[Event]]:
    """The events of some topics, each oldest first; other lines are not parsed."""
    wanted = {quote(topic, safe=_SAFE): topic for topic in topics}
    found: dict[str, list[Event]] = {topic: [] for topic in wanted.values()}
    for topic, _, line in _rows(history, side):
        if topic in wanted:
            found[wanted[topic]].append(parse_event(line))
    return found


def events_at_heads(history: str, side: str, heads: Iterable[Oid]) -> dict[Oid, list[Event]]:
    """The events at some heads, whatever the topic, each oldest first; heads without any are left out."""
    wanted = set(heads)
    found: dict[Oid, list[Event]] = {}
    for _, head, line in _rows(history, side):
        if head in wanted:
            found.setdefault(Oid(head), []).append(parse_event(line))
    return found


def events_with(history: str, side: str, words: Collection[str]) -> list[Event]:
    """The events whose line holds one of these words (the name of a field, say), oldest first."""
    return [parse_event(line) for _, _, line in _rows(history, side) if any(word in line for word in words)]


def names_thread(history: str, thread: str) -> bool:
    """Does an event name this thread, but for those with which what waits there came?"""
    word, begins = f" thread={quote(thread, safe=_SAFE)}", ("received", "refreshed")
    at = history.find(word)
    while at >= 0:  # line by line would be slow where many threads are asked about
        end = at + len(word)
        kind = history[history.rfind("\n", 0, at) + 1 : at].split(" ", 3)[2:3]
        if history[end : end + 1] in ("", " ", "\n") and kind and kind[0] not in begins:
            return True
        at = history.find(word, end)
    return False


def topics(history: str, side: str) -> set[str]:
    """All topics of one side."""
    return {unquote(topic) for topic, _, _ in _rows(history, side)}


def _rows(history: str, side: str) -> Iterator[tuple[str, str, str]]:
    """Topic and head, as they are written, and the line of each event of a side."""
    for line in history.split("\n"):
        words = line.split(" ", 5)
        if len(words) > 4 and words[1] == side:
            yield words[3], words[4], line
