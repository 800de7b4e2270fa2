"""Tokens are counted, priced where the price is known, and stop a loop."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.llm.config import Budget, Budgets
from cn.llm.request import Answer, Failure, Kind, Stop, Usage
from cn.llm.usage import (
    ASKED,
    LOOKED_UP,
    PRICES,
    Call,
    Tiers,
    budget_since,
    check_budgets,
    cost,
    end_call,
    format_call,
    parse_call,
    price_of,
    sum_calls,
    sum_usage,
)
from cn.protocol.log import Row, format_event
from cn.values.timestamps import parse_stamp

NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)
MODEL = "claude-sonnet-5-5"


def call(at: datetime = NOW, peer: str = "pi", tokens: int = 1000, **changes: object) -> Call:
    usage = Usage(tokens)
    made = Call(at, "20260205-143000-3f2a9c", f"{peer}/x", peer, MODEL, usage, cost(usage, MODEL), 1.5, "end_turn")
    return replace(made, **changes)  # type: ignore[arg-type]


# Prices.


def test_every_part_of_the_usage_has_its_price() -> None:
    million = 1_000_000
    assert cost(Usage(million), MODEL) == 2
    assert cost(Usage(0, million), MODEL) == 10
    assert cost(Usage(0, 0, million), MODEL) == 0.1
    assert cost(Usage(0, 0, 0, million), MODEL) == 2.5
    assert cost(Usage(1200, 350, 6400), MODEL) == 0.00654


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-sonnet-4-5-20250929", "claude-sonnet-4-5-latest"])
def test_a_date_does_not_change_the_price(model: str) -> None:
    assert price_of(model) == PRICES["claude-sonnet-4-5"]


@pytest.mark.parametrize("model", ["", "claude-opus-9", "claude-sonnet-5-50", "claude-sonnet-5-5-fast", "gpt", "\n"])
def test_an_unknown_model_has_no_cost_which_is_not_nothing(model: str) -> None:
    assert cost(Usage(1, 1), model) is None


def test_a_long_request_of_a_tiered_model_costs_more_throughout() -> None:
    assert cost(Usage(100_000, 1000), "claude-haiku-5-5") == 0.0105
    assert cost(Usage(1, 1000, 100_000), "claude-haiku-5-5") == 0.0075005


def test_prices_are_plausible() -> None:
    parse_stamp(LOOKED_UP)
    for found in PRICES.values():
        for price in (found.short, found.long) if isinstance(found, Tiers) else (found,):
            assert price.output == pytest.approx(price.input * 5)
            assert price.cache_write == pytest.approx(price.input * 1.25)
            assert 0 < price.cache_read <= price.input / 10 + 1e-9


# Events.

TEXT = st.text(max_size=20)
CALLS = st.builds(
    Call,
    st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)).map(
        lambda at: at.replace(microsecond=0)
    ),
    TEXT,
    TEXT,
    st.sampled_from(["", "pi", "omega"]),
    st.sampled_from([MODEL, "other"]),
    st.builds(Usage, *[st.integers(0, 10**6)] * 4),
    st.none() | st.floats(0, 100),
    st.floats(0, 1000),
    st.sampled_from([*(s.value for s in Stop), *(k.value for k in Kind)]),
    st.integers(0, 4),
    st.booleans(),
)


@given(CALLS)
def test_a_call_is_read_as_it_is_written(made: Call) -> None:
    line = format_call(made)
    assert line.isascii()
    assert "\n" not in line
    if "://" not in made.input + made.source:  # credentials of URLs are taken out
        assert parse_call(line) == made


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff",
        b"{}",
        b"[]",
        b'{"event": "model"}',
        b'{"event": "model", "time": "yesterday"}',
        b'{"event": "model", "time": "2026-02-05T14:00:00Z", "seconds": "NaN"}',
        b'{"event": "model", "time": "2026-02-05T14:00:00Z", "input_tokens": 1e999}',
        format_event(Row(NOW, "pi/x", "do:merge")).encode(),
    ],
)
def test_every_other_line_is_none(line: bytes) -> None:
    assert parse_call(line) is None


def test_an_answer_and_a_failure_become_calls() -> None:
    answer = Answer("hi", Stop.MAX_TOKENS, Usage(10, 2), MODEL, "msg_1", 2.0, 2, unknown=True)
    begun = call(model="alias", stop=ASKED)
    made = end_call(begun, answer, NOW)
    assert (made.model, made.stop, made.attempts, made.unknown, made.failed) == (MODEL, "max_tokens", 2, True, False)
    assert made.cost == cost(answer.usage, MODEL)
    failed = end_call(begun, Failure(Kind.OVERLOADED, "no", attempts=4), NOW)
    assert (failed.model, failed.stop, failed.attempts, failed.failed) == ("alias", "overloaded", 4, True)


def test_an_unpriced_call_has_no_cost_in_the_log() -> None:
    assert "cost" not in json.loads(format_call(call(cost=None)))
    assert json.loads(format_call(call(cost=0.0)))["cost"] == 0


# Sums.


def test_sums_by_day_go_from_the_oldest_on() -> None:
    calls = [call(NOW), call(NOW - timedelta(days=1)), call(NOW - timedelta(hours=1))]
    assert [(s.key, s.calls) for s in sum_usage(calls, "day")] == [("2026-02-04", 1), ("2026-02-05", 2)]


def test_sums_by_peer_begin_with_who_used_most() -> None:
    calls = [call(peer="pi"), call(peer="omega", tokens=5000), call(peer="")]
    assert [(s.key, s.usage.tokens) for s in sum_usage(calls, "peer")] == [("omega", 5000), ("", 1000), ("pi", 1000)]


def test_the_hit_rate_is_of_the_whole_input() -> None:
    calls = [call(usage=Usage(100, 9, 0, 300)), call(usage=Usage(100, 9, 300, 0))]
    assert sum_calls(calls).cache_hit_rate == 300 / 800
    assert sum_calls([]).cache_hit_rate is None


def test_what_has_no_price_is_counted_and_not_added_as_nothing() -> None:
    total = sum_calls([call(cost=None), call(cost=0.5), call(cost=None, usage=Usage(), stop="auth")])
    assert (total.cost, total.unpriced, total.failed) == (0.5, 1, 1)
    assert sum_calls([call(cost=None)]).cost is None


@given(st.lists(CALLS, max_size=8), st.sampled_from(["day", "peer"]))
def test_no_call_is_lost_in_the_sums(calls: list[Call], by: str) -> None:
    rows = sum_usage(calls, "day" if by == "day" else "peer")
    assert sum(row.calls for row in rows) == len(calls)
    assert sum(row.usage.tokens for row in rows) == sum_calls(calls).usage.tokens


# Budgets.


def test_without_budgets_nothing_stops() -> None:
    assert check_budgets([call(tokens=10**9)] * 100, Budgets(), "pi", NOW) == ""


def test_the_tokens_of_the_utc_day_count() -> None:
    budgets = Budgets(Budget(tokens_per_day=2000))
    earlier = call(NOW - timedelta(days=1))
    assert check_budgets([earlier, call(tokens=1999)], budgets, "pi", NOW) == ""
    told = check_budgets([earlier, call(), call()], budgets, "omega", NOW)
    assert told == ("2000 of 2000 tokens are used today (budgets.tokens_per_day): no call until 2026-02-06T00:00Z")


def test_cached_input_and_output_count_too() -> None:
    used = call(usage=Usage(1, 10, 100, 1000))
    assert check_budgets([used], Budgets(Budget(tokens_per_day=1112)), "pi", NOW) == ""
    assert check_budgets([used], Budgets(Budget(tokens_per_day=1111)), "pi", NOW)


def test_the_turns_of_the_last_hour_count_failed_ones_too() -> None:
    budgets = Budgets(Budget(turns_per_hour=2))
    old, one, two = (NOW - timedelta(minutes=m) for m in (60, 59, 5))
    failed = call(two, usage=Usage(), stop="overloaded")
    assert check_budgets([call(old), call(one)], budgets, "pi", NOW) == ""
    told = check_budgets([call(old), call(one), failed], budgets, "pi", NOW)
    assert told.endswith("(budgets.turns_per_hour): no call until 2026-02-05T14:31Z")


@given(st.lists(st.integers(0, 7200), max_size=12), st.integers(1, 4))
def test_at_the_time_told_the_call_is_possible(ages: list[int], turns: int) -> None:
    budgets = Budgets(Budget(turns_per_hour=turns))
    calls = [call(NOW - timedelta(seconds=age)) for age in ages]
    told = check_budgets(calls, budgets, "pi", NOW)
    if told:
        until = parse_stamp(told.rpartition("until ")[2])
        assert until > NOW
        assert check_budgets(calls, budgets, "pi", until) == ""


def test_each_peer_has_its_own_budget() -> None:
    budgets = Budgets(each=Budget(tokens_per_day=1000, turns_per_hour=10))
    assert check_budgets([call(peer="pi")], budgets, "omega", NOW) == ""
    told = check_budgets([call(peer="pi")], budgets, "pi", NOW)
    assert told.startswith("1000 of 1000 tokens are used today by pi (budgets.per_peer.tokens_per_day)")


@pytest.mark.parametrize(
    ("budgets", "key"),
    [
        (Budgets(Budget(tokens_per_day=0)), "budgets.tokens_per_day"),
        (Budgets(Budget(turns_per_hour=0)), "budgets.turns_per_hour"),
        (Budgets(each=Budget(turns_per_hour=0)), "budgets.per_peer.turns_per_hour"),
    ],
)
def test_a_budget_of_nothing_allows_nothing(budgets: Budgets, key: str) -> None:
    assert check_budgets([], budgets, "pi", NOW) == f"{key} is 0: no call is made"


@pytest.mark.parametrize("minute", [10, 90])
def test_what_must_be_read_for_budgets_covers_day_and_hour(minute: int) -> None:
    now = datetime(2026, 2, 5, tzinfo=UTC) + timedelta(minutes=minute)
    assert budget_since(now) <= now - timedelta(hours=1)
    assert budget_since(now) <= datetime(2026, 2, 5, tzinfo=UTC)


# What was sent, and replays.


def test_a_call_keeps_what_was_sent_and_that_it_was_a_replay() -> None:
    sent = (("preamble", 1180), ("skill review", 40), ("item", 9))
    made = call(trigger="20260205-143000-3f2a9c-2", main="a" * 40, parts=sent, replay=True)
    assert parse_call(format_call(made)) == made
    assert "parts" not in format_call(call())


@pytest.mark.parametrize("parts", ["x", 7, [["a"]], [["a", "b"]], {"a": 1}])
def test_sizes_that_cannot_be_read_do_not_hide_what_was_paid(parts: object) -> None:
    line = format_call(call(parts=(("item", 9),))).replace('[["item", 9]]', json.dumps(parts))
    found = parse_call(line)
    assert found == call()


def test_replays_are_counted_in_the_sums() -> None:
    assert sum_calls([call(), call(replay=True)]).replays == 1


@given(st.text(max_size=60), st.sampled_from(["", '&key=a"b', ';token=q"z', "?key=\\"]))
def test_no_name_takes_a_call_out_of_the_account(text: str, more: str) -> None:
    """Of a branch, which a peer chooses, or of a model, which a server answers."""
    made = replace(call(), source=f"pi/{text}{more}", model=f"claude{more}{text}")
    found = parse_call(format_call(made))
    assert found is not None
    assert (found.usage, found.peer) == (made.usage, made.peer)
