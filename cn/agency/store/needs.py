"""Who needs an agent: asked of the index alone, by who starts them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from cn.agency.events import Event, parse_event
from cn.agency.names import Uuid
from cn.agency.operations import ByHandler, actor_of
from cn.agency.rows import Agent, Facts
from cn.agency.store.index import Index
from cn.agency.store.outcome_list import IS_WORKABLE


class Need(NamedTuple):
    """A handler with something workable and without an agent; ``since`` is the number of the event from which on."""

    handler: Uuid
    since: int


def find_needs(facts: Facts, now: datetime) -> list[Need]:
    """Who has waited longest comes first: from when there was something to do, or from the end of its last agent."""
    rows = f"""SELECT o.responsible, MIN(o.since) FROM outcome o
               JOIN handler h ON h.id = o.responsible AND h.active
               WHERE {IS_WORKABLE} AND NOT EXISTS (SELECT 1 FROM agent WHERE agent.handler = h.id AND agent.live)
               GROUP BY o.responsible"""  # noqa: S608  no word of a caller
    found = [Need(*row) for row in _index(facts).database.execute(rows, {"now": int(now.timestamp())})]
    waiting = (one._replace(since=max(one.since, _last_end(one.handler, facts))) for one in found)
    return sorted(waiting, key=lambda one: (one.since, one.handler))


def next_due(facts: Facts, now: datetime) -> datetime | None:
    """When the next outcome that is blocked for a time is workable again."""
    rows = "SELECT MIN(until) FROM outcome WHERE status = 'open' AND blocked <> '' AND until > ?"
    (seconds,) = _index(facts).database.execute(rows, (int(now.timestamp()),)).fetchone()
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _last_end(handler: Uuid, facts: Facts) -> int:
    last = next(past_agents(handler, facts), None)
    return facts.history(last.id, 2**53, 1)[-1].seq if last else 0


def past_agents(handler: Uuid, facts: Facts) -> Iterator[Agent]:
    """The agents of a handler that are no more, the last one first."""
    rows = _index(facts).database.execute(
        "SELECT id FROM agent WHERE handler = ? AND NOT live ORDER BY rowid DESC", (handler,)
    )
    return (agent for (id,) in rows if (agent := facts.agent(id)))


def done_by(agent: Agent, facts: Facts) -> Iterator[Event]:
    """What an agent did, oldest first."""
    told = facts.history(agent.id, 2**53, 2)
    actor = actor_of(ByHandler(agent.handler, agent.tenure, agent.id))
    rows = "SELECT line FROM event WHERE seq > ? AND seq <= ? AND instr(line, ?) ORDER BY seq"
    last = told[-1].seq if len(told) > 1 else 2**53
    lines = _index(facts).database.execute(rows, (told[0].seq, last, f'"actor":"{actor}"'))
    return (event for (line,) in lines if (event := parse_event(line)).actor == actor)


def _index(facts: Facts) -> Index:
    assert isinstance(facts, Index), "asked of what a store reads"
    return facts
