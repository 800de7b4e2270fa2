"""Four closed machines: every pair of state and event, and what runs on them."""

from __future__ import annotations

import itertools
import re
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.protocol.ledger import IN, OUT, Event, Open, apply, check, fold_history
from cn.protocol.states.agent import ACTOR, Actor, ActorEvent, actor_state
from cn.protocol.states.receiver import RECEIVER, Receiver, ReceiverEvent, Step, read_step
from cn.protocol.states.sender import SENDER, Sender
from cn.protocol.states.tables import MACHINES
from cn.protocol.states.thread import IN_QUEUE, THREAD, Thread
from cn.values.errors import CnError
from cn.values.names import Oid
from cn.values.state_machine import InvalidTransition, Machine, fill_tables, format_table
from cn.values.timestamps import parse_stamp

# Written by hand, from the protocol: rows are events, columns the state before,
# cells the state after, a dash what cannot be.

EXPECTED = {
    "thread": """
        event     | none     | received | deferred | assigned | queued   | claimed  | dead     | done
        received  | received | received | received | received | received | received | received | -
        refreshed | -        | received | received | received | received | received | received | -
        repeated  | none     | received | deferred | assigned | queued   | claimed  | dead     | -
        refused   | none     | received | deferred | assigned | queued   | claimed  | dead     | -
        gone      | none     | received | deferred | assigned | queued   | claimed  | dead     | -
        noticed   | none     | done     | done     | done     | done     | done     | done     | -
        deferred  | -        | deferred | deferred | deferred | deferred | deferred | deferred | -
        returned  | -        | -        | received | -        | -        | -        | -        | -
        assigned  | -        | assigned | assigned | assigned | assigned | assigned | assigned | -
        decided   | -        | done     | done     | done     | done     | done     | done     | -
        enqueued  | -        | queued   | -        | -        | queued   | queued   | queued   | -
        claimed   | -        | -        | -        | -        | claimed  | claimed  | -        | -
        shown     | -        | -        | -        | -        | -        | claimed  | -        | -
        timed-out | -        | -        | -        | -        | -        | queued   | -        | -
        dead      | -        | -        | -        | -        | dead     | dead     | -        | -
    """,
    "actor": """
        event     | idle        | input-ready  | processing   | output-ready | timed-out
        promoted  | input-ready | -            | -            | -            | -
        shown     | -           | processing   | processing   | output-ready | timed-out
        answered  | -           | output-ready | output-ready | output-ready | output-ready
        rejected  | -           | -            | -            | input-ready  | -
        expired   | -           | timed-out    | timed-out    | -            | -
        archived  | -           | -            | -            | idle         | idle
        withdrawn | -           | idle         | idle         | idle         | idle
    """,
    "sender": """
        event     | none    | queued    | adopted   | delivered | answered | deleting | deleted | gone
        queued    | queued  | queued    | -         | -         | -        | -        | -       | -
        adopted   | adopted | adopted   | adopted   | adopted   | adopted  | adopted  | -       | -
        delivered | none    | delivered | delivered | delivered | answered | deleting | -       | -
        answered  | -       | answered  | answered  | answered  | answered | -        | -       | -
        deleting  | -       | -         | -         | deleting  | deleting | -        | -       | -
        deleted   | none    | deleted   | deleted   | deleted   | deleted  | deleted  | -       | -
        gone      | -       | -         | gone      | gone      | gone     | gone     | -       | -
    """,
    "receiver": """
        event     | unseen  | refused | present   | withdrawn | settled | gone
        new head  | present | present | present   | present   | present | present
        same head | -       | -       | present   | present   | settled | settled
        old head  | -       | -       | present   | present   | settled | settled
        refused   | refused | refused | present   | withdrawn | settled | settled
        settled   | -       | -       | settled   | gone      | -       | -
        vanished  | unseen  | unseen  | withdrawn | -         | gone    | -
    """,
}
FINALS = {"thread": {"done"}, "actor": set(), "sender": {"deleted", "gone"}, "receiver": set()}
INITIAL = {"thread": "none", "actor": "idle", "sender": "none", "receiver": "unseen"}


def pairs(name: str) -> dict[tuple[str, str], str]:
    """(state, event) → the state after, or ``-``, from the table above."""
    lines = [re.split(r"\s*\|\s*", line.strip()) for line in EXPECTED[name].strip().splitlines()]
    states = lines[0][1:]
    return {(state, row[0]): after for row in lines[1:] for state, after in zip(states, row[1:], strict=True)}


PAIRS = [
    pytest.param(machine, state, event, after, id=f"{machine.name}: {state}, {event}")
    for machine in MACHINES
    for (state, event), after in pairs(machine.name).items()
]


@pytest.mark.parametrize(("machine", "state", "event", "after"), PAIRS)
def test_every_pair_of_state_and_event(machine: Machine[Any, Any], state: str, event: str, after: str) -> None:
    before, act = machine.states(state), machine.events(event)
    if after != "-":
        assert machine.after(before, act) is machine.step(before, act) is machine.states(after)
        return
    assert machine.after(before, act) is None
    with pytest.raises(InvalidTransition) as caught:
        machine.step(before, act, "pi/proposal")
    error = caught.value
    assert (error.machine, error.state, error.event) == (machine.name, state, event)
    for word in ("pi/proposal: ", machine.name, repr(state), repr(event)):
        assert word in error.text
    assert isinstance(error, CnError)
    assert "bug in cn" in error.hint


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_the_tables_above_leave_nothing_out(machine: Machine[Any, Any]) -> None:
    every = itertools.product((s.value for s in machine.states), (e.value for e in machine.events))
    assert set(pairs(machine.name)) == set(every)
    assert machine.initial.value == INITIAL[machine.name]
    assert {state.value for state in machine.finals} == FINALS[machine.name]


def test_there_are_four() -> None:
    assert [machine.name for machine in MACHINES] == ["thread", "actor", "sender", "receiver"]


# A table is checked when it is made.


class Light(Enum):
    RED = "red"
    GREEN = "green"


class Push(Enum):
    GO = "go"
    STOP = "stop"


class Other(Enum):
    RED = "red"


GOOD: dict[Any, Any] = {Light.RED: {Push.GO: Light.GREEN}, Light.GREEN: {Push.STOP: Light.RED}}


@pytest.mark.parametrize(
    ("initial", "table", "what"),
    [
        (Light.RED, {**GOOD, Other.RED: {Push.GO: Light.RED}}, "Other.RED"),
        (Light.RED, {**GOOD, "red": {}}, "'red' is no state"),
        (Other.RED, GOOD, "Other.RED"),
        (Light.RED, {**GOOD, Light.RED: {Push.GO: Other.RED}}, "Other.RED"),
        (Light.RED, {**GOOD, Light.RED: {"go": Light.GREEN}}, "'go' is no event"),
        (Light.RED, {Light.RED: {Push.GO: Light.RED, Push.STOP: Light.RED}}, "Light.GREEN"),
        (Light.RED, {Light.RED: {Push.GO: Light.GREEN}}, "Push.STOP"),
    ],
)
def test_a_table_with_a_mistake_is_found_at_import(initial: Any, table: Any, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        Machine("light", Light, Push, initial, table)


def test_a_table_as_the_page_shows_it() -> None:
    light = Machine("light", Light, Push, Light.RED, {**GOOD, Light.GREEN: {Push.STOP: Light.GREEN}})
    text = format_table(light)
    assert text == (
        "| event | red   | green |\n"
        "| ----- | ----- | ----- |\n"
        "| go    | green | —     |\n"
        "| stop  | —     | green |\n"
        "\nBegins as red; never ends.\n"
    )
    page = "a\n<!-- machine: light -->\nold\n<!-- /machine -->\nb\n"
    filled = fill_tables(page, [light])
    assert filled == f"a\n<!-- machine: light -->\n\n{text}\n<!-- /machine -->\nb\n"
    assert fill_tables(filled, [light]) == filled


# The ledger runs on the thread and the sender.

A, B = Oid("a" * 40), Oid("b" * 40)
AT = parse_stamp("2026-02-05T14:00:07Z")
SIDES: list[tuple[str, Machine[Any, Any]]] = [(IN, THREAD), (OUT, SENDER)]
WALKS = st.sampled_from(SIDES).flatmap(
    lambda pair: st.tuples(st.just(pair), st.lists(st.sampled_from([e.value for e in pair[1].events]), max_size=15))
)
Walk = tuple[tuple[str, Machine[Any, Any]], list[str]]


def event(side: str, kind: str, head: Oid = A) -> Event:
    return Event(AT, side, kind, "x", head, {"branch": "pi/x"})


def stepped(machine: Machine[Any, Any], kinds: list[str]) -> str | None:
    """The open state after stepping through what fits; None when nothing is open."""
    state = machine.initial
    for kind in kinds:
        after = machine.after(state, machine.events(kind))
        state = machine.initial if after in machine.finals else after or state
    return None if state is machine.initial else str(state.value)


@given(WALKS)
def test_folding_any_history_is_stepping_through_what_fits(walk: Walk) -> None:
    (side, machine), kinds = walk
    items: Open = {}
    for kind in kinds:
        apply(items, event(side, kind))
    item = items.get((side, "x"))
    assert (item and item.state) == stepped(machine, kinds)


@given(WALKS)
def test_what_is_recorded_is_what_the_machine_has(walk: Walk) -> None:
    """A new event is refused exactly where the table has a dash."""
    (side, machine), kinds = walk
    items: Open = {}
    state = machine.initial
    for kind in kinds:
        after = machine.after(state, machine.events(kind))
        if after is None:
            before = dict(items)
            with pytest.raises(InvalidTransition, match=re.escape(f"pi/x: {kind!r}")):
                check(items, event(side, kind), "pi/x")
            apply(items, event(side, kind))
            assert items == before
            continue
        check(items, event(side, kind))
        apply(items, event(side, kind))
        state = machine.initial if after in machine.finals else after


@pytest.mark.parametrize(
    ("side", "opened", "kind"),
    [
        (IN, ["received"], "refused"),
        (IN, ["received"], "repeated"),
        (OUT, ["queued"], "deleted"),
        (OUT, ["queued"], "gone"),
        (OUT, ["adopted"], "gone"),
    ],
)
def test_what_speaks_of_another_head_fits_and_changes_nothing(side: str, opened: list[str], kind: str) -> None:
    items = fold_history(event(side, one) for one in opened)
    before = dict(items)
    check(items, event(side, kind, B))
    apply(items, event(side, kind, B))
    assert items == before


@pytest.mark.parametrize(
    ("history", "state"),
    [
        (["received", "enqueued", "claimed", "shown", "timed-out", "claimed", "dead"], Thread.DEAD),
        (["received", "enqueued", "claimed", "dead", "enqueued"], Thread.QUEUED),
        (["received", "enqueued", "claimed", "claimed"], Thread.CLAIMED),
        (["received", "enqueued", "claimed", "refreshed"], Thread.PENDING),
        (["received", "enqueued", "deferred", "enqueued"], Thread.DEFERRED),
        (["received", "enqueued", "deferred", "returned", "enqueued"], Thread.QUEUED),
        (["received", "enqueued", "claimed", "gone"], Thread.CLAIMED),
    ],
)
def test_a_thread_in_the_queue(history: list[str], state: Thread) -> None:
    """The field that names the queue item stays as long as there is one."""
    events = [Event(AT, IN, k, "x", A, {"input": "i"} if k == "enqueued" else {}) for k in history]
    item = fold_history(events)[(IN, "x")]
    assert item.state == state
    assert bool(item.get("input")) == (state in IN_QUEUE)


@pytest.mark.parametrize("history", [["queued", "answered"], ["queued", "answered", "deleting"]])
def test_a_confirmation_that_comes_after_the_answer_takes_nothing_back(history: list[str]) -> None:
    """Killed between the push and its confirmation, while the peer answers."""
    items = fold_history(event(OUT, kind) for kind in history)
    check(items, event(OUT, "delivered"))
    apply(items, event(OUT, "delivered"))
    assert items[(OUT, "x")].state == history[-1]


# The actor is what its files say.

FILES = list(itertools.product([False, True], repeat=4))


@pytest.mark.parametrize(
    ("files", "state"),
    [
        ("----", Actor.IDLE),
        ("---e", Actor.IDLE),
        ("--o-", Actor.IDLE),
        ("--oe", Actor.IDLE),
        ("-s--", Actor.IDLE),
        ("-s-e", Actor.IDLE),
        ("-so-", Actor.IDLE),
        ("-soe", Actor.IDLE),
        ("t---", Actor.INPUT_READY),
        ("t--e", Actor.TIMED_OUT),
        ("t-o-", Actor.OUTPUT_READY),
        ("t-oe", Actor.OUTPUT_READY),
        ("ts--", Actor.PROCESSING),
        ("ts-e", Actor.TIMED_OUT),
        ("tso-", Actor.OUTPUT_READY),
        ("tsoe", Actor.OUTPUT_READY),
    ],
)
def test_the_state_that_the_files_show(files: str, state: Actor) -> None:
    turn, shown, output, expired = (mark != "-" for mark in files)
    assert actor_state(turn=turn, shown=shown, output=output, expired=expired) is state


def after_files(files: tuple[bool, ...], act: ActorEvent) -> tuple[bool, ...]:
    """What an event does to turn, shown, output and the clock."""
    turn, shown, output, expired = files
    match act:
        case ActorEvent.PROMOTED:
            return (True, False, False, False)
        case ActorEvent.SHOWN:
            return (turn, True, output, expired)
        case ActorEvent.ANSWERED:
            return (turn, shown, True, expired)
        case ActorEvent.REJECTED:  # a new attempt: printed again, with time of its own
            return (True, False, False, False)
        case ActorEvent.EXPIRED:
            return (turn, shown, output, True)
        case ActorEvent.ARCHIVED | ActorEvent.WITHDRAWN:
            return (False, False, False, False)


def read_files(files: tuple[bool, ...]) -> Actor:
    return actor_state(**dict(zip(("turn", "shown", "output", "expired"), files, strict=True)))


@pytest.mark.parametrize("act", ActorEvent)
@pytest.mark.parametrize("files", FILES, ids=str)
def test_a_step_is_what_the_files_show_afterwards(files: tuple[bool, ...], act: ActorEvent) -> None:
    after = ACTOR.after(read_files(files), act)
    if after is not None:
        assert read_files(after_files(files, act)) is after


# The receiver says what a look means.


@pytest.mark.parametrize(
    ("state", "new", "same", "old"),
    [
        ("unseen", Step.NEW, None, None),
        ("refused", Step.NEW, None, None),
        ("present", Step.MOVED, Step.KNOWN, Step.MOVED),
        ("withdrawn", Step.MOVED, Step.REPEATED, Step.MOVED),
        ("settled", Step.REOPENED, Step.KNOWN, Step.REPEATED),
        ("gone", Step.REOPENED, Step.REPEATED, Step.REPEATED),
    ],
)
def test_what_a_look_means(state: str, new: Step, same: Step | None, old: Step | None) -> None:
    looks = (ReceiverEvent.NEW_HEAD, ReceiverEvent.SAME_HEAD, ReceiverEvent.OLD_HEAD)
    for look, step in zip(looks, (new, same, old), strict=True):
        if step is not None:
            assert read_step(Receiver(state), look) is step
            continue
        with pytest.raises(InvalidTransition):
            read_step(Receiver(state), look)


@pytest.mark.parametrize("act", [ReceiverEvent.REFUSED, ReceiverEvent.SETTLED, ReceiverEvent.VANISHED])
def test_what_is_no_look_means_nothing(act: ReceiverEvent) -> None:
    with pytest.raises(InvalidTransition):
        read_step(Receiver.PRESENT, act)


def test_states_of_the_open_file_are_words_of_the_ledger() -> None:
    """Files of hubs without a queue hold the words they always held."""
    assert [Thread.PENDING, Thread.DEFERRED, Thread.ASSIGNED] == ["received", "deferred", "assigned"]
    assert {Sender.QUEUED, Sender.ADOPTED, Sender.DELIVERED, Sender.ANSWERED, Sender.DELETING} == {
        "queued",
        "adopted",
        "delivered",
        "answered",
        "deleting",
    }
    assert RECEIVER.finals == frozenset()
