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
    get = item.get
    put_off = {"deferred": f"defer:{get('reason')}", "assigned": f"delegate:{get('actor')}"}.get(item.state, "")
    executed = f"✓ {item.state}" if put_off else ""
    decided = Decided(
        text=written.decision if written else put_off,  # what is written now counts before what was recorded
        actor=written.actor if written else get("by"),
        until=parse_stamp(get("until")) if get("until") else None,
        assigned_to=get("actor"),
        reason="" if refusal else get("reason"),
        problem=written.problem if written and not refusal else "",
    )
    return ThreadView(
        thread=ThreadName(get("thread")),
        peer=peer,
        topic=item.topic,
        branch=get("branch"),
        head=item.head,
        kind=get("kind") or "proposal",
        subject=get("subject"),
        signature=get("signature") or "unverified",
        state=state,
        received=item.since,
        earlier=get("earlier"),
        withdrawn=parse_stamp(get("gone")) if get("gone") and get("kind") in ("", "proposal") else None,
        decided=decided,
        result=Result(f"refused: {refusal.rule}: {refusal.reason}" if refusal else executed),
        refused=refusal,
        chain=chain,
    )


def _state(item: Item, written: Written | None, fed: bool) -> str:
    """What is written now counts before what was recorded; what waits for no agent is a person's."""
    if written is not None:
        from cn.inbox.written_decisions import was_refused

        return REFUSED if was_refused(item, written) else DECIDED
    left = not fed and item.state in (Thread.QUEUED, Thread.DEAD)
    return PENDING if left or item.state == Thread.PENDING else item.state
