"""The agent's queue at one commit of main: what waits, what is in flight, what comes next.

Part of every run of a hub with ``interface: queue``. The queue is derived: a pending thread
that no item stands for gets one, an item whose thread is not pending any more goes.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

from cn.agent.interface import read_printed, read_sent
from cn.agent.plan import turns
from cn.agent.plan.brakes import why_held
from cn.agent.plan.output import Output, parse_output
from cn.agent.plan.reflections import TITLES, by_period, due_reflections, is_due, is_worth_reflecting, level_below
from cn.protocol import queue_item as items
from cn.protocol.effects import Drop, Plan, Put, WriteHere
from cn.protocol.ledger import IN, Item
from cn.protocol.log import FOLDER as LOGS
from cn.protocol.log import Row, format_row, parse_rows
from cn.protocol.outbox_entry import Say, format_say, is_chat
from cn.protocol.own_thread import ADHOC, CONCERNS, DEFERRED, OPEN, Own, new_own, parse_own
from cn.protocol.queue_item import (
    DEAD,
    INPUT,
    OUTPUT,
    PERIODIC,
    QUEUE,
    REFLECTIONS,
    TURN,
    Cadence,
    Input,
    Turn,
    period,
    reflection_path,
)
from cn.protocol.states import ACTOR, Actor, actor_state
from cn.run.executor import Executor
from cn.run.memory import Memory, put_bounded
from cn.run.run import Run
from cn.run.snapshot import Snapshot
from cn.run.view import GIVEN_AGAIN, LEFT
from cn.system.files import read_below, read_plain
from cn.values.errors import Refused
from cn.values.names import HubPath, Name, digest
from cn.values.record_header import RecordRefused
from cn.values.text import decode, one_line, quote
from cn.values.timestamps import StampRefused, format_second, parse_stamp

_GIVEN = 50
"""Inputs whose ids a clone remembers, to know a late answer."""
_SENDERS = 1000
"""Senders of whom a clone remembers whose turn is the longest ago."""
_READ = 200
"""Items that are read in one go."""
_FOLDERS = (f"{CONCERNS}/", f"{ADHOC}/")
_LOOK_BACK = timedelta(days=8)

MayGive = Callable[[Input], str | None]
"""Why the agent may not have this item now; empty: it may. None: it waits, and nobody is told."""


def update_queue(
    run: Run, executor: Executor, *, may_give: MayGive | None = None, keep_expired_turn: bool = False
) -> None:
    """Bring the queue up to date, and give the agent its next item if it has none."""
    turn = current_turn(executor)
    state: str = actor_of(run, turn)
    if turn is not None and not is_wanted(executor, turn.input):
        executor.perform(turns.plan_withdrawn(turn))
        why = "it was decided another way, its branch moved, or words came since"
        executor.notes.info(f"{turns.source_of(turn.input)} is taken from the agent: {why}")
        if turn.machine == run.machine:
            _put_away(run, executor, why, of=turn.input)
        turn, state = None, ACTOR.step(state, "withdrawn")
    fed = run.settings.config.interface == "queue"
    gives = fed and not run.hub.leaves_agent
    # An answer that is there counts still. Another machine may have one, until its time is over.
    may_end = turn is not None and (turn.machine == run.machine or (state == Actor.TIMED_OUT and not fed))
    if turn is not None and not gives and may_end and state != Actor.OUTPUT_READY:
        executor.perform(turns.plan_released(turn, executor.now))
        source = turns.source_of(turn.input)
        why = "cn.agent is false in this clone" if fed else "hub.yaml says 'interface: triage'"
        executor.notes.info(f"{source} is the agent's no more: {why}", source=source)
        turn, state = None, ACTOR.step(state, "withdrawn")
    if turn is not None and state == Actor.TIMED_OUT and not keep_expired_turn:
        executor.perform(turns.plan_lapsed(turn, failing(run, executor, turn.input)))
        source = turns.source_of(turn.input)
        executor.notes.failed(f"{source}: the agent gave no answer in time", _how_woken(run, turn), source=source)
        turn, state = None, ACTOR.step(state, "archived")
    if fed:
        pending = _pending(executor)
        _enqueue_pending(executor, turn, pending, _drop_unwanted(executor, pending))
        queue_due(run, executor, turn)
        if state == Actor.IDLE and gives:
            turn = _promote(run, executor, may_give)
            if turn is not None:
                ACTOR.step(state, "promoted")
    _give(run, executor, turn)


def _how_woken(run: Run, turn: Turn) -> str:
    """What to look at after a turn that nobody answered."""
    leave = "'git config cn.agent false'{} leaves items to the clone where the agent works"
    if turn.machine != run.machine:
        return f"another clone gave it ({one_line(turn.machine, 40)}): is it woken there? {leave.format(' there')}"
    if run.hub.config.last("cn.wake"):
        return "is it woken? see 'git config cn.wake' and 'cn queue'"
    woken = "nothing wakes it in this clone: 'git config cn.wake COMMAND' does"
    return f"{woken}; {leave.format('')}" if run.hub.origin else woken


def actor_of(run: Run, turn: Turn | None) -> Actor:
    """What the agent is at, as the files say; what another clone's agent wrote is not seen here."""
    if turn is None:
        return Actor.IDLE
    return actor_state(
        turn=True,
        shown=read_printed(run.hub, turn.trigger) is not None,
        output=turn.machine == run.machine and read_output(run) is not None,
        expired=turn.expired(run.now, turns.time_limit(run.settings.config)),
    )


def current_turn(executor: Executor) -> Turn | None:
    """The item in flight, as this run leaves it so far."""
    data = executor.read(TURN)
    if data is None:
        return None
    try:
        turn = items.parse_turn(data)
        return replace(turn, sent=read_sent(executor.hub, turn.trigger))
    except RecordRefused as refused:
        executor.notes.failed(f"{TURN}: {refused.text}", "it is dropped; what waits is given again")
        executor.perform(Plan(TURN, (Drop(TURN),)))
        return None


def peek_turn(snapshot: Snapshot) -> Turn | None:
    """The item in flight in a commit of main, if it can be read."""
    try:
        return items.parse_turn(snapshot.read(TURN) or b"")
    except RecordRefused:
        return None


def read_output(run: Run) -> bytes | None:
    """What the agent wrote, at most a byte more than is taken; None while there is nothing."""
    return read_below(run.hub.root, OUTPUT, turns.MOST_READ)


def keep_late(run: Run, executor: Executor, data: bytes, output: Output, why: str) -> HubPath:
    """Keep an output that answers nothing in flight here, and take it away; returns where it is."""
    id = output.id if items.is_input_id(output.id) else f"unknown-{digest(data.decode('latin-1'))[:8]}"
    nth = 1  # the first number under which nothing is kept yet, in main or on this machine
    while executor.read(path := turns.late_path(id, nth)) is not None or os.path.lexists(run.hub.root / path):
        nth += 1
    executor.perform(turns.out_of_turn(data, id, executor.now, why, nth))
    return path


def _put_away(run: Run, executor: Executor, why: str, *, of: Input | None = None, before: Input | None = None) -> None:
    """Put an answer away that comes too late, since it keeps from any other: the one ``of`` an item that the agent has
    no more; or any that cannot be about the item ``before`` which it stands, and which may have been given here once.
    """
    data = None if OUTPUT in executor.changed_here else read_output(run)
    if data is None:
        return
    output = parse_output(data)
    if of is not None and output.id not in ("", of.id):
        return
    if before is not None and before.id in run.memory.section("given") and output.id in ("", before.id):
        return
    path = keep_late(run, executor, data, output, why)
    executor.notes.info(f"{OUTPUT} answers nothing that is in flight any more; it is kept as {path}")


def is_wanted(executor: Executor, asked: Input) -> bool:
    """Is what an item asks still open, at the head it speaks of?"""
    if asked.topic:
        item = _item_of(executor, asked)
        return item is not None and item.get("input") == asked.id and item.head == asked.head
    if not asked.path:
        return True
    data = executor.read(asked.path)
    if data is None:
        return False
    own = parse_own(asked.path, data.decode("utf-8", "replace"))
    return own.state == OPEN and own.get("Input") == asked.id


def _item_of(executor: Executor, asked: Input) -> Item | None:
    """What the ledger has of it; None of a thread of our own, and of what is over."""
    return executor.item(Name(asked.sender), IN, asked.topic) if asked.topic else None


def failing(run: Run, executor: Executor, asked: Input) -> turns.Failing:
    """What the planner of a failed attempt needs."""
    item = _item_of(executor, asked)
    return turns.Failing(run.settings.config, executor.now, item, asked.sender in run.settings.peers)


# What waits.


def places(executor: Executor, *folders: HubPath) -> list[tuple[items.Place, HubPath]]:
    """The items of ``state/queue`` or its ``dead/``, as this run leaves them so far, in the order of their turns."""
    return items.places([f"{folder}/{name}" for folder in folders for name in executor.names(folder)])


def read_queued(executor: Executor, path: HubPath) -> Input:
    """One item that waits; raises :class:`RecordRefused`."""
    return items.parse_queued(executor.read(path) or b"")


def _pending(executor: Executor) -> list[tuple[Name, Item]]:
    peers = executor.settings.peers
    return [(peer, item) for peer in peers for item in executor.open(peer, IN) if item.fields.get("thread")]


def _drop_unwanted(executor: Executor, pending: Iterable[tuple[Name, Item]]) -> set[str]:
    """Drop the items of threads that were decided, put off or assigned, or whose branch moved; the ids that stay."""
    wanted = {item.get("input") for _, item in pending}
    stay = set()
    for place, path in places(executor, QUEUE, DEAD):
        inbox = path.rpartition("/")[2].startswith(f"{Cadence.INBOX.value}-")
        if place.id not in wanted if inbox else _is_over(executor, path):
            executor.perform(Plan(str(place.id), (Drop(path),)))
        else:
            stay.add(str(place.id))
    return stay


def _is_over(executor: Executor, path: HubPath) -> bool:
    """Was the thread of our own decided, put off or assigned, whose item waits or was given up?"""
    try:
        return not is_wanted(executor, read_queued(executor, path))
    except RecordRefused:
        return False


def _enqueue_pending(
    executor: Executor, turn: Turn | None, pending: Iterable[tuple[Name, Item]], there: set[str]
) -> None:
    """Every pending thread that no item stands for; one that is put off or assigned waits elsewhere."""
    if turn is not None:
        there.add(turn.input.id)
    fresh = items.next_nth(executor.now, there)
    for peer, item in sorted(pending, key=lambda pair: pair[1].order):
        if item.state in ("deferred", "assigned") or item.get("input") in there:
            continue
        if why := why_held(item, executor.settings.peers[peer], executor.settings.config):
            _tell_held(executor, peer, item, why)
            continue
        id = items.new_input_id(executor.now, (peer, item.topic, item.head, secrets.token_hex(8)), there, fresh)
        there.add(id)
        fresh += 1
        executor.perform(turns.plan_inbox_input(peer, item, id, executor.now))


def _tell_held(executor: Executor, peer: Name, item: Item, why: str) -> None:
    source = f"{peer}/{item.topic}"
    text = f"{source} waits for a person: {why}"
    executor.notes.info(text, source=source, told_before=executor.memory.told("held", source, item.head))


def known_ids(executor: Executor) -> set[str]:
    """The ids of all that waits, is in flight, or is given up."""
    turn = current_turn(executor)
    return {str(place.id) for place, _ in places(executor, QUEUE, DEAD)} | ({str(turn.input.id)} if turn else set())


# What is given.


def _promote(run: Run, executor: Executor, may_give: MayGive | None) -> Turn | None:
    told: set[str] = set()
    for path in _in_turn(run, executor):
        try:
            asked = read_queued(executor, path)
        except RecordRefused as refused:
            told_before = run.memory.told("queue", path, refused.text)
            remedy = "remove it with git; it is left out"
            executor.notes.failed(f"{path}: {refused.text}", remedy, told_before=told_before)
            continue
        source = turns.source_of(asked)
        if not is_wanted(executor, asked):
            executor.perform(Plan(source, (Drop(path),)))
            continue
        reason = may_give(asked) if may_give else ""
        if reason is None:
            continue
        if reason:
            tell_chat(run, executor, asked, reason, told)
            told_before = run.memory.told("held", asked.id, reason)
            executor.notes.info(f"{source} waits: {reason}", source=source, told_before=told_before)
            continue
        _put_away(run, executor, "nothing is in flight that it could answer", before=asked)
        thread = decode(executor.read(asked.path) or b"") if asked.path else ""
        content = turns.content_of(asked, thread, _item_of(executor, asked))
        executor.perform(turns.plan_promote(asked, content, run.machine, executor.now))
        put_bounded(run.memory.section("senders"), asked.sender, 1, most=_SENDERS)
        hint = "" if may_give else _how_read(run)
        executor.notes.done(f"{source} is the agent's input ({asked.id}){hint}", source=source)
        return current_turn(executor)
    return None


def _how_read(run: Run) -> str:
    """Where nothing wakes an agent, and another clone may be the one in which it works: how the item is answered."""
    if not run.hub.origin or run.hub.config.last("cn.wake"):
        return ""
    here = "in this clone 'cn input' prints it and 'cn out' answers it"
    return f": {here}; 'git config cn.agent false' leaves items to the clone where the agent works"


def _in_turn(run: Run, executor: Executor) -> list[HubPath]:
    """What waits, in the order of its turns: of what is as urgent as the first, the first item of each sender comes
    before all others, of those first of all of who never had a turn in this clone, or whose last is the longest ago.
    """
    waiting = places(executor, QUEUE)
    urgent = [(place, path) for place, path in waiting if place.priority == waiting[0][0].priority]
    last = {sender: number for number, sender in enumerate(run.memory.section("senders"), 1)}
    first: dict[str, HubPath] = {}
    for path, sender in _senders(executor, urgent):
        first.setdefault(sender, path)
    found = [first[sender] for sender in sorted(first, key=lambda sender: last.get(sender, 0))]
    there = set(found)
    return [*found, *(path for _, path in waiting if path not in there)]


def _senders(executor: Executor, waiting: Sequence[tuple[items.Place, HubPath]]) -> Iterator[tuple[HubPath, str]]:
    """Each item with who sent it; of a peer's thread the ledger knows it, others are read."""
    known = {item.get("input"): str(peer) for peer, item in _pending(executor)}
    for start in range(0, len(waiting), _READ):
        some = waiting[start : start + _READ]
        executor.snapshot.read_many(path for place, path in some if str(place.id) not in known)
        yield from ((path, known.get(str(place.id)) or _sender(executor, path)) for place, path in some)


def _sender(executor: Executor, path: HubPath) -> str:
    with suppress(RecordRefused):
        return read_queued(executor, path).sender
    return ""


def tell_chat(run: Run, executor: Executor, asked: Input, why: str, told: set[str]) -> None:
    """A chat learns that it has to wait: of its first message that does, once a day."""
    if not is_chat(asked.sender) or asked.sender in told:
        return
    told.add(asked.sender)
    text = f"(your message waits: {why})"
    say = Say(f"{asked.id}-waits", run.machine, asked.sender, text, executor.now, "waits")
    if executor.read(say.path) is None and executor.read(say.sent_path) is None:
        executor.perform(Plan(asked.sender, (Put(say.path, format_say(say)),)))


def _give(run: Run, executor: Executor, turn: Turn | None) -> None:
    """``state/input.md`` is what the turn says, on the machine that took it, and nowhere else."""
    found = read_plain(run.hub.root / INPUT)
    if turn is None or turn.machine != run.machine:
        if found is not None and INPUT not in executor.changed_here:
            executor.perform(Plan(INPUT, (WriteHere(INPUT, None),)))
        return
    given = run.memory.section("given")
    if not given.get(turn.input.id):
        put_bounded(given, turn.input.id, format_second(run.now), most=_GIVEN)
    text = turn.text.encode("utf-8", "replace")
    if INPUT not in executor.changed_here and (found is None or found[1] != text):
        executor.perform(Plan(turns.source_of(turn.input), (WriteHere(INPUT, text),)))


_LATE = timedelta(days=1)
"""How long after an item was given an answer to it may still come."""


def find_unanswered(memory: Memory, id: str) -> str:
    """Another item than ``id`` that was given here of late and has no answer yet; empty: there is none."""
    since = format_second(memory.at - _LATE)
    return next((other for other, at in memory.section("given").items() if other != id and str(at) > since), "")


def note_ended(memory: Memory, id: str) -> None:
    """No answer to this item can come any more: it has one, or nobody is asked."""
    put_bounded(memory.section("given"), id, "", most=_GIVEN)


def require_queue(run: Run) -> None:
    """Refuse where there is no queue."""
    if run.settings.config.interface != "queue":
        raise Refused(
            "this hub has no queue: its threads wait for a '## Triage'",
            "set 'interface: queue' in .cn/hub.yaml and commit it",
        )


def require_given(run: Run) -> None:
    """Refuse where this clone gives the agent nothing."""
    require_queue(run)
    if run.hub.leaves_agent:
        raise Refused(LEFT, GIVEN_AGAIN)


def enqueue_own(executor: Executor, own: Own) -> None:
    """Put a thread of our own into the queue."""
    id = items.new_input_id(executor.now, (own.path, secrets.token_hex(8)), known_ids(executor))
    executor.perform(turns.plan_own_input(own, executor.settings.us, id, executor.now))


def queue_due(run: Run, executor: Executor, turn: Turn | None) -> None:
    """Queue what is due. Looked at once an hour, and when what is put off has a time before that."""
    if next_look(run.memory) is not None:
        _note_times(run, [_own(executor, path) for path in executor.changed if path.startswith(_FOLDERS)])
        return
    threads = []
    _reflections(executor, turn)
    for folder in (CONCERNS, ADHOC):
        paths = [HubPath(f"{folder}/{e.path}") for e in executor.snapshot.folder(folder) if e.kind == "blob"]
        paths = [path for path in paths if path.endswith(".md")]
        executor.snapshot.read_many(paths)
        for path in paths:
            own = _own(executor, path)
            if is_due(own, executor.now):
                enqueue_own(executor, own)
            threads.append(own)
    _note_times(run, threads)


def _own(executor: Executor, path: HubPath) -> Own:
    return parse_own(path, (executor.read(path) or b"").decode("utf-8", "replace"))


def _note_times(run: Run, threads: Iterable[Own]) -> None:
    """Look again when one of them comes back, if that is before the next full hour."""
    times = [own.until for own in threads if own.state == DEFERRED and own.until]
    hour = run.now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    at = min(hour, next_look(run.memory) or hour, *(at for at in times if at > run.now))
    run.memory.section("looks")["agenda"] = format_second(at)


def next_look(memory: Memory) -> datetime | None:
    """When the agenda is looked at again; None: now. A clock that went backwards asks at once."""
    try:
        at = parse_stamp(str(memory.section("looks")["agenda"]))
    except (KeyError, StampRefused):
        return None
    return at if memory.at < at <= memory.at + timedelta(hours=1) else None


def _reflections(executor: Executor, turn: Turn | None) -> None:
    """A reflection waits for those that it draws on, while they are queued or in flight."""
    waiting = [place.priority for place, _ in places(executor, QUEUE)] + ([turn.input.cadence.priority] if turn else [])
    lowest = min((priority for priority in waiting if priority), default=len(Cadence))
    days = _days_with_matter(executor)
    written = {
        cadence: [e.path.removesuffix(".md") for e in executor.snapshot.folder(f"{REFLECTIONS}/{cadence.value}")]
        for cadence in PERIODIC
    }
    for cadence, name in due_reflections(executor.now, days, written):
        if cadence.priority > lowest:
            break
        path = reflection_path(cadence, name)
        data = executor.read(path)
        matter = _matter(executor, cadence, name, written)
        if data is None:
            own = new_own(path, f"{TITLES[cadence]} {name}", executor.now, executor.settings.us)
        else:
            own = parse_own(path, data.decode("utf-8", "replace"))
            if own.state != OPEN or own.get("Input") or own.get("Asked"):
                continue
        enqueue_own(executor, own.with_entry(executor.now, "cn", matter))
        lowest = cadence.priority


def _days_with_matter(executor: Executor) -> list[str]:
    """The last days on which something happened; only those that can be due are read."""
    first, today = (period(Cadence.DAILY, at) for at in (executor.now - _LOOK_BACK, executor.now))
    names = [e.path.removesuffix(".md") for e in executor.snapshot.folder(LOGS)]
    recent = [name for name in names if name.isdigit() and first <= name < today]
    executor.snapshot.read_many(f"{LOGS}/{name}.md" for name in recent)
    return [name for name in recent if is_worth_reflecting(_rows(executor, name))]


def _rows(executor: Executor, day: str) -> list[Row]:
    return parse_rows(executor.snapshot.text(f"{LOGS}/{day}.md"), day)


def _matter(executor: Executor, cadence: Cadence, name: str, written: dict[Cadence, list[str]]) -> str:
    """What the reflection draws on, quoted, within the limit of a thread."""
    level = level_below(cadence)
    room = executor.settings.config.limits.thread_bytes // 2
    if level is None:
        text = "\n".join(format_row(row) for row in _rows(executor, name))
        return f"What happened:\n\n{quote(text.encode()[:room].decode('utf-8', 'ignore'))}"
    parts = ["What was written:"]
    for lower in by_period(cadence, written[level]).get(name, ()):
        text = executor.snapshot.text(reflection_path(level, lower))[: max(0, room)]
        room -= len(text.encode())
        parts.append(quote(text))
    return "\n\n".join(parts)
