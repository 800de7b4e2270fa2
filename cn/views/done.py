"""The threads that are done, as rows: few words of each, so that ten thousand of them fit into memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from cn.protocol.ledger import Event
from cn.protocol.thread_life import Life, read_lives
from cn.run.view import View, read_events
from cn.values.errors import Refused
from cn.values.names import Name


class DoneRow(NamedTuple):
    """One thread that is done. ``status`` is what its creator reads."""

    thread: str
    peer: Name
    topic: str
    kind: str
    subject: str
    status: str
    decision: str
    actor: str
    received: datetime
    decided: datetime

    @property
    def source(self) -> str:
        """``peer/topic``."""
        return f"{self.peer}/{self.topic}"


def read_done(view: View, peer: Name) -> tuple[DoneRow, ...]:
    """A peer's threads that are done, in the order in which they were received; none where its ledger is damaged."""
    try:
        events = read_events(view, peer)
    except Refused:
        return ()
    return tuple(_rows(peer, events))


def _rows(peer: Name, events: Iterable[Event]) -> Iterator[DoneRow]:
    for life in read_lives(events):
        decided = life.decided
        if decided is not None:
            yield _row(peer, life, decided)


def _row(peer: Name, life: Life, decided: Event) -> DoneRow:
    begun, get = life.received.fields.get, decided.fields.get
    return DoneRow(
        thread=life.thread,
        peer=peer,
        topic=life.received.topic,
        kind=begun("kind", "") or "proposal",
        subject=life.title,
        status=get("status", ""),
        decision=get("decision", ""),
        actor=get("actor", ""),
        received=life.received.at,
        decided=decided.at,
    )
