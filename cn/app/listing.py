"""Threads to look at: pending and done, each with its state (read-only)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from cn.app.guard import without_secrets
from cn.app.settings import Settings
from cn.app.threads import read_working, unknown_files
from cn.app.view import View, read_events
from cn.core.errors import Refused
from cn.core.ledger import OUT, Event, Item
from cn.core.lifecycle import INFORMED, Life, Link, Written, executed_text, read_chain, read_lives
from cn.core.machines.thread import Thread
from cn.core.names import Name, ThreadName
from cn.core.secret import Text, own_lines
from cn.core.stamp import parse_stamp
from cn.core.thread import inbox_path, read_decision, read_text
from cn.core.triage import TriageRefused, find_headings, format_decision

PENDING, DECIDED, REFUSED, DONE_STATE = "pending", "decided", "refused", "done"


@dataclass(frozen=True)
class ThreadView:
    """One thread as people see it; texts are empty where there is nothing to say.

    ``state`` is pending, decided (waiting for process), refused, deferred, assigned, queued,
    claimed (the agent has it), dead (given up by the agent), or done; ``status`` what a done one
    came to. ``note`` is a problem with what is written in the working copy. ``chain`` is filled
    only where the history was asked for.
    """

    thread: ThreadName
    peer: Name
    topic: str
    branch: str
    head: str
    kind: str
    subject: str
    signature: str
    state: str
    received: datetime
    decision: str = ""
    actor: str = ""
    executed: str = ""
    until: datetime | None = None
    assigned_to: str = ""
    reason: str = ""
    rule: str = ""
    remedy: str = ""
    withdrawn: datetime | None = None
    status: str = ""
    merge: str = ""
    earlier: str = ""
    note: str = ""
    chain: tuple[Link, ...] = ()

    @property
    def source(self) -> str:
        """``peer/topic``."""
        return f"{self.peer}/{self.topic}"


@dataclass(frozen=True)
class InboxView:
    """The threads, oldest first, files in the inbox that are none, peers with damaged records."""

    threads: tuple[ThreadView, ...]
    unknown: tuple[str, ...]
    damaged: tuple[tuple[Name, str], ...] = ()


def list_inbox(view: View, *, everything: bool = False, chains: bool = False) -> InboxView:
    """Pending threads, with ``everything`` the done ones too. ``chains`` reads the history."""
    pending = view.snapshot.pending()
    written = read_written(view, [item for _, item in pending])
    lives: dict[str, Life] = {}
    histories: dict[Name, list[Event]] = {}
    if everything or chains:
        for peer in list(view.snapshot.open_items) if everything else dict.fromkeys(p for p, _ in pending):
            try:
                histories[peer] = read_events(view, peer, since="" if everything else _oldest(pending, peer))
            except Refused as refused:  # one damaged ledger hides nobody else's threads
                view.snapshot.damaged[peer] = refused.text
        lives = {life.thread: life for events in histories.values() for life in read_lives(events)}
    threads = [
        pending_view(peer, item, written.get(item.get("thread")), lives.get(item.get("thread")))
        for peer, item in pending
    ]
    if everything:
        threads = [*_all_done(histories), *threads]
    threads.sort(key=lambda t: (t.received, t.thread))
    damaged = tuple(view.snapshot.damaged.items())
    return InboxView(tuple(threads), tuple(unknown_files(view.hub, view.snapshot, pending)), damaged)


def _oldest(pending: Sequence[tuple[Name, Item]], peer: Name) -> str:
    return f"{min(item.since for p, item in pending if p == peer):%Y%m}"


def _all_done(histories: dict[Name, list[Event]]) -> list[ThreadView]:
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


def read_written(view: View, items: Sequence[Item]) -> dict[str, Written]:
    """The decisions that stand in working copies, by thread. None where HEAD is not main."""
    texts: dict[str, str] = {}
    found: dict[str, Written] = {}
    wholes: dict[str, Text] = {}
    for item in items if view.on_main else ():
        name = item.get("thread")
        working = read_working(view.hub, ThreadName(name), "sha1")
        if working is None:
            continue
        wholes[name] = own_lines(working.path, working.data.decode("utf-8", "replace"))
        try:
            text = read_text(working.data)
        except TriageRefused as refused:
            found[name] = Written("", "", None, refused.text)
            continue
        if find_headings(text.split("\n")):
            texts[name] = text
    view.snapshot.read_many(inbox_path(ThreadName(name)) for name in texts)
    for name, text in texts.items():
        try:
            committed = read_text(view.snapshot.read(inbox_path(ThreadName(name))) or b"")
            triage = read_decision(text, committed)
        except TriageRefused as refused:
            found[name] = Written("", "", None, refused.text)
            continue
        if triage is not None:
            found[name] = Written(format_decision(triage.decision), triage.actor, triage.at)
    return {name: _clean(written, view.settings, wholes[name]) for name, written in found.items()}


def _clean(written: Written, settings: Settings, whole: Text) -> Written:
    """A decision as it may be shown, in the words in which a refusal of it is remembered."""
    texts = (written.decision, written.actor, written.problem)
    decision, actor, problem = (without_secrets(text, settings, whole) for text in texts)
    return replace(written, decision=decision, actor=actor, problem=problem)


def pending_view(peer: Name, item: Item, written: Written | None, life: Life | None) -> ThreadView:
    """A pending thread; with ``life`` its chain too."""
    state = _state(item, written)
    refused = state == REFUSED
    executed = f"✓ {item.state}" if item.state in ("deferred", "assigned") else ""
    if refused:
        executed = f"refused: {item.get('rule')}: {item.get('why')}"
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
        decision=written.decision if written else _standing(item),
        actor=written.actor if written else item.get("by"),
        executed=executed,
        until=parse_stamp(item.get("until")) if item.get("until") else None,
        assigned_to=item.get("actor"),
        reason=item.get("why") if refused else item.get("reason"),
        rule=item.get("rule") if refused else "",
        remedy=item.get("remedy") if refused else "",
        withdrawn=parse_stamp(item.get("gone")) if item.get("gone") and proposal else None,
        earlier=item.get("earlier"),
        note=written.problem if written and not refused else "",
        chain=read_chain(life, written=None if refused else written) if life else (),
    )


def _standing(item: Item) -> str:
    """The decision by which a pending thread was put off or assigned."""
    match item.state:
        case "deferred":
            return f"defer:{item.get('reason')}"
        case "assigned":
            return f"delegate:{item.get('actor')}"
        case _:
            return ""


def _state(item: Item, written: Written | None) -> str:
    """What is written now counts before what was recorded; a refusal stands for its decision only."""
    if written is not None:
        from cn.core import rules
        from cn.core.decide import refusal_digest

        rule, why = item.get("rule"), item.get("why")
        if written.problem:
            same = rule == rules.VALID_TRIAGE and why == written.problem
        else:
            told = refusal_digest(written.decision, written.actor, rule, why, item.head)
            same = item.get("digest") == told
        return REFUSED if same else DECIDED
    return PENDING if item.state == Thread.PENDING else item.state


def done_view(peer: Name, life: Life, forwards: Sequence[Event]) -> ThreadView:
    """A thread that is done. ``forwards`` are the events of messages that carried it on."""
    received, decided = life.received, life.decided
    assert decided is not None
    get = decided.fields.get
    chain = read_chain(life, forwards=forwards)
    status = get("status", "")
    through = any(link.step == INFORMED and link.at for link in chain) if status == "replied" else any(
        event.kind == "delivered" for event in forwards
    )  # fmt: skip
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
        state=DONE_STATE,
        received=received.at,
        decision=get("decision", ""),
        actor=get("actor", ""),
        executed=executed_text(status, get("merge", ""), through),
        withdrawn=gone.at if gone and gone.at < decided.at and proposal else None,
        status=status,
        merge=get("merge", ""),
        earlier=received.fields.get("earlier", ""),
        chain=chain,
    )
