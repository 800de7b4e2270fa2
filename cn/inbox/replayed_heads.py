"""A head that came before under another name of the same peer is no new thread.

An old message, signed or not, stays what it was whatever it is called now: else whoever can write
the mailbox could have it decided again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from cn.inbox.plan.seen_before import LOOKED
from cn.peers.plan.arrival import Arrival
from cn.protocol import rules
from cn.protocol.ledger import IN, Event
from cn.protocol.message_kinds import NOTICE
from cn.run.executor import Executor
from cn.values.errors import Refusal
from cn.values.names import Name, Oid
from cn.values.text import one_line


@dataclass
class SeenBefore:
    """The heads of one run's arrivals that the ledger of their peer has, or that this run let in."""

    executor: Executor
    past: dict[tuple[Name, Oid], list[Event]] = field(default_factory=dict)
    now: dict[tuple[Name, Oid], str] = field(default_factory=dict)

    def read(self, heads: Iterable[tuple[Name, Oid]]) -> None:
        """One look into each peer's history, which was read for these arrivals already."""
        wanted: dict[Name, list[Oid]] = {}
        for peer, head in heads:
            wanted.setdefault(peer, []).append(head)
        for peer, theirs in wanted.items():
            found = self.executor.snapshot.events_at_heads(peer, IN, theirs)
            self.past |= {(peer, head): events for head, events in found.items()}

    def let_in(self, arrival: Arrival) -> None:
        """This run takes it: another branch at the same head is none any more."""
        self.now.setdefault((arrival.peer, arrival.head), arrival.topic)

    def refusal(self, arrival: Arrival) -> Refusal | None:
        """Why this head may not come under this name; None where it came under this one, or never."""
        events = self.past.get((arrival.peer, arrival.head), [])
        looked = [event for event in events if event.kind in LOOKED]
        topics = [event.topic for event in looked]
        if arrival.topic in topics:
            return None
        first = topics[0] if topics else self.now.get((arrival.peer, arrival.head), arrival.topic)
        if first == arrival.topic:
            return None
        became = self._became(arrival, first, [e for e in events if e.topic == first])
        name = f"{arrival.peer}/{one_line(first, 80)}"
        why = f"the very commit {arrival.head[:8]} came before as {name}, {became}"
        notify = arrival.message is None or arrival.message.kind != NOTICE
        why += "; only a new commit becomes a thread"
        return Refusal(rules.SEEN_BEFORE, why, "its creator deletes it, or pushes a new commit to it", notify)

    def _became(self, arrival: Arrival, topic: str, events: list[Event]) -> str:
        item = self.executor.item(arrival.peer, IN, topic)
        if item is not None and item.head == arrival.head:
            return "which was withdrawn undecided" if item.get("gone") else "which waits for a decision"
        decided = next((e for e in reversed(events) if e.kind == "decided"), None)
        if decided is not None:
            return f"which is {decided.fields.get('status') or 'decided'}"
        if any(event.kind == "noticed" for event in events):
            return "a notice"
        return "which has moved on since" if events else "in this run"
