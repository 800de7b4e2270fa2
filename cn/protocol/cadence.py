"""Cadences: how often something comes to the agent, and the periods they divide time into."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from enum import Enum

from cn.values.names import HubPath


class Cadence(Enum):
    """In order of priority: what comes first is done first."""

    INBOX = "inbox"
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    QUARTERLY = "quarterly"
    YEARLY = "yearly"
    ADHOC = "adhoc"

    @property
    def priority(self) -> int:
        """0 is the most urgent."""
        return list(Cadence).index(self)


PERIODIC = (Cadence.DAILY, Cadence.WEEKLY, Cadence.MONTHLY, Cadence.QUARTERLY, Cadence.YEARLY)
"""The cadences that have a reflection per period."""
REFLECTIONS = HubPath("threads/reflections")


def period(cadence: Cadence, at: datetime) -> str:
    """The period a time lies in: ``20260205``, ``2026-W06`` (ISO 8601), ``2026-02``, ``2026-Q1``, ``2026``.

    The names of one cadence sort as the periods do. Time is UTC.
    """
    day = at.astimezone(UTC).date()
    match cadence:
        case Cadence.DAILY:
            return day.isoformat().replace("-", "")
        case Cadence.WEEKLY:
            iso = day.isocalendar()
            return f"{iso.year:04}-W{iso.week:02}"
        case Cadence.MONTHLY:
            return day.isoformat()[:7]
        case Cadence.QUARTERLY:
            return f"{day.year:04}-Q{(day.month + 2) // 3}"
        case Cadence.YEARLY:
            return f"{day.year:04}"
        case Cadence.INBOX | Cadence.ADHOC:
            raise ValueError(f"{cadence.value} has no periods")


def is_period(cadence: Cadence, name: str) -> bool:
    """Is it the name of a period of this cadence, and is there such a period?"""
    try:
        first_day(cadence, name)
    except ValueError:
        return False
    return True


def first_day(cadence: Cadence, name: str) -> date:
    """The day a period begins; raises ValueError for a name that is none."""
    year, rest = int(name[:4]), name[4:].lstrip("-WQ")
    match cadence:
        case Cadence.DAILY:
            day = date(year, int(rest[:2]), int(rest[2:]))
        case Cadence.WEEKLY:
            day = date.fromisocalendar(year, int(rest), 1)
        case Cadence.QUARTERLY:
            day = date(year, int(rest) * 3 - 2, 1)
        case _:
            day = date(year, int(rest or 1), 1)
    if period(cadence, datetime.combine(day, time(), UTC)) != name:
        raise ValueError(f"{name!r} is no {cadence.value} period")
    return day


def reflection_path(cadence: Cadence, name: str) -> HubPath:
    """Where the reflection of a period lies."""
    return HubPath(f"{REFLECTIONS}/{cadence.value}/{name}.md")
