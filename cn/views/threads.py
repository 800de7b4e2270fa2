"""Threads to look at: pending and done, each with its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cn.inbox.working_copies import Working, may_decide, read_working, unknown_files
from cn.protocol.ledger import Event, Item
from cn.protocol.states.thread import Thread
from cn.run.view import View, has_agent, read_events
from cn.values.errors import Refusal, Refused
from cn.values.names import Name, ThreadName
from cn.values.timestamps import parse_stamp
from cn.views.thread_view import DECIDED, PENDING, REFUSED, Decided, Result, ThreadView

if TYPE_CHECKING:  # imported where somebody decided, or a history is asked for
    from cn.protocol.thread_life import Life, Link, Written


class InboxView(NamedTuple):
    """The threads, oldest first, files in the inbox that are none, peers with damaged records."""

    threads: tuple[ThreadView, ...]
    unknown: tuple[str, ...]
    damaged: tuple[tuple[Name, str], ...] = ()


def list_inbox(view: View, *, everything: bool = False, chains: bool = False) -> InboxView:
    """Pending threads, with ``everything`` the done ones too. ``chains`` reads the history."""
    pending = view.snapshot.pending()
    written = read_written(view, [item for _, item in pending])
    threads: list[ThreadView] = []
    lives: Mapping[str, Life] = {}
    if everything or chains:
        from cn.views.done_threads import all_done, by_thread

        histories = _histories(view, pending, everything=everything)
        lives = by_thread(histories)
        threads = all_done(histories) if everything else []
    threads += [
        pending_view(peer, item, written.get(item.get("thread")), lives.get(item.get("thread")), fed=has_agent(view))
        for peer, item in pending
    ]
    threads.sort(key=lambda t: (t.received, t.thread))
    damaged = tuple(view.snapshot.damaged.items())
    return InboxView(tuple(threads), tuple(unknown_files(view.hub, view.snapshot, pending)), damaged)


def _histories(view: View, pending: Sequence[tuple[Name, Item]], *, everything: bool) -> dict[Name, list[Event]]:
    """The ledgers, of all peers or as far back as what is pending goes."""
    histories: dict[Name, list[Event]] = {}
    for peer in list(view.snapshot.open_items) if everything else dict.fromkeys(p for p, _ in pending):
        try:
            histories[peer] = read_events(view, peer, since="" if everything else _oldest(pending, peer))
        except Refused as refused:  # one damaged ledger hides nobody else's threads
            view.snapshot.damaged[peer] = refused.text
    return histories


def _oldest(pending: Sequence[tuple[Name, Item]], peer: Name) -> str:
    return f"{min(item.since for p, item in pending if p == peer):%Y%m}"


def read_written(view: View, items: Sequence[Item]) -> Mapping[str, Written]:
    """The decisions that stand in working copies, by thread. None where HEAD is not main."""
    copies: dict[str, Working] = {}
    for item in items if view.on_main else ():
        name = item.get("thread")
        working = read_working(view.hub, ThreadName(name), "sha1")
        if working and may_decide(working):
            copies[name] = working
    if not copies:
        return {}
    from cn.inbox.written_decisions import read_copies

    return read_copies(view, copies)


def pending_view(peer: Name, item: Item, written: Written | None, life: Life | None, *, fed: bool) -> ThreadView:
    """A pending thread; with ``life`` its chain too. ``fed``: this hub gives its threads to an agent."""
    state = _state(item, written, fed)
    refusal = Refusal(item.get("rule"), item.get("why"), item.get("remedy")) if state == REFUSED else None
    chain: tuple[Link, ...] = ()
    if life:
        from cn.protocol.thread_life import read_chain

        chain = read_chain(life, written=None if refusal else written)
    proposal = item.get("kind") in ("", "proposal")
    return ThreadView(
        thread=ThreadName(item.get("thread")),
        peer=peer,
        topic=item.topic,
        branch=item.get("branch"),
        head=item.head,
        kind=item.get("kind") or "proposal",
        subject=item.get("subject"),
        signature=item.get("signature") or "unverified",
        state=state,
        received=item.since,
        earlier=item.get("earlier"),
        withdrawn=parse_stamp(item.get("gone")) if item.get("gone") and proposal else None,
        decided=_decided(item, written, refused=refusal is not None),
        result=Result(_executed(item, refusal)),
        refused=refusal,
        chain=chain,
    )


def _decided(item: Item, written: Written | None, *, refused: bool) -> Decided:
    """What is written now counts before what was recorded."""
    return Decided(
        text=written.decision if written else _standing(item),
        actor=written.actor if written else item.get("by"),
        until=parse_stamp(item.get("until")) if item.get("until") else None,
        assigned_to=item.get("actor"),
        reason="" if refused else item.get("reason"),
        problem=written.problem if written and not refused else "",
    )


def _executed(item: Item, refusal: Refusal | None) -> str:
    if refusal is not None:
        return f"refused: {refusal.rule}: {refusal.reason}"
    return f"✓ {item.state}" if item.state in ("deferred", "assigned") else ""


def _standing(item: Item) -> str:
    """The decision by which a pending thread was put off or assigned."""
    match item.state:
        case "deferred":
            return f"defer:{item.get('reason')}"
        case "assigned":
            return f"delegate:{item.get('actor')}"
        case _:
            return ""


def _state(item: Item, written: Written | None, fed: bool) -> str:
    """What is written now counts before what was recorded; what waits for no agent is a person's."""
    if written is not None:
        from cn.inbox.written_decisions import was_refused

        return REFUSED if was_refused(item, written) else DECIDED
    left = not fed and item.state in (Thread.QUEUED, Thread.DEAD)
    return PENDING if left or item.state == Thread.PENDING else item.state
