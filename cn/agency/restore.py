"""Make a clone the home of Agency's records from a copy, and end the agents of the machine that is gone."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from cn.agency.names import Party
from cn.agency.operations import ByUser, EndAgent, party_of
from cn.agency.perform import Asked, perform
from cn.agency.store.copies import restore
from cn.agency.store.look import live_agents
from cn.agency.store.repository import Places
from cn.agency.store.store import open_store
from cn.git.repository import Hub


class Home(NamedTuple):
    """How many events came, when the last one happened, how many agents were ended, and whose the root handler is."""

    events: int
    last: datetime
    ended: int
    boss: Party


def restore_home(hub: Hub, places: Places, person: ByUser, url: str) -> Home:
    """Raises :class:`cn.values.errors.Refused` where the copy cannot be read, or there are records here already."""
    restored = restore(places, hub.identity, url)
    restored.repository.close()
    store = open_store(places, hub.identity)
    try:
        with store.reading() as facts:
            agents = live_agents(facts)
            head = facts.head()
            root = facts.handler(head.root) if head else None
        if agents:
            why = "the records were restored on another machine"
            perform(store, [Asked(EndAgent(agent, why), person) for agent in agents])
    finally:
        store.close()
    return Home(restored.events, restored.last, len(agents), root.boss if root else party_of(person)[0])
