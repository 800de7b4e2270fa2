"""Points in time, all UTC, whatever zone the machine or the writer is in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cn.values.timestamps import (
    StampRefused,
    format_age,
    format_day,
    format_second,
    format_stamp,
    from_raw,
    parse_since,
    parse_stamp,
    parse_until,
)

NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)
zones = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(
    min_value=datetime(2, 1, 1), max_value=datetime(9998, 12, 31), timezones=st.one_of(zones, st.just(UTC))
)


@given(moments)
def test_stamp_round_trip(at: datetime) -> None:
    minute = at.astimezone(UTC).replace(second=0, microsecond=0)
    assert parse_stamp(format_stamp(at)) == minute
    assert format_stamp(parse_stamp(format_stamp(at))) == format_stamp(at)


@given(moments)
def test_second_round_trip(at: datetime) -> None:
    assert parse_stamp(format_second(at)) == at.replace(microsecond=0)


@given(moments)
def test_a_day_is_the_day_of_the_stamp(at: datetime) -> None:
    assert format_day(at) == format_stamp(at)[:10].replace("-", "")
    assert len(format_day(at)) == 8


@pytest.mark.parametrize(
    ("raw", "date"),
    [
        ("1700000000 +0000", "2023-11-14T22:13:20+00:00"),
        ("1700000000 -0330", "2023-11-14T18:43:20-03:30"),
        ("0 -1200", "1969-12-31T12:00:00-12:00"),
        ("1700000000 -9959", "2023-11-14T22:13:20+00:00"),
        ("99999999999999 +0000", "9999-12-31T23:59:59+00:00"),
        ("253402300799 +1400", "9999-12-31T23:59:59+00:00"),
        ("x", "1970-01-01T00:00:00+00:00"),
    ],
)
def test_a_commits_date_is_shown_with_its_zone_whatever_it_is(raw: str, date: str) -> None:
    assert from_raw(raw) == date


@given(moments, moments)
def test_stamps_sort_as_their_times(a: datetime, b: datetime) -> None:
    assert (format_second(a) < format_second(b)) == (a.replace(microsecond=0) < b.replace(microsecond=0))


def test_the_forms_in_use() -> None:
    at = datetime(2026, 2, 5, 14, 0, 7, tzinfo=UTC)
    assert format_stamp(at) == "2026-02-05T14:00Z"
    assert format_second(at) == "2026-02-05T14:00:07Z"
    assert format_day(at) == "20260205"


@pytest.mark.parametrize(
    ("text", "stamp"),
    [
        ("2026-02-05T15:00Z", "2026-02-05T15:00Z"),
        (" 2026-02-05T15:00Z\n", "2026-02-05T15:00Z"),
        ("2026-02-05", "2026-02-05T00:00Z"),
        ("2026-02-05T15:00", "2026-02-05T15:00Z"),
        ("2026-02-05 15:00", "2026-02-05T15:00Z"),
        ("2026-02-05T15:00:59.5Z", "2026-02-05T15:00Z"),
        ("2026-02-05T15:00+02:00", "2026-02-05T13:00Z"),
        ("2026-02-05T23:30-01:00", "2026-02-06T00:30Z"),
    ],
)
def test_parse_stamp(text: str, stamp: str) -> None:
    assert format_stamp(parse_stamp(text)) == stamp


@pytest.mark.parametrize(
    "text",
    ["", "now", "tomorrow", "2026-13-01", "2026-02-30", "5.2.2026", "15:00", "2026-02-05T25:00Z", "２０２６-02-05"],
)
def test_no_time(text: str) -> None:
    with pytest.raises(StampRefused) as caught:
        parse_stamp(text)
    assert caught.value.hint


@pytest.mark.parametrize("text", ["0001-01-01T00:00+23:00", "9999-12-31T23:59-23:00"])
def test_out_of_range(text: str) -> None:
    with pytest.raises(StampRefused):
        parse_stamp(text)


@given(st.text(st.characters(exclude_categories=()), max_size=30))
def test_any_text_is_a_time_or_refused(text: str) -> None:
    for parse in (parse_stamp, lambda t: parse_until(t, NOW)):
        try:
            at = parse(text)
        except StampRefused:
            continue
        assert at.tzinfo is not None


@pytest.mark.parametrize(
    ("text", "stamp"),
    [
        ("90m", "2026-02-05T16:00Z"),
        ("12h", "2026-02-06T02:30Z"),
        ("3d", "2026-02-08T14:30Z"),
        (" 3d ", "2026-02-08T14:30Z"),
        ("3 d", "2026-02-08T14:30Z"),
        ("0m", "2026-02-05T14:30Z"),
        ("2026-02-10", "2026-02-10T00:00Z"),
        ("2026-02-10T09:00+01:00", "2026-02-10T08:00Z"),
        ("tomorrow", "2026-02-06T00:00Z"),
        ("Next  Tuesday", "2026-02-10T00:00Z"),
        ("tue", "2026-02-10T00:00Z"),
        ("thursday", "2026-02-12T00:00Z"),
        ("friday", "2026-02-06T00:00Z"),
    ],
)
def test_parse_until(text: str, stamp: str) -> None:
    assert format_stamp(parse_until(text, NOW)) == stamp


@pytest.mark.parametrize(
    ("text", "stamp"),
    [
        ("90m", "2026-02-05T13:00Z"),
        ("3d", "2026-02-02T14:30Z"),
        ("today", "2026-02-05T00:00Z"),
        ("yesterday", "2026-02-04T00:00Z"),
        ("last thursday", "2026-01-29T00:00Z"),
        ("Friday", "2026-01-30T00:00Z"),
        ("wed", "2026-02-04T00:00Z"),
        ("2026-02-01", "2026-02-01T00:00Z"),
    ],
)
def test_parse_since(text: str, stamp: str) -> None:
    assert format_stamp(parse_since(text, NOW)) == stamp


@pytest.mark.parametrize(
    "text",
    ["", "3", "d", "3w", "-3d", "3.5h", "999999d", "３d", "3d4h", "next", "next tomorrow", "last tuesday", "yesterday"],
)
def test_no_until(text: str) -> None:
    with pytest.raises(StampRefused) as caught:
        parse_until(text, NOW)
    assert "a weekday such as next tuesday" in caught.value.hint or "out of range" in caught.value.text


def test_until_beyond_the_calendar() -> None:
    with pytest.raises(StampRefused):
        parse_until("99999d", datetime(9999, 1, 1, tzinfo=UTC))
    with pytest.raises(StampRefused):
        parse_until("tomorrow", datetime(9999, 12, 31, tzinfo=UTC))


@pytest.mark.parametrize(
    ("span", "age"),
    [
        (timedelta(seconds=-5), "0m"),
        (timedelta(0), "0m"),
        (timedelta(seconds=59), "0m"),
        (timedelta(minutes=59), "59m"),
        (timedelta(minutes=60), "1h"),
        (timedelta(hours=47, minutes=59), "47h"),
        (timedelta(hours=48), "2d"),
        (timedelta(days=400), "400d"),
    ],
)
def test_format_age(span: timedelta, age: str) -> None:
    assert format_age(span) == age
