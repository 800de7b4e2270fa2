"""What a hub did week by week: what arrived, what was decided, and how long that took. Pure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import NamedTuple

from cn.views.done import DoneRow

WEEK = timedelta(weeks=1)


class Week(NamedTuple):
    """A week (ISO 8601), by its Monday. ``hours`` is the median from arrival to decision, None without a decision."""

    monday: date
    received: int
    decided: int
    hours: float | None

    @property
    def name(self) -> str:
        """``2026-W47``."""
        year, week, _ = self.monday.isocalendar()
        return f"{year}-W{week:02d}"


def count_weeks(
    done: Iterable[DoneRow], pending: Iterable[datetime], now: datetime, most: int = 26
) -> tuple[Week, ...]:
    """The weeks from the first in which something arrived, at most the last ``most``; ``pending`` arrived then."""
    received: Counter[date] = Counter(_monday(at) for at in pending)
    spans: dict[date, list[float]] = {}
    for row in done:
        received[_monday(row.received)] += 1
        spans.setdefault(_monday(row.decided), []).append((row.decided - row.received).total_seconds() / 3600)
    if not received:
        return ()
    last = _monday(now)
    first = max(min(received), last - (most - 1) * WEEK)
    mondays = (first + number * WEEK for number in range((last - first).days // 7 + 1))
    return tuple(
        Week(monday, received[monday], len(found), statistics.median(found) if found else None)
        for monday in mondays
        for found in [spans.get(monday, [])]
    )


def count_by(words: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """How often each word comes, the most frequent first."""
    return tuple(sorted(Counter(words).items(), key=lambda pair: (-pair[1], pair[0])))


def _monday(at: datetime) -> date:
    return at.date() - timedelta(days=at.weekday())
