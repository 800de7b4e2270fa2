"""The agent's queue at one commit of main: what waits, what is in flight, what comes next.

Part of every run of a hub with ``interface: queue``. The queue is derived: a pending thread
that no item stands for gets one, an item whose thread is not pending any more goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cn.agent.interface import read_shown
from cn.agent.plan.turns import (
    MOST_READ,
    Allowed,
    Because,
    Failing,
    Later,
    Permission,
    plan_inbox_input,
    plan_lapsed,
    plan_promote,
    plan_released,
    plan_withdrawn,
    source_of,
    time_limit,
    waiting_say,
)
from cn.agent.reflections import queue_due
from cn.protocol.cadence import Cadence
from cn.protocol.chat_reply import format_say, is_chat
from cn.protocol.effects import Drop, Plan, Put, WriteHere
from cn.protocol.ledger import IN, Item
from cn.protocol.own_thread import OPEN, parse_own
from cn.protocol.queue_item import (
    DEAD,
    INPUT,
    OUTPUT,
    QUEUE,
    TURN,
    Input,
    Turn,
    in_order,
    new_input_id,
    next_nth,
    parse_queue_name,
    parse_queued,
    parse_turn,
)
from cn.protocol.states.agent import ACTOR, Actor, ActorEvent, actor_state
from cn.run.executor import Executor
from cn.run.memory import put_bounded
from cn.run.run import Run
from cn.run.snapshot import Snapshot
from cn.system.files import read_plain, read_regular
from cn.system.random import nonce
from cn.values.errors import Refused
from cn.values.names import HubPath, Name
from cn.values.record_header import RecordRefused

INBOX = f"{Cadence.INBOX.value}-"


_GIVEN = 50
"""Inputs whose ids a clone remembers, to know a late answer."""


MayGive = Callable[[Input], Permission]
"""May the agent have this item now?"""


def update_queue(
    run: Run, executor: Executor, *, may_give: MayGive | None = None, keep_expired_turn: bool = False
) -> None:
    """Bring the queue up to date, and give the agent its next item if it has none."""
    turn = current_turn(executor)
    state = actor_of(run, turn)
    if turn is not None and not is_wanted(executor, turn.input):
        executor.perform(plan_withdrawn(turn))
        executor.notes.info(f"{source_of(turn.input)} needs no answer of the agent any more")
        turn, state = None, ACTOR.step(state, ActorEvent.WITHDRAWN)
    fed = run.settings.config.interface == "queue"
    # An answer that is there counts still. Another machine may have one, until its time is over.
    may_end = turn is not None and (turn.machine == run.machine or state is Actor.TIMED_OUT)
    if turn is not None and not fed and may_end and state is not Actor.OUTPUT_READY:
        executor.perform(plan_released(turn, executor.now))
        source = source_of(turn.input)
        executor.notes.info(f"{source} is the agent's no more: hub.yaml says 'interface: triage'", source=source)
        turn, state = None, ACTOR.step(state, ActorEvent.WITHDRAWN)
    if turn is not None and state is Actor.TIMED_OUT and not keep_expired_turn:
        executor.perform(plan_lapsed(turn, failing(run, executor, turn.input)))
        source = source_of(turn.input)
        remedy = "is it woken? see 'git config cn.wake' and 'cn queue'"
        executor.notes.failed(f"{source}: the agent gave no answer in time", remedy, source=source)
        turn, state = None, ACTOR.step(state, ActorEvent.ARCHIVED)
    if fed:
        _drop_unwanted(executor)
        _enqueue_pending(executor, turn)
        queue_due(run, executor, _priorities(executor, turn))
        if state is Actor.IDLE:
            turn = _promote(run, executor, may_give)
            if turn is not None:
                ACTOR.step(state, ActorEvent.PROMOTED)
    _give(run, executor, turn)


def actor_of(run: Run, turn: Turn | None) -> Actor:
    """What the agent is at, as the files say; what another clone's agent wrote is not seen here."""
    if turn is None:
        return Actor.IDLE
    return actor_state(
        turn=True,
        shown=read_shown(run.hub, turn.trigger) is not None,
        output=turn.machine == run.machine and read_output(run) is not None,
        expired=turn.expired(run.now, time_limit(run.settings.config)),
    )


def current_turn(executor: Executor) -> Turn | None:
    """The item in flight, as this run leaves it so far."""
    data = executor.read(TURN)
    if data is None:
        return None
    try:
        return parse_turn(data)
    except RecordRefused as refused:
        executor.notes.failed(f"{TURN}: {refused.text}", "it is dropped; what waits is given again")
        executor.perform(Plan(TURN, (Drop(TURN),)))
        return None


def peek_turn(snapshot: Snapshot) -> Turn | None:
    """The item in flight in a commit of main, if it can be read."""
    try:
        return parse_turn(snapshot.read(TURN) or b"")
    except RecordRefused:
        return None


def read_output(run: Run) -> bytes | None:
    """What the agent wrote, at most a byte more than is taken; None while there is nothing."""
    return read_regular(run.hub.root / OUTPUT, MOST_READ)


def is_wanted(executor: Executor, asked: Input) -> bool:
    """Is what an item asks still open, at the head it speaks of?"""
    if asked.topic:
        item = executor.item(Name(asked.sender), IN, asked.topic)
        return item is not None and item.get("input") == asked.id and item.head == asked.head
    if not asked.path:
        return True
    data = executor.read(asked.path)
    if data is None:
        return False
    own = parse_own(asked.path, data.decode("utf-8", "replace"))
    return own.state == OPEN and own.get("Input") == asked.id


def failing(run: Run, executor: Executor, asked: Input) -> Failing:
    """What the planner of a failed attempt needs."""
    peer = Name(asked.sender)
    item = executor.item(peer, IN, asked.topic) if asked.topic else None
    return Failing(run.settings.config, executor.now, item, peer in run.settings.peers)


# What waits.


def names_in(executor: Executor, folder: HubPath) -> list[str]:
    """The file names of ``state/queue`` or its ``dead/``, as this run leaves them so far."""
    return in_order(executor.names(folder))


def read_queued(executor: Executor, path: HubPath) -> Input:
    """One item that waits; raises :class:`RecordRefused`."""
    return parse_queued(executor.read(path) or b"")


def _pending(executor: Executor) -> Iterator[tuple[Name, Item]]:
    for peer in executor.settings.peers:
        for item in executor.open(peer, IN):
            if item.get("thread"):
                yield peer, item


def _drop_unwanted(executor: Executor) -> None:
    """Items of threads that were decided, put off or assigned, or whose branch moved."""
    wanted = {item.get("input") for _, item in _pending(executor)}
    for folder in (QUEUE, DEAD):
        for name in names_in(executor, folder):
            place, path = parse_queue_name(name), HubPath(f"{folder}/{name}")
            if place is None:
                continue
            inbox = name.startswith(INBOX)
            if (inbox and place.id not in wanted) or (not inbox and _is_over(executor, path)):
                executor.perform(Plan(str(place.id), (Drop(path),)))


def _is_over(executor: Executor, path: HubPath) -> bool:
    """Was the thread of our own decided, put off or assigned, whose item waits or was given up?"""
    try:
        return not is_wanted(executor, read_queued(executor, path))
    except RecordRefused:
        return False


def _priorities(executor: Executor, turn: Turn | None) -> set[int]:
    places = (parse_queue_name(name) for name in names_in(executor, QUEUE))
    found = {place.priority for place in places if place is not None}
    return found | ({turn.input.cadence.priority} if turn else set())


def _enqueue_pending(executor: Executor, turn: Turn | None) -> None:
    """Every pending thread that no item stands for; one that is put off or assigned waits elsewhere."""
    there = known_ids(executor, turn)
    fresh = next_nth(executor.now, there)
    for peer, item in sorted(_pending(executor), key=lambda pair: (pair[1].since, pair[1].get("thread"))):
        if item.state in ("deferred", "assigned") or item.get("input") in there:
            continue
        id = new_input_id(executor.now, (peer, item.topic, item.head, nonce()), there, fresh)
        there.add(id)
        fresh += 1
        executor.perform(plan_inbox_input(peer, item, id, executor.now))


def known_ids(executor: Executor, turn: Turn | None) -> set[str]:
    """The ids of all that waits, is in flight, or is given up."""
    names = names_in(executor, QUEUE) + names_in(executor, DEAD)
    places = [place for name in names if (place := parse_queue_name(name))]
    return {str(place.id) for place in places} | ({str(turn.input.id)} if turn else set())


# What is given.


def _promote(run: Run, executor: Executor, may_give: MayGive | None) -> Turn | None:
    told: set[str] = set()
    for name in names_in(executor, QUEUE):
        path = HubPath(f"{QUEUE}/{name}")
        try:
            asked = read_queued(executor, path)
        except RecordRefused as refused:
            told_before = not run.memory.tell_once("queue", path, refused.text)
            remedy = "remove it with git; it is left out"
            executor.notes.failed(f"{path}: {refused.text}", remedy, told_before=told_before)
            continue
        if not is_wanted(executor, asked):
            executor.perform(Plan(source_of(asked), (Drop(path),)))
            continue
        match may_give(asked) if may_give else Allowed():
            case Later():
                continue
            case Because(reason):
                tell_chat(run, executor, asked, reason, told)
                told_before = not run.memory.tell_once("held", asked.id, reason)
                text = f"{source_of(asked)} waits: {reason}"
                executor.notes.info(text, source=source_of(asked), told_before=told_before)
                continue
            case Allowed():
                pass
        content = (executor.read(asked.path) or b"").decode("utf-8", "replace") if asked.path else asked.content
        executor.perform(plan_promote(asked, content, run.machine, executor.now))
        turn = current_turn(executor)
        executor.notes.done(f"{source_of(asked)} is the agent's input ({asked.id})", source=source_of(asked))
        return turn
    return None


def tell_chat(run: Run, executor: Executor, asked: Input, why: str, told: set[str]) -> None:
    """A chat learns that it has to wait: of its first message that does, once a day."""
    if not is_chat(asked.sender) or asked.sender in told:
        return
    told.add(asked.sender)
    say = waiting_say(asked, run.machine, why, executor.now)
    if executor.read(say.path) is None and executor.read(say.sent_path) is None:
        executor.perform(Plan(asked.sender, (Put(say.path, format_say(say)),)))


def _give(run: Run, executor: Executor, turn: Turn | None) -> None:
    """``state/input.md`` is what the turn says, on the machine that took it, and nowhere else."""
    found = read_plain(run.hub.root / INPUT)
    if turn is None or turn.machine != run.machine:
        if found is not None and INPUT not in executor.changed_here:
            executor.perform(Plan(INPUT, (WriteHere(INPUT, None),)))
        return
    put_bounded(run.memory.section("given"), turn.input.id, 1, most=_GIVEN)
    text = turn.text.encode("utf-8", "replace")
    if INPUT not in executor.changed_here and (found is None or found[1] != text):
        executor.perform(Plan(source_of(turn.input), (WriteHere(INPUT, text),)))


def require_queue(run: Run) -> None:
    """Refuse where there is no queue."""
    if run.settings.config.interface != "queue":
        raise Refused(
            "this hub has no queue: its threads wait for a '## Triage'",
            "set 'interface: queue' in .cn/hub.yaml and commit it",
        )
