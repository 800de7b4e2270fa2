"""Weeks and hours: what is counted in which, and how long a decision took."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cn.protocol.log import Row
from cn.values.names import Name
from cn.views.activity import count_hours
from cn.views.done import DoneRow
from cn.views.history import count_by, count_weeks
from cn.views.log import LoggedAction

MONDAY = datetime(2026, 11, 2, tzinfo=UTC)
DAY = timedelta(days=1)


def done(received: datetime, hours: float) -> DoneRow:
    decided = received + timedelta(hours=hours)
    return DoneRow("t", Name("pi"), "t", "proposal", "", "merged", "do:merge", "sigma", received, decided)


def test_weeks_count_what_arrived_and_the_median_time_to_a_decision() -> None:
    rows = [done(MONDAY, 2), done(MONDAY + DAY, 4), done(MONDAY + 6 * DAY, 30)]
    weeks = count_weeks(rows, [MONDAY + 15 * DAY], MONDAY + 16 * DAY)
    assert [(week.name, week.received, week.decided, week.hours) for week in weeks] == [
        ("2026-W45", 3, 2, 3.0),
        ("2026-W46", 0, 1, 30.0),
        ("2026-W47", 1, 0, None),
    ]


def test_a_year_ends_in_the_week_that_the_calendar_says() -> None:
    weeks = count_weeks([], [datetime(2026, 12, 31, tzinfo=UTC)], datetime(2027, 1, 5, tzinfo=UTC))
    assert [week.name for week in weeks] == ["2026-W53", "2027-W01"]


def test_only_the_last_weeks_are_shown_and_nothing_without_a_thread() -> None:
    assert len(count_weeks([done(MONDAY - 1000 * DAY, 1)], [], MONDAY, most=26)) == 26
    assert count_weeks([], [], MONDAY) == ()
    assert count_by(["b", "a", "b", "c"]) == (("b", 2), ("a", 1), ("c", 1))


def test_hours_tell_what_arrived_what_was_done_and_what_failed() -> None:
    def row(hour: int, decision: str, executed: str) -> LoggedAction:
        return LoggedAction(Row(MONDAY + timedelta(hours=hour, minutes=59), "pi/x", decision, executed))

    rows = [
        row(0, "received", "—"),
        row(0, "do:merge", "✓ merged 1234567"),
        row(1, "do:merge", "refused: no-self-merge: x"),
        row(1, "timed out", "no answer"),
        row(1, "noted", "—"),
        row(-1, "received", "—"),
        row(9, "received", "—"),
    ]
    assert [hour[1:] for hour in count_hours(rows, MONDAY, 2)] == [(1, 1, 0), (0, 0, 2)]
