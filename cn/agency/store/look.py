"""Questions that people have, over all rows at once: lists, sums, the last events.

Planners ask :class:`cn.agency.rows.Facts`, by key; this is asked of the index alone, for a person who waits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import NamedTuple

from cn.agency.events import Event, escape, parse_event
from cn.agency.names import Actor, Uuid
from cn.agency.rows import Facts
from cn.agency.store.index import Index
from cn.agency.store.outcome_list import BLOCKED, OPEN, STATE, WORKABLE, Listed, Wanted
from cn.agency.store.outcome_list import list_outcomes as ask_for_outcomes

_STEP = 500


def list_outcomes(facts: Facts, wanted: Wanted, now: datetime, most: int) -> Listed:
    """See :func:`cn.agency.store.outcome_list.list_outcomes`."""
    assert isinstance(facts, Index), "asked of what a store reads"
    return ask_for_outcomes(facts.database, wanted, int(now.timestamp()), most)


class Sums(NamedTuple):
    """How much there is. ``pending`` messages are of handlers and users together."""

    events: int
    outcomes: int
    workable: int
    blocked: int
    handlers: int
    agents: int
    files: int
    pending: int
    deferred: int


def sums(facts: Facts, now: datetime) -> Sums:
    """What there is now."""
    given: dict[str, object] = {"now": int(now.timestamp())}
    states = f"SELECT {STATE} AS state, COUNT(*) FROM outcome o WHERE o.status = '{OPEN}' GROUP BY 1"  # noqa: S608
    found: dict[str, int] = dict(_ask(facts, states, given))
    head = facts.head()
    more = [
        next(iter(_ask(facts, f"SELECT COUNT(*) FROM {table}", {})))[0]  # noqa: S608
        for table in ("handler WHERE active", "agent WHERE live", "file", "mail WHERE pending", "deferred")
    ]
    ready, held = found.get(WORKABLE, 0), found.get(BLOCKED, 0)
    return Sums(head.seq if head else 0, sum(found.values()), ready, held, *more)


def last_events(facts: Facts, fits: Callable[[Event], bool], most: int | None, subject: str = "") -> list[Event]:
    """The last events that fit, oldest first; with ``subject`` only of those that name it."""
    found: list[Event] = []
    for event in _backwards(facts, subject):
        if most is not None and len(found) >= most:
            break
        if fits(event):
            found.append(event)
    return found[::-1]


def events_after(facts: Facts, seq: int) -> list[Event]:
    """What happened after an event, in order."""
    rows = _ask(facts, "SELECT line FROM event WHERE seq > :seq ORDER BY seq", {"seq": seq})
    return [parse_event(line) for (line,) in rows]


def events_of_request(facts: Facts, actor: Actor, request_id: str) -> list[Event]:
    """What became of a request that was done before, in order."""
    needle = f'"request_id":{escape(json.dumps(request_id, ensure_ascii=False))},'
    rows = _ask(facts, "SELECT line FROM event WHERE instr(line, :needle) ORDER BY seq", {"needle": needle})
    events = (parse_event(line) for (line,) in rows)
    return [one for one in events if (one.actor, one.request_id) == (actor, request_id)]


def _backwards(facts: Facts, subject: str) -> Iterator[Event]:
    before = 2**53
    if subject:
        while events := facts.history(subject, before, _STEP):
            yield from reversed(events)
            before = events[0].seq
    else:
        for (line,) in _ask(facts, "SELECT line FROM event ORDER BY seq DESC", {}):
            yield parse_event(line)


def grants_like(facts: Facts, prefix: str, most: int) -> list[Uuid]:
    """Capabilities whose UUID begins so."""
    given: dict[str, object] = {"first": prefix, "last": f"{prefix}~", "most": most}
    return [
        row[0] for row in _ask(facts, 'SELECT id FROM "grant" WHERE id >= :first AND id < :last LIMIT :most', given)
    ]


def named_like(facts: Facts, prefix: str, most: int) -> list[Uuid]:
    """Whatever events name, also what is no more, whose UUID begins so."""
    given: dict[str, object] = {"first": prefix, "last": f"{prefix}~", "most": most}
    rows = "SELECT DISTINCT subject FROM subject WHERE subject >= :first AND subject < :last LIMIT :most"
    return [row[0] for row in _ask(facts, rows, given)]


def mail_like(facts: Facts, prefix: str, most: int) -> list[Uuid]:
    """Messages, done or not, whose UUID begins so."""
    given: dict[str, object] = {"first": prefix, "last": f"{prefix}~", "most": most}
    return [row[0] for row in _ask(facts, "SELECT id FROM mail WHERE id >= :first AND id < :last LIMIT :most", given)]


def deferred_like(facts: Facts, prefix: str, most: int) -> list[Uuid]:
    """Messages that wait for their time, whose UUID begins so."""
    given: dict[str, object] = {"first": prefix, "last": f"{prefix}~", "most": most}
    return [
        row[0] for row in _ask(facts, "SELECT id FROM deferred WHERE id >= :first AND id < :last LIMIT :most", given)
    ]


def agents_like(facts: Facts, prefix: str, most: int) -> list[Uuid]:
    """Agents, live or not, whose UUID begins so."""
    given: dict[str, object] = {"first": prefix, "last": f"{prefix}~", "most": most}
    return [row[0] for row in _ask(facts, "SELECT id FROM agent WHERE id >= :first AND id < :last LIMIT :most", given)]


def live_agents(facts: Facts) -> list[Uuid]:
    """Every agent that lives."""
    return [row[0] for row in _ask(facts, "SELECT id FROM agent WHERE live ORDER BY started, id", {})]


def ended_outcomes(facts: Facts, handler: Uuid, status: str, most: int) -> list[Uuid]:
    """Outcomes that ended while a handler was responsible for them, the latest made first."""
    given: dict[str, object] = {"handler": handler, "status": status, "most": most}
    rows = """SELECT id FROM outcome WHERE responsible = :handler AND status = :status AND NOT inbox
              ORDER BY since DESC LIMIT :most"""
    return [row[0] for row in _ask(facts, rows, given)]


def _ask(facts: Facts, statement: str, given: dict[str, object]) -> Iterator[tuple]:  # type: ignore[type-arg]
    assert isinstance(facts, Index), "asked of what a store reads"
    return facts.database.execute(statement, given)
