"""``cn why``: explain one action end to end, from what was recorded.

Main has most of it: ``state/turn.md`` says who took the item and when, the commit that ended the turn
holds the archived pair, the rows of the log, the outbox and the threads. This clone's machine log tells what the
call to the model used. Nothing is inferred from times; what no commit says is said in ``notes``, and never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cn.agent.archive import Rejected, archived_names, read_archived
from cn.agent.interface import read_printed
from cn.agent.plan.output import Output, parse_output
from cn.agent.plan.turns import source_of
from cn.git.history import PastCommit, added_by, changes_of, commits_of, read_past
from cn.git.objects import read_object, read_objects
from cn.llm.usage import Call, read_calls
from cn.outbox.our_names import told_of
from cn.protocol.layout import OUTBOX, PROPOSAL, SAY, SENT
from cn.protocol.ledger import IN
from cn.protocol.log import FOLDER, Row, parse_rows
from cn.protocol.outbox_entry import (
    Deliver,
    Propose,
    Remove,
    Say,
    entry_name,
    entry_source,
    is_chat,
    parse_entry,
    parse_say,
)
from cn.protocol.own_thread import CONCERNS, Own
from cn.protocol.queue_item import TURN, Shown, Trigger, Turn, parse_input, parse_trigger, parse_turn
from cn.protocol.thread_life import read_lives
from cn.run.view import View, has_agent, read_events
from cn.transaction.push import clone_id
from cn.values.errors import Refused
from cn.values.names import Name, Oid, is_owned
from cn.values.record_header import RecordRefused
from cn.values.text import one_line
from cn.values.timestamps import StampRefused, format_day, parse_stamp
from cn.views.log import LoggedAction, machine_events, read_log
from cn.views.queue import read_queue
from cn.views.sent import Sent, SentDocument, show_sent
from cn.views.thread_page import Document, show_any
from cn.views.threads import ThreadView

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Message:
    """A file of the outbox: what was to be sent, and what became of it.

    ``kind`` is that of the message, ``delete`` for the deletion of a branch, ``say`` for a text in a chat.
    ``delivered`` is when it moved to ``sent/``, ``executed`` what the log says of that; None: it waits.
    """

    file: str
    kind: str
    to: str
    subject: str
    branch: str
    queued: datetime
    delivered: datetime | None = None
    executed: str = ""


@dataclass(frozen=True)
class Ended:
    """The commit in which an attempt ended: rows of its source, files of cn's folders, messages."""

    past: PastCommit
    rows: tuple[LoggedAction, ...]
    files: tuple[tuple[str, str], ...]
    messages: tuple[Message, ...]

    @property
    def concerns(self) -> tuple[str, ...]:
        """Concerns that it opened."""
        return tuple(path for status, path in self.files if status == "A" and path.startswith(f"{CONCERNS}/"))


@dataclass(frozen=True)
class Attempt:
    """One attempt. ``turn`` is the claim, None where main's history does not hold it (any more).

    ``asked`` and ``answer`` are the archived pair, ``calls`` what this clone's log has of it. ``outcome`` is
    ``in flight``, ``executed``, ``rejected``, ``no answer``, ``taken back`` (decided otherwise, or nobody could
    be asked) or ``unknown``.
    """

    trigger: Trigger
    turn: Turn | None
    asked: bytes | None
    answer: bytes | None
    ended: Ended | None
    outcome: str
    rejected: Rejected | None
    calls: tuple[Call, ...]

    @property
    def output(self) -> Output | None:
        """The answer as it was parsed."""
        return parse_output(self.answer) if self.answer is not None else None


def read_attempts(
    view: View, id: str, queued: datetime, machine: Sequence[LoggedAction], calls: Sequence[Call]
) -> list[Attempt]:
    """All attempts at the item ``id``, in order; ``machine`` are this clone's events, which say more."""
    turns, ends = _turns(view, id, queued)
    names = [n for n in archived_names(view, "input") if (t := parse_trigger(n)) and t.id == id]
    triggers = {t for name in (*names, *turns) if (t := parse_trigger(name))}
    asked = read_archived(view, "input", map(str, triggers))
    answers = read_archived(view, "output", map(str, triggers))
    found = []
    for trigger in sorted(triggers):
        name = str(trigger)
        turn = turns.get(name)
        past = added_by(view.hub.git, view.snapshot.commit, f"logs/input/{name}.md") or ends.get(name)
        sources = {source_of(turn.input)} if turn else set()
        ended = read_ended(view, past, sources, id, machine) if past and name in asked else None
        outcome, rejected = _outcome(name, ended, answered=name in answers)
        if ended is None and turn is not None:
            outcome = "taken back" if name in ends else "in flight"
        made = tuple(call for call in calls if (call.trigger or call.input) == name)
        found.append(Attempt(trigger, turn, asked.get(name), answers.get(name), ended, outcome, rejected, made))
    return found


def _turns(view: View, id: str, queued: datetime) -> tuple[dict[str, Turn], dict[str, PastCommit]]:
    """Trigger → its claim, and the commit after the last one that held it."""
    git = view.hub.git
    commits = commits_of(git, view.snapshot.commit, TURN, since=queued - _DAY)
    texts = read_objects(git, [f"{past.commit}:{TURN}" for past in commits])
    turns: dict[str, Turn] = {}
    ends: dict[str, PastCommit] = {}
    newer: PastCommit | None = None
    for past, text in zip(commits, texts, strict=True):
        turn = None
        with suppress(RecordRefused):
            turn = parse_turn(text) if text is not None else None
        if turn is not None and turn.input.id == id:
            if turn.trigger not in turns and newer is not None:
                ends[turn.trigger] = newer
            turns[turn.trigger] = turn
        newer = past
    return turns, ends


def _outcome(name: str, ended: Ended | None, *, answered: bool) -> tuple[str, Rejected | None]:
    if ended is None:
        return "unknown", None
    for happened in ended.rows:
        row = happened.row
        if row.decision == f"output:{name}" and row.executed.startswith("refused: "):
            return "rejected", Rejected(row.executed.removeprefix("refused: "))
    return ("executed" if answered else "no answer"), None


def read_ended(view: View, past: PastCommit, sources: Iterable[str], id: str, machine: Sequence[LoggedAction]) -> Ended:
    """What one commit did for the sources named, or for the item ``id``."""
    files = [(status, path) for status, path in changes_of(view.hub.git, past) if is_owned(path)]
    wanted = frozenset(sources)
    rows = tuple(
        h
        for h in _rows_of(view, past, files, machine)
        if h.row.source in wanted or (id and (h.row.input == id or h.row.decision.startswith(f"output:{id}")))
    )
    queued = [path for status, path in files if status == "A" and path.startswith(f"{OUTBOX}/")]
    # Of all that a run queued, which may be a hundred messages, in one question.
    contents = read_objects(view.hub.git, [f"{past.commit}:{path}" for path in queued])
    found = (_message(view, path, data or b"", wanted, id) for path, data in zip(queued, contents, strict=True))
    messages = tuple(message for message in found if message is not None)
    return Ended(past, rows, tuple(files), messages)


def _rows_of(
    view: View, past: PastCommit, files: Sequence[tuple[str, str]], machine: Sequence[LoggedAction]
) -> list[LoggedAction]:
    """The rows that a commit added to the days' logs, with what the machine log knows of them."""
    found: list[LoggedAction] = []
    for path in (path for _, path in files if path.startswith(f"{FOLDER}/")):
        day = path.rpartition("/")[2].removesuffix(".md")
        new = _parsed(view, past.commit, path, day)
        old = _parsed(view, past.parents[0], path, day) if past.parents else []
        take = machine_events(happened for happened in machine if format_day(happened.row.at) == day)
        found += [take(row) or LoggedAction(row) for row in new][len(old) :]
    return found


def _parsed(view: View, commit: Oid, path: str, day: str) -> list[Row]:
    return parse_rows((read_object(view.hub.git, f"{commit}:{path}") or b"").decode("utf-8", "replace"), day)


def _message(view: View, path: str, data: bytes, sources: frozenset[str], id: str) -> Message | None:
    """A file that a commit queued, if it belongs to the sources or the item, and its delivery."""
    name = path.rpartition("/")[2]
    try:
        made = _say(parse_say(data), name, id) if path.endswith(SAY) else _entry(view, data, name, sources)
    except RecordRefused:
        return None
    if made is None:
        return None
    message, source = made
    names = (name,) if path.endswith(SAY) else (name, entry_name(parse_entry(data, view.snapshot.algorithm)))
    # What an earlier cn queued is filed by the name that it has now.
    found = (added_by(view.hub.git, view.snapshot.commit, f"{SENT}/{one}") for one in dict.fromkeys(names))
    sent = next(filter(None, found), None)
    if sent is None:
        return message
    files = [(s, p) for s, p in changes_of(view.hub.git, sent) if is_owned(p)]
    told = [h.row for h in _rows_of(view, sent, files, ()) if h.row.source == source]
    executed = told[0].executed if len(told) == 1 else next((r.executed for r in told if "✓" in r.executed), "")
    return replace(message, delivered=sent.at, executed=executed)


def _say(say: Say, name: str, id: str) -> tuple[Message, str] | None:
    if id and say.id != id and not say.id.startswith(f"{id}-"):
        return None
    return Message(name, "say", say.chat, say.text, "", say.queued), say.chat


def _entry(view: View, data: bytes, name: str, sources: frozenset[str]) -> tuple[Message, str] | None:
    entry = parse_entry(data, view.snapshot.algorithm)
    source = entry_source(entry)
    if source not in sources and entry.source not in sources:
        return None
    match entry:
        case Deliver():
            kind, subject = entry.kind, entry.subject
        case Propose():
            kind, subject = PROPOSAL, entry.subject
        case Remove():
            kind, subject = "delete", entry.reason
    return Message(name, kind, entry.to, subject, entry.branch, entry.queued), source


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

    ``rows`` are those that neither an attempt nor ``decided`` has: of the thread, or of the item later on.
    ``decided`` is the commit that ended the thread, ``merge`` the one that took the branch in. ``others`` are
    further items of the same thread or chat. ``mend`` is the next step where something we sent waits for us.
    """

    name: str
    item: Item | None
    attempts: tuple[Attempt, ...]
    replays: int
    thread: ThreadView | Own | None
    sent: Sent | None
    rows: tuple[LoggedAction, ...]
    decided: Ended | None
    merge: PastCommit | None
    others: tuple[str, ...]
    notes: tuple[str, ...]
    mend: str = ""


def explain(view: View, name: str) -> Why:
    """Explain an item by its id or trigger, a thread or chat by its name, or what we sent; else raises
    :class:`Refused`.
    """
    trigger = parse_trigger(name)
    thread: ThreadView | Own | None = None
    if trigger is not None:
        ids = [trigger.id]
    elif is_chat(name):
        ids = _ids_of_chat(view, name)
    else:
        try:
            thread, ids = _ids_of_thread(view, name)
        except Refused:
            if (found := show_sent(view, name)) is None:
                raise
            return _of_sent(view, name, found)
    machine = read_log(view)
    id = ids[-1] if ids else ""
    notes: list[str] = []
    calls = [call for call in read_calls(view.hub.root) if id and call.input == id]
    made = [call for call in calls if not call.replay]
    item, attempts = _item(view, id, machine, made, notes, thread) if id else (None, ())
    if item is not None and thread is None and item.thread:
        thread = _thread(view, item, notes)
    decided = _decided(view, thread, machine)
    if decided is not None and any(a.ended and a.ended.past == decided.past for a in attempts):
        decided = None  # the answer did it
    ends = [*(attempt.ended for attempt in attempts), decided]
    told = {id_of(row) for end in ends if end is not None for row in end.rows}
    rows = [h for h in _rows(view, thread, id, machine) if id_of(h) not in told]
    if item is not None:
        notes += _about_calls(view, attempts, made)
        if item.where == "waits" and not has_agent(view):
            notes.append("hub.yaml says 'interface: triage': it is given to no agent")
    merge = read_past(view.hub.git, sha) if isinstance(thread, ThreadView) and (sha := thread.result.merge) else None
    parts = tuple(attempts), len(calls) - len(made), thread, None, tuple(rows), decided, merge
    return Why(name, item, *parts, tuple(ids[:-1]), tuple(notes))


def _of_sent(view: View, name: str, found: SentDocument) -> Why:
    """What we sent: its chain, the rows of the log about it, and the next step."""
    sent = found.sent
    rows = read_log(view, thread=f"{sent.peer}/{sent.topic}")
    mine = tuple(happened for happened in rows if happened.row.branch in ("", sent.branch))
    notes: tuple[str, ...] = ()
    if not mine:
        notes = ("the rows of a message that answers a thread stand at that thread",)
    moved = told_of(view.memory.conditions, sent.name)
    notes += (moved.text, moved.remedy) if moved is not None else ()
    return Why(name, None, (), 0, None, sent, mine, None, None, (), notes, found.mend)


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
        wanted = own.path.rpartition("/")[2].removesuffix(".md"), own.cadence.value
        id = own.get("Input") or _archived_id(view, lambda shown: (shown.thread, shown.cadence) == wanted)
        return own, [id] if id else []  # the field is gone once it is closed
    thread = document.thread
    lives = read_lives(read_events(view, Name(thread.peer), about=thread.topic))
    found = [e for life in lives if life.thread == thread.thread for e in life.events if e.side == IN]
    return thread, list(dict.fromkeys(e.fields["input"] for e in found if e.fields.get("input")))


def _item(
    view: View,
    id: str,
    machine: Sequence[LoggedAction],
    calls: Sequence[Call],
    notes: list[str],
    thread: ThreadView | Own | None,
) -> tuple[Item | None, Sequence[Attempt]]:
    """What was asked, as the queue has it, else the claim, else the archived input; and the attempts at it. None: it
    was taken out of the queue before anybody had it, and ``thread`` is still there.
    """
    queue = read_queue(view)
    flying = [queue.turn.input] if queue.turn is not None else []
    places = {"waits": queue.waiting, "given up": queue.dead, "in flight": flying}
    here = [(where, item) for where, items in places.items() for item in items if item.id == id]
    where, base = here[0] if here else ("over", None)
    try:
        queued = parse_stamp(f"{id[:8]}T{id[9:15]}Z")
    except StampRefused:
        raise Refused(f"{one_line(id, 80)!r} is no id of an item", "'cn queue' and 'cn log' show ids") from None
    attempts = read_attempts(view, id, queued, machine, calls)
    base = base or next((a.turn.input for a in reversed(attempts) if a.turn), None)
    asked = next((a.asked for a in attempts if a.asked is not None), None)
    at = next((t for a in attempts if (t := read_printed(view.hub, str(a.trigger)))), None)
    if base is None:
        if asked is None and thread is not None:
            notes.append(f"{id} was taken out of the queue, and no agent was given it")
            return None, attempts
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
    """The rows of the thread, and those that carry the item's id, in the order in which they were written."""
    if isinstance(thread, ThreadView):
        mine = {id_of(happened) for happened in read_log(view, thread=thread.thread)}
    else:
        source = thread.source if thread is not None else ""
        mine = {id_of(happened) for happened in log if source and happened.row.source == source}
    return list({key: h for h in log if (key := id_of(h)) in mine or (id and h.row.input == id)}.values())


def _decided(view: View, thread: ThreadView | Own | None, machine: Sequence[LoggedAction]) -> Ended | None:
    """The commit that moved a peer's thread to ``done/``."""
    if not isinstance(thread, ThreadView) or thread.state != "done":
        return None
    past = added_by(view.hub.git, view.snapshot.commit, f"threads/inbox/done/{thread.thread}")
    return read_ended(view, past, {thread.source}, "", machine) if past else None


def _about_calls(view: View, attempts: Sequence[Attempt], calls: Sequence[Call]) -> list[str]:
    """What the log of this machine does not tell of the calls."""
    here = clone_id(view.hub, make=False)
    notes = []
    for attempt in attempts:
        name = str(attempt.trigger)
        if attempt.calls or attempt.outcome == "in flight":
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
