"""Threads that are done, with what became of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cn.protocol.ledger import OUT, Event
from cn.protocol.thread_life import INFORMED, Life, executed_text, read_chain, read_lives
from cn.values.names import Name, ThreadName
from cn.views.thread_view import DONE, Decided, Result, ThreadView


def all_done(histories: Mapping[Name, Sequence[Event]]) -> list[ThreadView]:
    """The done threads of these peers' ledgers, in no order."""
    forwards: dict[str, list[Event]] = {}
    for events in histories.values():
        for thread, found in forwarded(events).items():
            forwards.setdefault(thread, []).extend(found)
    return [
        done_view(peer, life, forwards.get(life.thread, ()))
        for peer, events in histories.items()
        for life in read_lives(events)
        if life.decided is not None
    ]


def by_thread(histories: Mapping[Name, Sequence[Event]]) -> dict[str, Life]:
    """The life of every thread in these ledgers, by its file name."""
    return {life.thread: life for events in histories.values() for life in read_lives(events)}


def forwarded(events: Iterable[Event]) -> dict[str, list[Event]]:
    """Messages that carried a thread to another peer, and their deliveries, by thread."""
    found: dict[str, list[Event]] = {}
    ids: dict[str, str] = {}
    for event in events:
        if event.side != OUT:
            continue
        get = event.fields.get
        if event.kind == "queued" and get("thread") and not get("about"):
            ids[event.head] = get("thread", "")
        if event.head in ids and event.kind in ("queued", "delivered"):
            found.setdefault(ids[event.head], []).append(event)
    return found


def done_view(peer: Name, life: Life, forwards: Sequence[Event]) -> ThreadView:
    """A thread that is done. ``forwards`` are the events of messages that carried it on."""
    received, decided = life.received, life.decided
    assert decided is not None
    get = decided.fields.get
    chain = read_chain(life, forwards=forwards)
    status = get("status", "")
    informed = any(link.step == INFORMED and link.at for link in chain)
    through = informed if status == "replied" else any(event.kind == "delivered" for event in forwards)
    latest = life.last("received", "refreshed") or received
    gone = life.last("gone")
    # A message is read and then cleaned up; only a proposal can be taken back.
    proposal = received.fields.get("kind") in (None, "", "proposal")
    return ThreadView(
        thread=ThreadName(life.thread),
        peer=peer,
        topic=received.topic,
        branch=latest.fields.get("branch") or received.fields.get("branch", ""),
        head=decided.head,
        kind=received.fields.get("kind") or "proposal",
        subject=received.fields.get("subject", ""),
        signature=latest.fields.get("signature") or "unverified",
        state=DONE,
        received=received.at,
        earlier=received.fields.get("earlier", ""),
        withdrawn=gone.at if gone and gone.at < decided.at and proposal else None,
        decided=Decided(get("decision", ""), get("actor", "")),
        result=Result(executed_text(status, get("merge", ""), through), status, get("merge", "")),
        chain=chain,
    )
