"""Which reflections are due, and when a thread of our own comes back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.agent.plan.reflections import (
    CONCERN_EVERY,
    by_period,
    due_reflections,
    is_due,
    is_worth_reflecting,
    level_below,
)
from cn.protocol.log import Row
from cn.protocol.own_thread import Own, new_own
from cn.protocol.queue_item import PERIODIC, Cadence, first_day, is_period, period, reflection_path
from cn.values.names import HubPath

D, W, M, Q, Y = PERIODIC
NOW = datetime(2026, 2, 5, 15, tzinfo=UTC)  # a Thursday, in week 6
days = st.dates(date(2000, 1, 10), date(2099, 12, 20))
moments = st.datetimes(datetime(2000, 1, 10), datetime(2099, 12, 20)).map(lambda t: t.replace(tzinfo=UTC))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


# Periods.


@pytest.mark.parametrize(
    ("cadence", "moment", "name", "first"),
    [
        (D, "2026-02-05T23:59:59", "20260205", date(2026, 2, 5)),
        (W, "2026-02-05", "2026-W06", date(2026, 2, 2)),
        (W, "2027-01-01", "2026-W53", date(2026, 12, 28)),
        (W, "2026-12-28", "2026-W53", date(2026, 12, 28)),
        (W, "2024-12-30", "2025-W01", date(2024, 12, 30)),
        (W, "2021-01-03", "2020-W53", date(2020, 12, 28)),
        (M, "2026-12-31", "2026-12", date(2026, 12, 1)),
        (Q, "2026-03-31", "2026-Q1", date(2026, 1, 1)),
        (Q, "2026-04-01", "2026-Q2", date(2026, 4, 1)),
        (Q, "2026-12-31", "2026-Q4", date(2026, 10, 1)),
        (Y, "2026-12-31", "2026", date(2026, 1, 1)),
    ],
)
def test_periods_at_their_borders(cadence: Cadence, moment: str, name: str, first: date) -> None:
    assert period(cadence, at(moment)) == name
    assert first_day(cadence, name) == first


@given(st.sampled_from(PERIODIC), moments, moments)
def test_periods_hold_their_days_and_sort_as_time_does(cadence: Cadence, a: datetime, b: datetime) -> None:
    name = period(cadence, a)
    assert is_period(cadence, name)
    begin = datetime.combine(first_day(cadence, name), time(), UTC)
    assert begin <= a
    assert period(cadence, begin) == name
    assert period(cadence, begin - timedelta(days=1)) < name
    assert (period(cadence, min(a, b)) <= period(cadence, max(a, b))) is True


@pytest.mark.parametrize(
    ("cadence", "name"),
    [
        (D, "2026-02-05"),
        (D, "20260230"),
        (D, "２０２６０２０５"),
        (W, "2026-W54"),
        (W, "2026-W00"),
        (M, "2026-13"),
        (Q, "2026-Q5"),
        (Y, "26"),
    ],
)
def test_a_name_that_is_no_period_has_no_first_day(cadence: Cadence, name: str) -> None:
    with pytest.raises(ValueError):
        first_day(cadence, name)


@pytest.mark.parametrize("cadence", [Cadence.INBOX, Cadence.ADHOC])
def test_what_has_no_periods_names_none(cadence: Cadence) -> None:
    assert not is_period(cadence, "20260205")
    with pytest.raises(ValueError):
        period(cadence, NOW)


def test_each_level_draws_on_the_one_below() -> None:
    assert [level_below(cadence) for cadence in PERIODIC] == [None, D, W, M, Q]


@pytest.mark.parametrize(
    ("cadence", "lower", "name"),
    [
        (D, "20260205", "20260205"),
        (W, "20260201", "2026-W05"),
        (W, "20260202", "2026-W06"),
        (W, "20270101", "2026-W53"),
        (M, "2026-W05", "2026-01"),  # Monday 26 January, Thursday the 29th
        (M, "2026-W01", "2026-01"),  # begins in December
        (M, "2026-W53", "2026-12"),  # ends in January
        (Q, "2026-03", "2026-Q1"),
        (Q, "2026-04", "2026-Q2"),
        (Y, "2026-Q4", "2026"),
    ],
)
def test_a_period_belongs_to_one_of_the_level_above(cadence: Cadence, lower: str, name: str) -> None:
    assert by_period(cadence, [lower]) == {name: [lower]}


# What is due.


def due(now: datetime = NOW, active: tuple[str, ...] = (), **written: tuple[str, ...]) -> list[tuple[str, str]]:
    by = {Cadence(key): names for key, names in written.items()}
    return [(cadence.value, name) for cadence, name in due_reflections(now, active, by)]


def test_a_day_is_due_when_it_is_over_and_no_later_one_is_written() -> None:
    assert due() == []
    assert due(active=("20260205",)) == []
    assert due(active=("20260204",)) == [("daily", "20260204")]
    # whether the one that is written was asked about stands in it
    assert due(active=("20260204",), daily=("20260204",)) == [("daily", "20260204")]
    assert due(active=("20260203",), daily=("20260204",)) == []
    assert due(at("2026-02-05T00:00:00"), active=("20260204",)) == [("daily", "20260204")]


def test_of_a_gap_only_the_latest_is_asked_about_and_never_what_is_long_past() -> None:
    assert due(active=("20260201", "20260203", "20260202")) == [("daily", "20260203")]
    assert due(active=("20260129",)) == [("daily", "20260129")]
    assert due(active=("20260128",)) == []


def test_at_the_end_of_a_year_every_level_comes_due_in_its_order() -> None:
    now = at("2027-01-04T08:00:00")  # Monday of week 1
    assert due(now, ("20270103",)) == [("daily", "20270103")]
    assert due(now, ("20270102",), daily=("20270103",)) == [("weekly", "2026-W53")]
    assert due(now, weekly=("2026-W53",)) == [("monthly", "2026-12")]
    assert due(now, monthly=("2026-12",)) == [("quarterly", "2026-Q4")]
    assert due(now, quarterly=("2026-Q4",)) == [("yearly", "2026")]
    assert due(now, yearly=("2026",)) == []
    lower = {"daily": ("20270103",), "weekly": ("2026-W53",), "monthly": ("2026-12",)}
    assert [cadence for cadence, _ in due(now, ("20270103",), **lower, quarterly=("2026-Q4",))] == [
        "daily",
        "weekly",
        "monthly",
        "quarterly",
        "yearly",
    ]


def test_a_period_that_runs_is_not_due() -> None:
    assert due(at("2027-01-03T08:00:00"), daily=("20270102",)) == []  # Sunday of week 53
    assert due(at("2026-12-31T23:59:59"), weekly=("2026-W52",)) == []
    assert due(at("2026-12-31T23:59:59"), monthly=("2026-11",), quarterly=("2026-Q3",)) == []


def test_names_that_people_made_up_are_left_out() -> None:
    assert due(active=("20260230", "notes", "2026020", ""), daily=("README", "20261301"), weekly=("W6",)) == []


@given(
    moments, st.frozensets(days, max_size=12), st.frozensets(st.tuples(st.sampled_from(PERIODIC), days), max_size=12)
)
def test_what_is_due_is_over_has_something_below_it_and_is_the_latest(
    now: datetime, active: frozenset[date], made: frozenset[tuple[Cadence, date]]
) -> None:
    active_days = [f"{day:%Y%m%d}" for day in active]
    written: Mapping[Cadence, list[str]] = {
        cadence: [period(cadence, datetime.combine(day, time(), UTC)) for c, day in made if c is cadence]
        for cadence in PERIODIC
    }
    found = due_reflections(now, active_days, written)
    assert [c for c, _ in found] == sorted({c for c, _ in found}, key=PERIODIC.index)
    for cadence, name in found:
        level = level_below(cadence)
        lower = active_days if level is None else written[level]
        assert name in by_period(cadence, lower)
        assert name < period(cadence, now)
        assert not [later for later in written[cadence] if later > name]
    assert len(found) == len({cadence for cadence, _ in found})


def row(source: str) -> Row:
    return Row(NOW, source, "received", "—")


@pytest.mark.parametrize(
    ("sources", "matter"),
    [
        ((), False),
        (("daily/20260204",), False),
        (("weekly/2026-W05", "monthly/2026-01", "quarterly/2025-Q4", "yearly/2025", "mca/x"), False),
        (("pi/proposal",), True),
        (("daily/20260204", "pi/proposal"), True),
        (("adhoc/20260204-x",), True),
        (("dailyx/y",), True),
        (("",), True),
    ],
)
def test_what_the_agenda_itself_brings_about_is_no_matter(sources: tuple[str, ...], matter: bool) -> None:
    assert is_worth_reflecting([row(source) for source in sources]) is matter


CONCERN = HubPath("state/mca/20260101-watch-0a1b2c3d.md")
WEEK = CONCERN_EVERY


def own(path: HubPath = CONCERN, opened: timedelta = WEEK, **fields: str) -> Own:
    made = new_own(path, "Watch", NOW - opened, "sigma")
    for name, value in fields.items():
        made = made.with_field(name, value)
    return made


@pytest.mark.parametrize(
    ("thread", "is_it"),
    [
        (own(), True),
        (own(opened=WEEK - timedelta(minutes=1)), False),
        (own(opened=timedelta(days=90), Asked="2026-02-04T15:00Z"), False),
        (own(opened=timedelta(days=90), Asked="2026-01-29T15:00Z"), True),
        (own(Input="20260205-150000-a1b2c3"), False),
        (own(State="done"), False),
        (own(State="assigned"), False),
        (own(State="deferred"), False),
        (own(State="deferred", Until="2026-02-05T15:00Z"), True),
        (own(State="deferred", Until="2026-02-05T15:01Z"), False),
        (own(State="deferred", Until="some day"), False),
        (own(State="deferred", Until="2026-02-05T15:00Z", Input="20260205-150000-a1b2c3"), False),
        (Own(CONCERN, "by hand", (), ""), True),
        (own(HubPath("threads/adhoc/20260101-x.md")), False),
        (own(HubPath("threads/adhoc/20260101-x.md"), State="deferred", Until="2026-02-01"), True),
        (own(reflection_path(D, "20260101")), False),
    ],
)
def test_a_thread_of_our_own_comes_back_when_its_time_has_come(thread: Own, is_it: bool) -> None:
    assert is_due(thread, NOW) is is_it
