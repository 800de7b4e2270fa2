"""Questions that people have, over all rows at once: lists that fit a screen, sums, the last events.

Planners ask :class:`cn.agency.rows.Facts`, by key; this is asked of the index alone, for a person who waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import NamedTuple

from cn.agency.events import Event, parse_event
from cn.agency.names import OPEN, Uuid
from cn.agency.rows import Facts
from cn.agency.store.index import Index

WORKABLE, WAITING, BLOCKED = "workable", "waiting", "blocked"
"""What an open outcome can be: something can be done about it, about one below it, or not now."""
_STEP = 500

_STATE = f"""
CASE WHEN o.status <> '{OPEN}' THEN o.status
     WHEN o.blocked <> '' AND (o.until IS NULL OR o.until > :now) THEN '{BLOCKED}'
     WHEN EXISTS (SELECT 1 FROM link JOIN outcome c ON c.id = link.child
                  WHERE link.parent = o.id AND c.status = '{OPEN}') THEN '{WAITING}'
     ELSE '{WORKABLE}' END
"""  # noqa: S608  no word of a caller
_BELOW = """
WITH RECURSIVE below (id, depth) AS (
  SELECT :top, 0
  UNION
  SELECT link.child, depth + 1 FROM below JOIN link ON link.parent = below.id WHERE depth < :depth)
"""


class Row(NamedTuple):
    """An outcome in a list. ``state`` is what can be done about it, of an ended one its status."""

    id: Uuid
    title: str
    state: str
    responsible: Uuid
    delegated: bool
    why_blocked: str


class Listed(NamedTuple):
    """The first rows, and how many there are in all."""

    rows: list[Row]
    total: int


class Wanted(NamedTuple):
    """Which outcomes are listed: of a handler, workable, ended ones too, with words in title or text, not too deep."""

    handler: Uuid | None = None
    workable: bool = False
    ended: bool = False
    words: str = ""
    depth: int | None = None


def list_outcomes(facts: Facts, wanted: Wanted, now: datetime, most: int) -> Listed:
    """What is workable first, then oldest first; at most ``most`` rows."""
    where = ["1"] if wanted.ended else [f"o.status = '{OPEN}'"]
    given: dict[str, object] = {"now": int(now.timestamp())}
    if wanted.handler:
        where.append("o.responsible = :handler")
        given["handler"] = wanted.handler
    prefix = ""
    if wanted.depth is not None:
        head = facts.head()
        prefix = _BELOW
        where.append("o.id IN (SELECT id FROM below)")
        given |= {"top": wanted.handler or (head.root if head else ""), "depth": wanted.depth}
    state = f"WHERE state = '{WORKABLE}'" if wanted.workable else ""
    found = _ask(
        facts,
        f"{prefix} SELECT * FROM (SELECT o.id, o.title, {_STATE} AS state, o.responsible,"  # noqa: S608  no word of a caller
        " EXISTS (SELECT 1 FROM handler h WHERE h.id = o.id AND h.active), o.blocked, o.text, o.since"
        f" FROM outcome o WHERE {' AND '.join(where)}) {state}"
        f" ORDER BY state <> '{WORKABLE}', since, id",
        given,
    )
    words = wanted.words.casefold().split()
    rows: list[Row] = []
    count = 0
    for id, title, state, responsible, delegated, blocked, text, _ in found:
        if words and not all(word in f"{title}\n{text}".casefold() for word in words):
            continue
        count += 1
        if count <= most:
            rows.append(Row(id, title, state, responsible, bool(delegated), blocked))
    return Listed(rows, count)


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
    states = f"SELECT {_STATE} AS state, COUNT(*) FROM outcome o WHERE o.status = '{OPEN}' GROUP BY 1"  # noqa: S608
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


def mail_like(facts: Facts, prefix: str, most: int) -> list[Uuid]:
    """Messages, done or not, whose UUID begins so."""
    given: dict[str, object] = {"first": prefix, "last": f"{prefix}~", "most": most}
    return [row[0] for row in _ask(facts, "SELECT id FROM mail WHERE id >= :first AND id < :last LIMIT :most", given)]


def live_agents(facts: Facts) -> list[Uuid]:
    """Every agent that lives."""
    return [row[0] for row in _ask(facts, "SELECT id FROM agent WHERE live ORDER BY started, id", {})]


def _ask(facts: Facts, statement: str, given: dict[str, object]) -> Iterator[tuple]:  # type: ignore[type-arg]
    assert isinstance(facts, Index), "asked of what a store reads"
    return facts.database.execute(statement, given)
