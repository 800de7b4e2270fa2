"""Periods: named by UTC, sorted by name, ISO weeks around the new year."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.protocol.own_thread import is_own, own_source, parse_own
from cn.protocol.queue_item import PERIODIC, Cadence, first_day, is_period, period, reflection_path

cadences = st.sampled_from(PERIODIC)
zones = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(
    min_value=datetime(1970, 1, 5), max_value=datetime(9998, 12, 31), timezones=st.one_of(zones, st.just(UTC))
)


@pytest.mark.parametrize(
    ("day", "week"),
    [
        (date(2024, 12, 29), "2024-W52"),
        (date(2024, 12, 30), "2025-W01"),
        (date(2026, 12, 31), "2026-W53"),
        (date(2027, 1, 3), "2026-W53"),
        (date(2027, 1, 4), "2027-W01"),
        (date(2023, 1, 1), "2022-W52"),
    ],
)
def test_weeks_around_the_new_year(day: date, week: str) -> None:
    assert period(Cadence.WEEKLY, datetime.combine(day, time(12), UTC)) == week
    assert first_day(Cadence.WEEKLY, week) <= day


@pytest.mark.parametrize("month", range(1, 13))
def test_quarters(month: int) -> None:
    at = datetime(2026, month, 15, tzinfo=UTC)
    assert period(Cadence.QUARTERLY, at) == f"2026-Q{[1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4][month - 1]}"


def test_a_period_is_that_of_utc() -> None:
    at = datetime(2027, 1, 1, 1, 0, tzinfo=timezone(timedelta(hours=2)))
    assert [period(c, at) for c in PERIODIC] == ["20261231", "2026-W53", "2026-12", "2026-Q4", "2026"]


@given(cadences, moments, moments)
def test_names_sort_as_periods(cadence: Cadence, a: datetime, b: datetime) -> None:
    one, other = period(cadence, a), period(cadence, b)
    first, second = first_day(cadence, one), first_day(cadence, other)
    assert (one < other) == (first < second)
    assert (one == other) == (first == second)


@given(cadences, moments)
def test_a_period_begins_with_its_first_day(cadence: Cadence, at: datetime) -> None:
    name = period(cadence, at)
    begin = datetime.combine(first_day(cadence, name), time(), UTC)
    assert is_period(cadence, name)
    assert begin <= at
    assert period(cadence, begin) == name
    assert period(cadence, begin - timedelta(seconds=1)) != name


@given(cadences, moments)
def test_a_reflection_is_known_by_its_path(cadence: Cadence, at: datetime) -> None:
    path = reflection_path(cadence, period(cadence, at))
    assert is_own(path)
    assert parse_own(path, "").cadence is cadence
    assert own_source(path) == f"{cadence.value}/{period(cadence, at)}"


@given(st.sampled_from(list(Cadence)), st.text(max_size=10))
def test_any_text_is_a_period_or_none(cadence: Cadence, name: str) -> None:
    if is_period(cadence, name):
        assert period(cadence, datetime.combine(first_day(cadence, name), time(), UTC)) == name
    else:
        with pytest.raises(ValueError):
            first_day(cadence, name)


@pytest.mark.parametrize(
    ("cadence", "name"),
    [
        (Cadence.DAILY, "20260230"),
        (Cadence.DAILY, "２０２６０２０５"),
        (Cadence.WEEKLY, "2025-W53"),
        (Cadence.WEEKLY, "2026-W00"),
        (Cadence.MONTHLY, "2026-13"),
        (Cadence.QUARTERLY, "2026-Q5"),
        (Cadence.YEARLY, "0000"),
        (Cadence.ADHOC, "2026"),
    ],
)
def test_no_periods(cadence: Cadence, name: str) -> None:
    assert not is_period(cadence, name)


@pytest.mark.parametrize("cadence", [Cadence.INBOX, Cadence.ADHOC])
def test_what_has_no_periods(cadence: Cadence) -> None:
    with pytest.raises(ValueError, match="no periods"):
        period(cadence, datetime(2026, 2, 5, tzinfo=UTC))


def test_the_order_is_the_priority() -> None:
    assert [c.priority for c in Cadence] == list(range(7))
    assert Cadence.INBOX.priority < Cadence.DAILY.priority < Cadence.ADHOC.priority
