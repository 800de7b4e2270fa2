"""Plans for the queue: enqueue, give a turn, end a turn that ran out of time or attempts.

One item is in flight. Taking it is a claim in main; the agent works while no lock is held.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cn.outbox.plan.receipts import notice
from cn.protocol import queue_item as items
from cn.protocol import rules
from cn.protocol.effects import Archive, Drop, Effect, Log, Plan, Put, Record, Wake, WriteHere
from cn.protocol.hub_config import HubConfig
from cn.protocol.layout import BRANCH_LEFT, inbox_path
from cn.protocol.ledger import IN, Event, Item
from cn.protocol.log import Row
from cn.protocol.message import About
from cn.protocol.outbox_entry import Say, format_say, is_chat
from cn.protocol.own_thread import OPEN, Own, format_own
from cn.protocol.queue_item import INPUT, LOGS, OUTPUT, TURN, Cadence, Input, Turn
from cn.protocol.thread_file import add_caution, without_form
from cn.values.errors import Refusal
from cn.values.names import Branch, HubPath, InputId, Name, Oid, ThreadName, parse_oid
from cn.values.timestamps import format_age, format_stamp

_OVER = (Drop(TURN), Drop(INPUT))


def time_limit(config: HubConfig) -> timedelta:
    """How long a turn may take: ``cron_period_min × timeout_cycles``."""
    return timedelta(minutes=config.cron_period_min * config.timeout_cycles)


def plan_inbox_input(peer: Name, item: Item, id: InputId, at: datetime) -> Plan:
    """A pending thread waits for the agent."""
    path = inbox_path(ThreadName(item.get("thread")))
    asked = Input(id, peer, Cadence.INBOX, at, path, item.topic, item.head)
    event = Event(at, IN, "enqueued", item.topic, item.head, {"input": id})
    return Plan(f"{peer}/{item.topic}", (Put(items.queue_path(asked), items.format_queued(asked)), Record(peer, event)))


def plan_own_input(own: Own, us: Name, id: InputId, at: datetime) -> Plan:
    """A thread of our own waits for the agent; a deferred one is open again.

    A chat's message that was put off comes from that chat again.
    """
    asked = Input(id, own.chat or us, own.cadence, at, own.path)
    marked = own.with_field("State", OPEN).with_field("Until", "").with_field("Input", id)
    marked = marked.with_field("Asked", format_stamp(at))
    return Plan(
        own.source, (Put(items.queue_path(asked), items.format_queued(asked)), Put(own.path, format_own(marked)))
    )


def source_of(asked: Input) -> str:
    """What log rows call an item: ``peer/topic``, or the thread of our own."""
    if asked.topic:
        return f"{asked.sender}/{asked.topic}"
    folder = asked.path.rpartition("/")[0].rpartition("/")[2]
    return f"{folder}/{asked.thread}" if asked.path else asked.sender


def _event(asked: Input, at: datetime, kind: str, **fields: str) -> list[Effect]:
    """A ledger event, where the item is a peer's."""
    if not asked.topic:
        return []
    fields = {"input": asked.id, **fields}
    return [Record(Name(asked.sender), Event(at, IN, kind, asked.topic, Oid(asked.head), fields))]


def _row(asked: Input, at: datetime, words: str, executed: str, outcome: str) -> Log:
    return Log(Row(at, source_of(asked), words, executed, _file(asked), "", asked.head, outcome, input=asked.id))


def _file(asked: Input) -> str:
    return f"{asked.thread}.md" if asked.topic else asked.path


def content_of(asked: Input, thread: str, item: Item | None) -> str:
    """What is given of an item: its own words, or those of its ``thread`` (the text of the file).

    Of a proposal that can be merged no more, the header of the thread says so; ``item`` is the ledger's, of a peer's.
    """
    if not asked.path:
        return asked.content
    text = without_form(thread)
    return add_caution(text, f"{BRANCH_LEFT}: nothing can be merged") if item and item.is_withdrawn else text


def plan_promote(asked: Input, content: str, machine: str, at: datetime) -> Plan:
    """The item becomes the agent's input on this machine."""
    attempt = asked.attempts + 1
    text = items.format_input(asked, attempt, content)
    turn = Turn(asked, machine, attempt, at, text)
    effects: list[Effect] = [
        Drop(items.queue_path(asked)),
        Put(TURN, items.format_turn(turn)),
        Put(INPUT, text),
        *_event(asked, at, "claimed", attempt=str(attempt), machine=machine),
        Wake(_file(asked) or asked.id, turn=True),
    ]
    return Plan(source_of(asked), tuple(effects))


def plan_withdrawn(turn: Turn) -> Plan:
    """What is in flight needs no answer any more: it was decided another way, its branch moved, or words came."""
    return Plan(source_of(turn.input), _OVER)


def plan_answered(turn: Turn, output: bytes, done: Plan) -> Plan:
    """An output that holds: the pair is archived, what it says is done, the turn is over."""
    return Plan(done.cause, (*_archive(turn, output), *done.effects, *_OVER, _used(output)))


def _used(output: bytes) -> WriteHere:
    """What the agent wrote goes, but nothing that it writes meanwhile; what is cut cannot be compared."""
    return WriteHere(OUTPUT, None, output if len(output) < MOST_READ else None)


def _archive(turn: Turn, output: bytes | None) -> list[Effect]:
    effects: list[Effect] = [Archive(turn.archive_path("input"), turn.text.encode("utf-8", "replace"))]
    if turn.sent:
        effects.append(Archive(turn.sent_path, turn.sent))
    if output is not None:
        effects.append(Archive(turn.archive_path("output"), output))
    return effects


MOST_READ = 8 << 20
"""Bytes of an output that are read and kept; beyond, it is cut."""


@dataclass(frozen=True)
class Failing:
    """What the planners of a failed attempt may know.

    ``item`` is the ledger's, None for threads of our own; ``known_peer`` tells whether the
    sender can be told.
    """

    config: HubConfig
    now: datetime
    item: Item | None = None
    known_peer: bool = False


def plan_rejected(turn: Turn, output: bytes, refusals: Sequence[Refusal], facts: Failing) -> Plan:
    """An output that does not hold: archived as rejected, nothing of it is done, the input stays.

    The attempt counts; after the last one the item is a dead letter.
    """
    why = "; ".join(f"{r.rule}: {r.reason}" for r in refusals)
    row = _row(turn.input, facts.now, f"output:{turn.trigger}", f"refused: {why}", "rejected")
    effects = [*_archive(turn, output), _used(output), row]
    asked = replace(turn.input, attempts=turn.attempt, reason=why)
    remedy = "; ".join(dict.fromkeys(r.remedy for r in refusals if r.remedy))
    fields = {"rule": refusals[0].rule, "why": why, "remedy": remedy}
    effects += _event(asked, facts.now, "refused", **fields)
    if turn.attempt >= facts.config.max_attempts:
        said = "the agent could not answer it"
        return Plan(source_of(asked), (*effects, *_dead(turn, asked, facts, "failed", said)))
    again = plan_promote(asked, items.parse_input(turn.text).content, turn.machine, facts.now)
    kept = [e for e in again.effects if not isinstance(e, Drop)]
    return Plan(source_of(asked), (*effects, *kept))


def plan_lapsed(turn: Turn, facts: Failing, failure: str = "") -> Plan:
    """No answer in time, or none to be had (``failure``): archived, the creator told, the queue goes on.

    The item waits again, behind the others of its cadence; after the last attempt it is a dead letter.
    """
    why = failure or f"no answer in {format_age(facts.now - turn.since)}"
    # What the model's server said, of an account it may be, is the hub's own affair.
    said = "the agent gave no answer" + ("" if failure else " in time")
    why += f" (attempt {turn.attempt} of {facts.config.max_attempts})"
    asked = replace(turn.input, attempts=turn.attempt, reason=why)
    row = _row(asked, facts.now, "no answer" if failure else "timed out", why, "timed-out")
    effects = [*_archive(turn, None), row]
    effects += _event(asked, facts.now, "timed-out", attempt=str(turn.attempt))
    if turn.attempt >= facts.config.max_attempts:
        return Plan(source_of(asked), (*effects, *_dead(turn, asked, facts, "timed-out", said)))
    effects += _put_back(turn, replace(asked, queued=facts.now), items.queue_path)
    return Plan(source_of(asked), (*effects, *_told(turn, asked, facts, "timed-out", said)))


_FIRST_PAUSE = timedelta(minutes=2)


def rests(asked: Input, at: datetime) -> bool:
    """Does an item that had no answer rest before its next attempt? 2 minutes after the first, then 8, 32 …

    So what fails for a while for all of them uses up nobody's attempts. A clock that went backwards ends the pause.
    """
    pause = _FIRST_PAUSE * 4 ** min(asked.attempts - 1, 3)
    lapsed = f"(attempt {asked.attempts} of " in asked.reason  # as plan_lapsed says; a rejected one is given at once
    return asked.attempts > 0 and lapsed and timedelta() <= at - asked.queued < pause


def plan_released(turn: Turn, at: datetime, *, below: int = 0) -> Plan:
    """Nobody could be asked, through no fault of the item: it waits again, and the attempt does not count.

    Where it may have to do with the item all the same, it counts ``below`` this number: so the item lets others pass,
    and is not given up.
    """
    waiting = replace(turn.input, attempts=turn.attempt if turn.attempt < below else turn.attempt - 1)
    return Plan(source_of(waiting), (*_put_back(turn, waiting, items.queue_path), *_event(waiting, at, "enqueued")))


def _put_back(turn: Turn, asked: Input, place: Callable[[Input], HubPath]) -> list[Effect]:
    """The turn is over, and its item waits, or is given up, with what has no thread to be read from."""
    content = "" if asked.path else items.parse_input(turn.text).content
    return [*_OVER, Put(place(asked), items.format_queued(replace(asked, content=content)))]


def _dead(turn: Turn, asked: Input, facts: Failing, status: str, said: str) -> list[Effect]:
    """A dead letter: visible until a person decides its thread, or has it tried again."""
    return [
        *_put_back(turn, asked, items.dead_path),
        *_event(asked, facts.now, "dead"),
        _row(asked, facts.now, "dead letter", f"given up after {asked.attempts} attempts", "dead"),
        *_told(turn, asked, facts, status, said),
    ]


def _told(turn: Turn, asked: Input, facts: Failing, status: str, said: str) -> list[Effect]:
    """Who sent it learns that it takes longer: a creator once per head, a chat at first and at last.

    ``said``: in plain words; why it failed is the hub's own affair, and may quote what the agent wrote.
    """
    if is_chat(asked.sender):
        if asked.attempts > 1 and asked.attempts < facts.config.max_attempts:
            return []
        last = asked.attempts >= facts.config.max_attempts
        why = said if status == "timed-out" else "what the agent wrote could not be carried out"
        text = f"(no answer: {why}; {'given up' if last else 'it is tried again'})"
        say = Say(f"{asked.id}-{asked.attempts}", turn.machine, asked.sender, text, facts.now, status)
        return [Put(say.path, format_say(say))]
    item = facts.item
    if item is None or not facts.known_peer or item.get("waits") == item.head:
        return []
    peer = Name(asked.sender)
    about = About(Branch(item.get("branch")), parse_oid(item.head), status, None, said)
    post = notice(facts.config.name, peer, item.topic, about, facts.now, item.get("thread"))
    noted = Event(facts.now, IN, "refused", item.topic, item.head, {"waits": item.head})
    return [Record(peer, noted), post]


def plan_retry(asked: Input, id: InputId, at: datetime, own: Own | None = None) -> Plan:
    """A dead letter waits again, with all its attempts and a new id, so that no archive is written over.

    ``own`` is its thread, where that is one of ours: it names the item that stands for it.
    """
    fresh = replace(asked, id=id, attempts=0, queued=at)
    effects: list[Effect] = [
        Drop(items.dead_path(asked)),
        Put(items.queue_path(fresh), items.format_queued(fresh)),
        *([Put(own.path, format_own(own.with_field("Input", id)))] if own else []),
        *_event(fresh, at, "enqueued"),
        _row(fresh, at, "retry", "queued again", "queued"),
    ]
    return Plan(source_of(asked), tuple(effects))


def plan_cleared(asked: Input, at: datetime) -> Plan:
    """A person takes an item out of the queue; its thread stays, for ``## Triage`` or a retry."""
    out = replace(asked, reason="taken out of the queue")
    row = _row(asked, at, "clear", "taken out of the queue", "cleared")
    effects = (
        Drop(items.queue_path(asked)),
        Put(items.dead_path(out), items.format_queued(out)),
        *_event(asked, at, "dead"),
        row,
    )
    return Plan(source_of(asked), effects)


def late_path(id: str, nth: int) -> HubPath:
    """Where the n-th output is kept (from 1) that came too late for this input."""
    return HubPath(f"{LOGS['output']}/{id}-late{f'-{nth}' if nth > 1 else ''}.md")


def out_of_turn(output: bytes, id: str, at: datetime, why: str, nth: int = 1) -> Plan:
    """An output that answers nothing in flight: kept, nothing of it is done."""
    row = Row(at, id, "output", f"refused: {rules.VALID_OUTPUT}: {why}", outcome="late", input=id)
    return Plan(id, (Archive(late_path(id, nth), output), Log(row), _used(output)))
