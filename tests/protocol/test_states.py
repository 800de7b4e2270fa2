"""Four closed machines: every pair of state and event, and what runs on them."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.protocol.ledger import IN, OUT, Event, Open, apply, check, fold_history
from cn.protocol.states import (
    ACTOR,
    IN_QUEUE,
    NONE,
    RECEIVER,
    SENDER,
    THREAD,
    Actor,
    InvalidTransition,
    Machine,
    Step,
    actor_state,
    read_step,
)
from cn.values.errors import CnError
from cn.values.names import Oid
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
        noticed   | none     | -        | -        | -        | -        | -        | -        | -
        deferred  | -        | deferred | deferred | deferred | deferred | deferred | deferred | -
        returned  | -        | -        | received | received | -        | -        | -        | -
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
        queued    | queued  | queued    | queued    | queued    | queued   | -        | -       | -
        adopted   | adopted | adopted   | adopted   | adopted   | adopted  | adopted  | -       | -
        delivered | none    | delivered | delivered | delivered | answered | deleting | -       | -
        answered  | none    | answered  | answered  | answered  | answered | deleting | -       | -
        deleting  | -       | deleting  | deleting  | deleting  | deleting | deleting | -       | -
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
MACHINES = (THREAD, ACTOR, SENDER, RECEIVER)
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
def test_every_pair_of_state_and_event(machine: Machine, state: str, event: str, after: str) -> None:
    if after != "-":
        assert machine.after.get((state, event)) == machine.step(state, event) == after
        return
    assert machine.after.get((state, event)) is None
    with pytest.raises(InvalidTransition) as caught:
        machine.step(state, event, "pi/proposal")
    error = caught.value
    for word in ("pi/proposal: ", machine.name, repr(state), repr(event)):
        assert word in error.text
    assert isinstance(error, CnError)
    assert "bug in cn" in error.hint


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_the_tables_above_leave_nothing_out(machine: Machine) -> None:
    assert set(pairs(machine.name)) == set(itertools.product((*machine.states, *machine.finals), machine.events))
    assert machine.states[0] == INITIAL[machine.name]
    assert set(machine.finals) == FINALS[machine.name]


# A table is checked when it is made.


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ("| e | red | green |\n|-|-|-|\n| go | green | blue |", "a cell is no state"),
        ("| e | red | green |\n|-|-|-|\n| go | red | — |", "nothing leads to a state"),
        ("| e | red | green |\n|-|-|-|\n| go | green |", "shorter"),
    ],
)
def test_a_table_with_a_mistake_is_found_at_import(table: str, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        Machine("light", table)


# The ledger runs on the thread and the sender.

A, B = Oid("a" * 40), Oid("b" * 40)
AT = parse_stamp("2026-02-05T14:00:07Z")
SIDES: list[tuple[str, Machine]] = [(IN, THREAD), (OUT, SENDER)]
WALKS = st.sampled_from(SIDES).flatmap(
    lambda pair: st.tuples(st.just(pair), st.lists(st.sampled_from(pair[1].events), max_size=15))
)
Walk = tuple[tuple[str, Machine], list[str]]


def event(side: str, kind: str, head: Oid = A) -> Event:
    return Event(AT, side, kind, "x", head, {"branch": "pi/x"})


def stepped(machine: Machine, kinds: list[str]) -> str | None:
    """The open state after stepping through what fits; None when nothing is open."""
    state = NONE
    for kind in kinds:
        after = machine.after.get((state, kind))
        state = NONE if after in machine.finals else after or state
    return None if state == NONE else state


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
    state = NONE
    for kind in kinds:
        after = machine.after.get((state, kind))
        if after is None:
            before = dict(items)
            with pytest.raises(InvalidTransition, match=re.escape(f"pi/x: {kind!r}")):
                check(items, event(side, kind), "pi/x")
            apply(items, event(side, kind))
            assert items == before
            continue
        check(items, event(side, kind))
        apply(items, event(side, kind))
        state = NONE if after in machine.finals else after


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
        (["received", "enqueued", "claimed", "shown", "timed-out", "claimed", "dead"], "dead"),
        (["received", "enqueued", "claimed", "dead", "enqueued"], "queued"),
        (["received", "enqueued", "claimed", "claimed"], "claimed"),
        (["received", "enqueued", "claimed", "refreshed"], "received"),
        (["received", "enqueued", "deferred", "enqueued"], "deferred"),
        (["received", "enqueued", "deferred", "returned", "enqueued"], "queued"),
        (["received", "enqueued", "claimed", "gone"], "claimed"),
    ],
)
def test_a_thread_in_the_queue(history: list[str], state: str) -> None:
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


def after_files(files: tuple[bool, ...], act: str) -> tuple[bool, ...]:
    """What an event does to turn, shown, output and the clock."""
    turn, shown, output, expired = files
    match act:
        case "promoted":
            return (True, False, False, False)
        case "shown":
            return (turn, True, output, expired)
        case "answered":
            return (turn, shown, True, expired)
        case "rejected":  # a new attempt: printed again, with time of its own
            return (True, False, False, False)
        case "expired":
            return (turn, shown, output, True)
        case _:  # archived, withdrawn
            return (False, False, False, False)


def read_files(files: tuple[bool, ...]) -> Actor:
    return actor_state(**dict(zip(("turn", "shown", "output", "expired"), files, strict=True)))


@pytest.mark.parametrize("act", ACTOR.events)
@pytest.mark.parametrize("files", FILES, ids=str)
def test_a_step_is_what_the_files_show_afterwards(files: tuple[bool, ...], act: str) -> None:
    after = ACTOR.after.get((read_files(files), act))
    if after is not None:
        assert read_files(after_files(files, act)) == after


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
    looks = ("new head", "same head", "old head")
    for look, step in zip(looks, (new, same, old), strict=True):
        if step is not None:
            assert read_step(state, look) is step
            continue
        with pytest.raises(InvalidTransition):
            read_step(state, look)


@pytest.mark.parametrize("act", ["refused", "settled", "vanished"])
def test_what_is_no_look_means_nothing(act: str) -> None:
    with pytest.raises(InvalidTransition):
        read_step("present", act)


def test_only_a_decision_ends_a_thread() -> None:
    """So it leaves the inbox by ``done/`` alone, with a record of who ended it and why."""
    assert {event for (_, event), after in THREAD.after.items() if after in THREAD.finals} == {"decided"}
