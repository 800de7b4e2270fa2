"""Compare a branch of a peer with what the ledger knows of its topic (``docs/protocol/ledger.md``).

The history of the topic is folded through the receiver machine, which then says what a
listed head means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cn.protocol.ledger import Event, Item
from cn.protocol.states.receiver import RECEIVER, Receiver, ReceiverEvent, read_step
from cn.protocol.states.receiver import Step as Step
from cn.values.names import Oid

LOOKED = frozenset({"received", "refreshed", "repeated", "noticed"})
"""Kinds of events that say: this head was there, and let in."""
_SETTLES = {"decided", "noticed"}


class Sighting(NamedTuple):
    """A branch as the ledger left it: its state, the head it was last at, all heads let in."""

    state: Receiver = Receiver.UNSEEN
    last: Oid | None = None
    heads: frozenset[Oid] = frozenset()

    def look(self, head: Oid) -> ReceiverEvent:
        """What it is to see ``head`` now."""
        if head not in self.heads:
            return ReceiverEvent.NEW_HEAD
        return ReceiverEvent.SAME_HEAD if head == self.last else ReceiverEvent.OLD_HEAD


def read_sighting(item: Item | None, past: Sequence[Event]) -> Sighting:
    """From the open item and the history of the topic; the item counts where they differ.

    Total: an event that fits nothing changes nothing (a damaged history).
    """
    seen = Sighting()
    for event in past:
        seen = _after(seen, event)
    if item is not None:
        state = Receiver.WITHDRAWN if item.get("gone") else Receiver.PRESENT
        return Sighting(state, item.head, seen.heads | {item.head})
    if seen.state in (Receiver.PRESENT, Receiver.WITHDRAWN):  # nothing is open: it was lost
        return Sighting(RECEIVER.step(seen.state, ReceiverEvent.SETTLED), seen.last, seen.heads)
    return seen


def _after(seen: Sighting, event: Event) -> Sighting:
    heads = seen.heads
    acts: list[ReceiverEvent] = []
    if event.kind in LOOKED:
        acts.append(seen.look(event.head))
        heads |= {event.head}
    if event.kind in _SETTLES:
        acts.append(ReceiverEvent.SETTLED)
    elif event.kind == "gone":
        acts.append(ReceiverEvent.VANISHED)
    elif event.kind == "refused":
        # Also a refused decision: both leave a pending thread as it is.
        acts.append(ReceiverEvent.REFUSED)
    if not acts:
        return seen
    state = seen.state
    for act in acts:
        state = RECEIVER.after(state, act) or state
    return Sighting(state, event.head, heads)


def classify(head: Oid, item: Item | None, past: Sequence[Event]) -> Step:
    """What a listed head means. ``past`` may be empty where it is the head of the open item."""
    seen = read_sighting(item, past)
    return read_step(seen.state, seen.look(head))


def is_news_that_it_vanished(item: Item | None, past: Sequence[Event]) -> bool:
    """Is it news that the branch is not listed any more, or did another clone see it first?"""
    return RECEIVER.after(read_sighting(item, past).state, ReceiverEvent.VANISHED) is not None
