"""Plans of a turn: taken, answered, rejected, out of time, given up, tried again, taken out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cn.agent.plan.turns import (
    Failing,
    late_path,
    out_of_turn,
    plan_answered,
    plan_cleared,
    plan_inbox_input,
    plan_lapsed,
    plan_own_input,
    plan_promote,
    plan_rejected,
    plan_retry,
    plan_withdrawn,
    rests,
    source_of,
    time_limit,
)
from cn.protocol.effects import Archive, Drop, Effect, Log, Plan, Post, Put, Record, Wake, WriteHere
from cn.protocol.hub_config import HubConfig
from cn.protocol.ledger import IN, Item
from cn.protocol.own_thread import new_own, parse_own
from cn.protocol.queue_item import (
    INPUT,
    OUTPUT,
    TURN,
    Cadence,
    Input,
    Turn,
    dead_path,
    parse_input,
    parse_queued,
    parse_turn,
    queue_path,
)
from cn.values.errors import Refusal
from cn.values.names import HubPath, InputId, Name, Oid

AT = datetime(2026, 2, 5, 15, tzinfo=UTC)
LATER = AT + timedelta(minutes=16)
ID, NEXT = InputId("20260205-150000-a1b2c3"), InputId("20260205-160000-d4e5f6")
HEAD = Oid("1" * 40)
PI = Name("pi")
PATH = HubPath("threads/inbox/20260205-pi-proposal.md")
ASKED = Input(ID, "pi", Cadence.INBOX, AT, PATH, "proposal", HEAD)
MINE = Input(ID, "sigma", Cadence.DAILY, AT, HubPath("threads/reflections/daily/20260204.md"))
LOOSE = Input(ID, "sigma", Cadence.ADHOC, AT, HubPath(""), content="a question\nof two lines")
CONFIG = HubConfig(Name("sigma"))
WHY = [Refusal("known-peer", "no such peer", "name one"), Refusal("valid-output", "no text", "write")]


def ledger_item(**more: str) -> Item:
    fields = {"branch": "pi/proposal", "thread": "20260205-pi-proposal.md", "input": ID, **more}
    return Item(IN, "proposal", HEAD, "claimed", AT, fields)


def failing(now: datetime = LATER, attempts: int = 3, **told: str) -> Failing:
    return Failing(CONFIG._replace(max_attempts=attempts), now, ledger_item(**told), True)


def turn_of(asked: Input, attempt: int = 1, machine: str = "here") -> Turn:
    plan = plan_promote(replace(asked, attempts=attempt - 1), asked.content or "the content", machine, AT)
    return parse_turn(puts(plan)[TURN].encode())


def puts(plan: Plan) -> dict[HubPath, str]:
    return {e.path: e.text for e in plan.effects if isinstance(e, Put)}


def drops(plan: Plan) -> set[str]:
    gone = [e for e in plan.effects if isinstance(e, WriteHere) and e.data is None]
    assert all(e.path == OUTPUT and e.was for e in gone), "only what was read is removed"
    return {e.path for e in (*plan.effects, *gone) if isinstance(e, Drop | WriteHere)}


def kinds(plan: Plan) -> list[str]:
    return [e.event.kind for e in plan.effects if isinstance(e, Record)]


def posts(plan: Plan) -> list[str]:
    return [e.message.about.status for e in plan.effects if isinstance(e, Post) and e.message.about]


def archives(plan: Plan) -> dict[str, bytes]:
    return {e.path: e.data for e in plan.effects if isinstance(e, Archive)}


def wakes(plan: Plan) -> list[Effect]:
    return [e for e in plan.effects if isinstance(e, Wake)]


def outcomes(plan: Plan) -> list[str]:
    return [e.row.outcome for e in plan.effects if isinstance(e, Log)]


@pytest.mark.parametrize(("period", "cycles", "limit"), [(5, 3, 15), (1, 1, 1), (60, 24, 1440)])
def test_the_limit_of_a_turn_is_the_period_times_the_cycles(period: int, cycles: int, limit: int) -> None:
    config = CONFIG._replace(cron_period_min=period, timeout_cycles=cycles)
    assert time_limit(config) == timedelta(minutes=limit)
    turn = turn_of(ASKED)
    assert not turn.expired(AT + timedelta(minutes=limit), time_limit(config))
    assert turn.expired(AT + timedelta(minutes=limit, seconds=1), time_limit(config))


def test_a_pending_thread_waits_and_its_item_is_in_the_ledger() -> None:
    plan = plan_inbox_input(PI, ledger_item(), ID, AT)
    assert parse_queued(puts(plan)[queue_path(ASKED)].encode()) == ASKED
    assert kinds(plan) == ["enqueued"]
    (event,) = [e.event for e in plan.effects if isinstance(e, Record)]
    assert (event.topic, event.head, event.fields["input"]) == ("proposal", HEAD, ID)


def test_a_thread_of_our_own_names_the_item_that_stands_for_it() -> None:
    own = new_own(MINE.path, "Daily reflection", AT, "sigma").with_field("State", "deferred")
    plan = plan_own_input(own.with_field("Until", "2026-02-05"), Name("sigma"), ID, AT)
    assert parse_queued(puts(plan)[queue_path(MINE)].encode()) == MINE
    marked = parse_own(own.path, puts(plan)[own.path])
    assert (marked.state, marked.get("Input"), marked.until, marked.asked) == ("open", ID, None, AT)


@pytest.mark.parametrize("asked", [ASKED, MINE, LOOSE])
def test_the_turn_holds_exactly_what_the_agent_gets(asked: Input) -> None:
    plan = plan_promote(asked, asked.content or "the content", "here", AT)
    turn = parse_turn(puts(plan)[TURN].encode())
    assert turn.text == puts(plan)[INPUT]
    assert (turn.machine, turn.attempt, turn.since) == ("here", 1, AT)
    assert drops(plan) == {queue_path(asked)}
    assert kinds(plan) == (["claimed"] if asked.topic else [])
    assert len(wakes(plan)) == 1


def test_an_attempt_after_a_time_out_is_counted_on() -> None:
    plan = plan_promote(replace(ASKED, attempts=2, reason="no answer"), "x", "here", AT)
    assert parse_turn(puts(plan)[TURN].encode()).attempt == 3
    assert "attempt: 3\nrejected: no answer\n" in puts(plan)[INPUT]


def test_an_answer_is_archived_before_anything_of_it_is_done_and_ends_the_turn() -> None:
    done = Plan("pi/proposal", (Drop(PATH),))
    turn = turn_of(ASKED)
    plan = plan_answered(turn, b"output\xff", done)
    assert isinstance(plan.effects[0], Archive)
    assert isinstance(plan.effects[1], Archive)
    assert plan.effects[2] == Drop(PATH)
    assert archives(plan) == {f"logs/input/{ID}.md": turn.text.encode(), f"logs/output/{ID}.md": b"output\xff"}
    assert drops(plan) == {PATH, TURN, INPUT, OUTPUT}


@pytest.mark.parametrize("asked", [ASKED, MINE, LOOSE])
def test_a_rejected_output_leaves_the_input_and_says_why(asked: Input) -> None:
    turn = turn_of(asked)
    facts = failing() if asked.topic else Failing(CONFIG, LATER)
    plan = plan_rejected(turn, b"bad", WHY, facts)
    assert archives(plan)[f"logs/output/{ID}.md"] == b"bad"
    assert drops(plan) == {OUTPUT}, "the input stays, and nothing waits that could go"
    again = parse_turn(puts(plan)[TURN].encode())
    assert (again.attempt, again.machine, again.since, again.trigger) == (2, "here", LATER, f"{ID}-2")
    assert again.text == puts(plan)[INPUT]
    assert "rejected: known-peer: no such peer; valid-output: no text" in again.text
    assert parse_input(again.text).content == parse_input(turn.text).content
    assert posts(plan) == [], "the creator need not know of it"
    assert outcomes(plan) == ["rejected"]
    assert kinds(plan) == (["refused", "claimed"] if asked.topic else [])
    assert len(wakes(plan)) == 1


@pytest.mark.parametrize(("attempt", "dead"), [(1, False), (2, False), (3, True), (4, True)])
def test_the_last_attempt_makes_a_dead_letter(attempt: int, dead: bool) -> None:
    turn = turn_of(ASKED, attempt)
    rejected = plan_rejected(turn, b"bad", WHY, failing())
    lapsed = plan_lapsed(turn, failing())
    for plan in (rejected, lapsed):
        assert (dead_path(ASKED) in puts(plan)) is dead
        assert (kinds(plan)[-1] == "dead") is dead or "refused" in kinds(plan)
        if dead:
            letter = parse_queued(puts(plan)[dead_path(ASKED)].encode())
            assert letter.attempts == attempt
            assert letter.reason
            assert {TURN, INPUT} <= drops(plan)
            assert TURN not in puts(plan)
            assert not wakes(plan)
            assert outcomes(plan)[-1] == "dead"
    assert posts(rejected) == (["failed"] if dead else [])
    assert posts(lapsed) == ["timed-out"]


def test_a_turn_out_of_time_is_archived_without_output_and_lets_others_pass() -> None:
    turn = turn_of(ASKED)
    plan = plan_lapsed(turn, failing())
    assert list(archives(plan)) == [f"logs/input/{ID}.md"]
    waiting = parse_queued(next(text for path, text in puts(plan).items() if "queue" in path).encode())
    assert (waiting.id, waiting.attempts) == (ID, 1)
    assert waiting.reason == "no answer in 16m (attempt 1 of 3)"
    assert queue_path(waiting) != queue_path(ASKED)
    assert queue_path(waiting) in puts(plan)
    assert {TURN, INPUT} <= drops(plan)
    assert OUTPUT not in drops(plan)


def test_attempts_rest_longer_and_longer_and_a_clock_that_went_backwards_ends_it() -> None:
    for attempts, minutes in ((1, 2), (2, 8), (3, 32)):
        asked = replace(ASKED, attempts=attempts, reason=f"x (attempt {attempts} of 3)", queued=AT)
        assert rests(asked, AT)
        assert rests(asked, AT + timedelta(minutes=minutes, seconds=-1))
        assert not rests(asked, AT + timedelta(minutes=minutes))
        assert not rests(asked, AT - timedelta(seconds=1))
    assert not rests(replace(ASKED, attempts=1, reason="rejected", queued=AT), AT), "it is given at once"
    assert not rests(replace(ASKED, queued=AT), AT)


def test_what_the_models_server_said_is_told_to_no_correspondent() -> None:
    chat = replace(LOOSE, sender="telegram:42")
    for attempt in (1, 3):
        turn = turn_of(chat, attempt)
        (said,) = [text for text in puts(plan_lapsed(turn, failing(), "credit")).values() if "(no answer: " in text]
        assert "credit" not in said
        plan = plan_lapsed(turn_of(ASKED, attempt), failing(), "credit")
        told = [e.message.body for e in plan.effects if isinstance(e, Post)]
        assert told
        assert not any("credit" in body or "in time" in body for body in told)


def test_the_creator_is_told_once_a_head() -> None:
    turn = turn_of(ASKED, 2)
    assert posts(plan_lapsed(turn, failing())) == ["timed-out"]
    assert posts(plan_lapsed(turn, failing(waits=HEAD))) == []
    assert posts(plan_lapsed(turn, failing(waits="2" * 40))) == ["timed-out"]
    assert posts(plan_rejected(turn_of(ASKED, 3), b"", WHY, failing(waits=HEAD))) == []


def test_nobody_is_told_where_there_is_no_creator_or_none_we_know() -> None:
    assert posts(plan_lapsed(turn_of(MINE), Failing(CONFIG, LATER))) == []
    assert posts(plan_lapsed(turn_of(ASKED), replace(failing(), known_peer=False))) == []


def test_what_is_no_file_keeps_its_words_through_every_failure() -> None:
    words = LOOSE.content
    lapsed = plan_lapsed(turn_of(LOOSE), Failing(CONFIG, LATER))
    waiting = parse_queued(next(text for path, text in puts(lapsed).items()).encode())
    assert waiting.content.strip("\n") == words
    dead = plan_rejected(turn_of(LOOSE, 3), b"", WHY, Failing(CONFIG, LATER))
    letter = parse_queued(puts(dead)[dead_path(LOOSE)].encode())
    assert letter.content.strip("\n") == words
    again = plan_retry(letter, NEXT, LATER)
    assert parse_queued(puts(again)[queue_path(replace(LOOSE, id=NEXT))].encode()).content.strip("\n") == words


def test_a_retried_item_has_all_its_attempts_and_a_new_name() -> None:
    letter = replace(ASKED, attempts=3, reason="no such peer")
    plan = plan_retry(letter, NEXT, LATER)
    assert drops(plan) == {dead_path(letter)}
    fresh = parse_queued(puts(plan)[queue_path(replace(ASKED, id=NEXT))].encode())
    assert (fresh.id, fresh.attempts, fresh.queued, fresh.path, fresh.head) == (NEXT, 0, LATER, PATH, HEAD)
    assert kinds(plan) == ["enqueued"]
    own = new_own(MINE.path, "Daily", AT, "sigma").with_field("Input", ID)
    plan = plan_retry(replace(MINE, attempts=3), NEXT, LATER, own)
    assert parse_own(own.path, puts(plan)[own.path]).get("Input") == NEXT


def test_what_is_cleared_can_be_brought_back() -> None:
    plan = plan_cleared(ASKED, LATER)
    assert drops(plan) == {queue_path(ASKED)}
    letter = parse_queued(puts(plan)[dead_path(ASKED)].encode())
    assert (letter.id, letter.attempts, letter.reason) == (ID, 0, "taken out of the queue")
    assert kinds(plan) == ["dead"]
    assert posts(plan) == []


def test_what_is_withdrawn_leaves_no_turn_and_no_input() -> None:
    assert drops(plan_withdrawn(turn_of(ASKED))) == {TURN, INPUT}


@pytest.mark.parametrize(("nth", "name"), [(1, f"logs/output/{ID}-late.md"), (2, f"logs/output/{ID}-late-2.md")])
def test_a_late_output_is_kept_and_does_nothing(nth: int, name: str) -> None:
    plan = out_of_turn(b"late\xff", ID, LATER, "nothing is in flight", nth)
    assert late_path(ID, nth) == name
    assert archives(plan) == {name: b"late\xff"}
    assert drops(plan) == {OUTPUT}
    assert [type(e) for e in plan.effects] == [Archive, Log, WriteHere]
    assert outcomes(plan) == ["late"]


@pytest.mark.parametrize(("asked", "source"), [(ASKED, "pi/proposal"), (MINE, "daily/20260204"), (LOOSE, "sigma")])
def test_an_item_is_called_by_its_branch_its_thread_or_its_sender(asked: Input, source: str) -> None:
    assert source_of(asked) == source
