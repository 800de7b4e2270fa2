"""``cn why``: explain one action end to end, from what was recorded.

Main tells what was asked, answered, and done; this clone's machine log what the call to the model used.
What neither has is said in ``notes``, and never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from cn.agent.archive import archived_names, read_archived
from cn.agent.interface import read_shown
from cn.agent.plan.turns import source_of
from cn.git.history import PastCommit, added_by, read_past
from cn.llm.usage import Call, read_calls
from cn.protocol.chat_reply import is_chat
from cn.protocol.ledger import IN, Event
from cn.protocol.own_thread import Own
from cn.protocol.queue_item import Shown, parse_input, parse_trigger
from cn.protocol.thread_life import read_lives
from cn.run.view import View, has_agent, read_events
from cn.transaction.pins import clone_id
from cn.values.errors import Refused
from cn.values.names import Name
from cn.values.text import one_line
from cn.values.timestamps import StampRefused, parse_stamp
from cn.views.attempts import Attempt, Ended, read_attempts, read_ended
from cn.views.log import LoggedAction, Query, read_log
from cn.views.queue import read_queue
from cn.views.thread_page import Document, show_any
from cn.views.thread_view import ThreadView

_CHUNK = 500


@dataclass(frozen=True)
class Item:
    """What was asked. ``where`` is ``in flight``, ``waits``, ``given up`` or ``over``.

    ``shown`` is when ``cn input`` printed it; the runtime hands it over itself.
    """

    id: str
    source: str
    sender: str
    cadence: str
    thread: str
    queued: datetime
    where: str
    reason: str = ""
    shown: datetime | None = None


@dataclass(frozen=True)
class Why:
    """All that is known. ``item`` is None for what was never asked of an agent, ``thread`` for a chat.

    ``calls`` are this clone's calls for the item, replays apart. ``rows`` are those that no attempt
    has: of the thread, or of the item later on. ``decided`` is the commit that ended the thread,
    ``merge`` the one that took the branch in. ``others`` are further items of the same thread or chat.
    """

    name: str
    item: Item | None
    attempts: tuple[Attempt, ...]
    calls: tuple[Call, ...]
    replays: int
    thread: ThreadView | Own | None
    rows: tuple[LoggedAction, ...]
    decided: Ended | None
    merge: PastCommit | None
    others: tuple[str, ...]
    notes: tuple[str, ...]


def explain(view: View, name: str) -> Why:
    """Explain an item by its id or trigger, or a thread or chat by its name; else raises :class:`Refused`."""
    trigger = parse_trigger(name)
    thread: ThreadView | Own | None = None
    if trigger is not None:
        ids = [trigger.id]
    elif is_chat(name):
        ids = _ids_of_chat(view, name)
    else:
        thread, ids = _ids_of_thread(view, name)
    machine = read_log(view, Query())
    id = ids[-1] if ids else ""
    notes: list[str] = []
    item, attempts = _item(view, id, machine, notes) if id else (None, ())
    if item is not None and thread is None and item.thread:
        thread = _thread(view, item, notes)
    calls = [call for call in read_calls(view.hub.root) if id and call.input == id]
    made = tuple(call for call in calls if not call.replay)
    told = {id_ for attempt in attempts if attempt.ended for id_ in map(id_of, attempt.ended.rows)}
    rows = [h for h in _rows(view, thread, id, machine) if id_of(h) not in told]
    decided = _decided(view, thread, machine)
    if decided is not None and any(a.ended and a.ended.past == decided.past for a in attempts):
        decided = None  # the answer did it
    if item is not None:
        notes += _about_calls(view, attempts, made)
        if item.where == "waits" and not has_agent(view):
            notes.append("hub.yaml says 'interface: triage': it is given to no agent")
    parts = tuple(attempts), made, len(calls) - len(made), thread, tuple(rows), decided, _merge(view, thread)
    return Why(name, item, *parts, tuple(ids[:-1]), tuple(notes))


def id_of(happened: LoggedAction) -> tuple[str, ...]:
    """What makes a row the same in main and in the machine log."""
    row = happened.row
    return f"{row.at:%Y%m%d%H%M}", row.source, row.decision, row.executed


# Which item.


def _ids_of_chat(view: View, chat: str) -> list[str]:
    """The latest item of a chat: in the queue, else in the archive."""
    queue = read_queue(view)
    there = [*([queue.turn.input] if queue.turn else []), *queue.waiting, *queue.dead]
    found = max((item.id for item in there if item.sender == chat), default="")
    found = found or _archived_id(view, lambda shown: shown.sender == chat)
    if not found:
        raise Refused(f"nothing was asked in {one_line(chat, 80)}", "'cn log' shows what happened")
    return [found]


def _archived_id(view: View, wanted: Callable[[Shown], bool]) -> str:
    """The latest archived item of which that is true; empty: there is none."""
    names = [n for n in archived_names(view, "input") if parse_trigger(n)]
    for start in range(len(names), 0, -_CHUNK):
        batch = names[max(0, start - _CHUNK) : start]
        texts = read_archived(view, "input", batch)
        for name in reversed(batch):
            shown = parse_input(texts.get(name, b"").decode("utf-8", "replace"))
            trigger = parse_trigger(name)
            if trigger is not None and wanted(shown):
                return trigger.id
    return ""


def _ids_of_thread(view: View, name: str) -> tuple[ThreadView | Own, list[str]]:
    """A thread, and the items that stood for it, oldest first."""
    document = show_any(view, name)
    if not isinstance(document, Document):
        own = document.own
        id = own.get("Input") or _archived_id(view, lambda shown: _is_of(own, shown))  # gone once it is closed
        return own, [id] if id else []
    thread = document.thread
    events = _events(view, thread)
    return thread, list(dict.fromkeys(e.fields["input"] for e in events if e.fields.get("input")))


def _is_of(own: Own, shown: Shown) -> bool:
    return (shown.thread, shown.cadence) == (own.path.rpartition("/")[2].removesuffix(".md"), own.cadence.value)


def _events(view: View, thread: ThreadView) -> list[Event]:
    events = read_events(view, Name(thread.peer), about=thread.topic)
    lives = [life for life in read_lives(events) if life.thread == thread.thread]
    return [e for e in lives[-1].events if e.side == IN] if lives else []


def _item(view: View, id: str, machine: Sequence[LoggedAction], notes: list[str]) -> tuple[Item, Sequence[Attempt]]:
    """What was asked, as the queue has it, else the claim, else the archived input; and the attempts at it."""
    queue = read_queue(view)
    flying = [queue.turn.input] if queue.turn is not None else []
    places = {"waits": queue.waiting, "given up": queue.dead, "in flight": flying}
    here = [(where, item) for where, items in places.items() for item in items if item.id == id]
    where, base = here[0] if here else ("over", None)
    try:
        queued = parse_stamp(f"{id[:8]}T{id[9:15]}Z")
    except StampRefused:
        raise Refused(f"{one_line(id, 80)!r} is no id of an item", "'cn queue' and 'cn log' show ids") from None
    attempts = read_attempts(view, id, queued, machine)
    base = base or next((a.turn.input for a in reversed(attempts) if a.turn), None)
    asked = next((a.asked for a in attempts if a.asked is not None), None)
    at = next((t for a in attempts if (t := read_shown(view.hub, str(a.trigger)))), None)
    if base is None:
        if asked is None:
            what = f"there is no item {one_line(id, 80)!r}"
            raise Refused(what, "'cn queue' shows what waits, 'cn log' what happened")
        notes.append("the history of main here does not hold the claim: who took it, and when, is not known")
        told = parse_input(asked.decode("utf-8", "replace"))
        source = told.thread or told.sender
        return Item(id, source, told.sender, told.cadence, told.thread, queued, where, "", at), attempts
    if at is None and base.topic:
        events = read_events(view, Name(base.sender), about=base.topic)
        at = next((e.at for e in events if e.kind == "shown" and e.fields.get("input") == id), None)
    reason = base.reason if where in ("waits", "given up") else ""
    cadence = base.cadence.value
    return Item(id, source_of(base), base.sender, cadence, base.thread, queued, where, reason, at), attempts


def _thread(view: View, item: Item, notes: list[str]) -> ThreadView | Own | None:
    try:
        document = show_any(view, f"{item.thread}.md" if "/" in item.source else item.source)
    except Refused as refused:
        notes.append(f"its thread is not there: {refused.text}")
        return None
    return document.thread if isinstance(document, Document) else document.own


# What came of it.


def _rows(view: View, thread: ThreadView | Own | None, id: str, log: Sequence[LoggedAction]) -> list[LoggedAction]:
    """The rows of the thread, and those that carry the item's id."""
    if isinstance(thread, ThreadView):
        found = {id_of(h): h for h in read_log(view, Query(thread=thread.thread))}
    else:
        source = thread.source if thread is not None else ""
        found = {id_of(h): h for h in log if source and h.row.source == source}
    found |= {id_of(h): h for h in log if id and h.row.input == id}
    return sorted(found.values(), key=lambda h: h.row.at)


def _decided(view: View, thread: ThreadView | Own | None, machine: Sequence[LoggedAction]) -> Ended | None:
    """The commit that moved a peer's thread to ``done/``."""
    if not isinstance(thread, ThreadView) or thread.state != "done":
        return None
    past = added_by(view.hub.git, view.snapshot.commit, f"threads/inbox/done/{thread.thread}")
    return read_ended(view, past, {thread.source}, "", machine) if past else None


def _merge(view: View, thread: ThreadView | Own | None) -> PastCommit | None:
    merge = thread.result.merge if isinstance(thread, ThreadView) else ""
    return read_past(view.hub.git, merge) if merge else None


def _about_calls(view: View, attempts: Sequence[Attempt], calls: Sequence[Call]) -> list[str]:
    """What the log of this machine does not tell of the calls."""
    logged = {call.trigger or call.input for call in calls}
    here = clone_id(view.hub, make=False)
    notes = []
    for attempt in attempts:
        name = str(attempt.trigger)
        if name in logged or attempt.outcome == "in flight":
            continue
        if attempt.turn is not None and attempt.turn.machine != here:
            machine = one_line(attempt.turn.machine, 40)
            notes.append(f"{name}: machine {machine} took it; what it used is in the log of that clone")
        else:
            why = "it was answered by hand ('cn out'), or the log was rotated"
            notes.append(f"{name}: this clone's log has no call for it: {why}")
    sizes = [call for call in calls if not call.parts]
    if sizes:
        notes.append(f"of {len(sizes)} of the calls the sizes of what was sent were not recorded")
    return notes
