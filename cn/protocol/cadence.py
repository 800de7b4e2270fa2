"""Cadences: how often something comes to the agent, and the periods they divide time into."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
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
_NAMES = {
    Cadence.DAILY: re.compile(r"[0-9]{8}"),
    Cadence.WEEKLY: re.compile(r"[0-9]{4}-W[0-9]{2}"),
    Cadence.MONTHLY: re.compile(r"[0-9]{4}-[0-9]{2}"),
    Cadence.QUARTERLY: re.compile(r"[0-9]{4}-Q[1-4]"),
    Cadence.YEARLY: re.compile(r"[0-9]{4}"),
}


def period(cadence: Cadence, at: datetime) -> str:
    """The period a time lies in: ``20260205``, ``2026-W06`` (ISO 8601), ``2026-02``, ``2026-Q1``, ``2026``.

    The names of one cadence sort as the periods do. Time is UTC.
    """
    day = at.astimezone(UTC).date()
    match cadence:
        case Cadence.DAILY:
            return f"{day:%Y%m%d}"
        case Cadence.WEEKLY:
            iso = day.isocalendar()
            return f"{iso.year:04}-W{iso.week:02}"
        case Cadence.MONTHLY:
            return f"{day:%Y-%m}"
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
    pattern = _NAMES.get(cadence)
    if pattern is None or pattern.fullmatch(name) is None:
        raise ValueError(f"{name!r} is no {cadence.value} period")
    match cadence:
        case Cadence.DAILY:
            return date(int(name[:4]), int(name[4:6]), int(name[6:]))
        case Cadence.WEEKLY:
            return date.fromisocalendar(int(name[:4]), int(name[6:]), 1)
        case Cadence.MONTHLY:
            return date(int(name[:4]), int(name[5:]), 1)
        case Cadence.QUARTERLY:
            return date(int(name[:4]), int(name[6:]) * 3 - 2, 1)
        case _:
            return date(int(name), 1, 1)


def reflection_path(cadence: Cadence, name: str) -> HubPath:
    """Where the reflection of a period lies."""
    return HubPath(f"{REFLECTIONS}/{cadence.value}/{name}.md")
