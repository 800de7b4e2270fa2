"""Points in time as text. Everything is UTC."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

from cn.values.errors import CnError

_SPAN = r"([0-9]{1,5})\s*([mhd])"
_LAST = 253_402_300_799
"""The last second of the year 9999, after which there is no :class:`datetime`."""
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


class StampRefused(CnError):
    """A text that is not a time."""


def format_stamp(at: datetime) -> str:
    """``2026-02-05T14:00Z``."""
    return at.astimezone(UTC).isoformat(timespec="minutes").removesuffix("+00:00") + "Z"


def format_second(at: datetime) -> str:
    """``2026-02-05T14:00:07Z``, for ledger and machine log."""
    return at.astimezone(UTC).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"


def format_day(at: datetime) -> str:
    """``20260205``, for file names."""
    return at.astimezone(UTC).date().isoformat().replace("-", "")


@lru_cache(maxsize=64)
def parse_stamp(text: str) -> datetime:
    """An ISO 8601 date or time; without an offset it is UTC.

    What one run wrote has one time: of thousands of items few differ.
    """
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise StampRefused(f"{text[:40]!r} is not a time", "write it as 2026-02-05T15:00Z") from None
    try:
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (OverflowError, ValueError):
        raise StampRefused(f"{text[:40]!r} is out of range", "write it as 2026-02-05T15:00Z") from None


def stamp_or_none(text: object) -> datetime | None:
    """A time of this clone's memory, which anybody may have edited; None for anything else."""
    try:
        return parse_stamp(str(text)) if text else None
    except StampRefused:
        return None


def from_epoch(text: str) -> datetime:
    """Seconds since 1970, as git shows a commit's date; the nearest time there is, 1970 for what is none."""
    try:
        return datetime.fromtimestamp(min(max(int(text), 0), _LAST), UTC)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)


def from_raw(text: str) -> str:
    """A commit's date with its zone (ISO 8601) from ``--date=raw`` (git-log(1)), which git gives of each commit: of one
    whose local time is before 1970 it makes no other.
    """
    seconds, _, zone = text.partition(" ")
    at = from_epoch(seconds)
    if re.fullmatch("[+-][0-9]{4}", zone):
        offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:]))
        with suppress(ValueError, OverflowError):  # more than a day, or before the first year, or after the last
            return at.astimezone(timezone(-offset if zone[0] == "-" else offset)).isoformat()
    return at.isoformat()


_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_FORMS = "write a date (2026-02-05), a time (2026-02-05T15:00Z, UTC), {}, a weekday such as {} tuesday, or 90m, 12h, 3d"
AHEAD, BACK = _FORMS.format("tomorrow", "next"), _FORMS.format("today, yesterday", "last")


def parse_until(text: str, now: datetime) -> datetime:
    """``until:`` of a deferral: an ISO date or time, ``tomorrow``, a weekday, or ``90m``, ``12h``, ``3d`` from ``now``.

    Days begin at 00:00 UTC; a weekday is the next one after today.
    """
    day = _read_day(text, "next", 1, {"tomorrow": 1}, now)
    return day or _read_point(text, now, 1, AHEAD)


def parse_since(text: str, now: datetime) -> datetime:
    """As :func:`parse_until`, looking back: ``today``, ``yesterday``, a weekday before today, ``3d`` before ``now``."""
    day = _read_day(text, "last", -1, {"today": 0, "yesterday": -1}, now)
    return day or _read_point(text, now, -1, BACK)


def _read_day(text: str, article: str, step: int, days: dict[str, int], now: datetime) -> datetime | None:
    """The beginning of a day that is told by its name; None for any other text."""
    words = text.lower().split()
    named = words[1:] if words[:1] == [article] else words
    if len(named) != 1:
        return None
    ahead = days.get(words[0])
    if ahead is None and (found := [n for n, day in enumerate(_WEEKDAYS) if named[0] in (day, day[:3])]):
        ahead = step * ((step * (found[0] - now.weekday()) - 1) % 7 + 1)
    if ahead is None:
        return None
    try:
        return datetime(now.year, now.month, now.day, tzinfo=UTC) + timedelta(days=ahead)
    except OverflowError:
        return None


def _read_point(text: str, now: datetime, step: int, forms: str) -> datetime:
    span = re.fullmatch(_SPAN, text.strip())
    try:
        if not span:
            return parse_stamp(text)
        return now + step * timedelta(**{_UNITS[span[2]]: int(span[1])})
    except StampRefused as refused:
        raise StampRefused(refused.text, forms) from None
    except OverflowError:
        raise StampRefused(f"{text[:40]!r} is out of range", forms) from None


def format_age(span: timedelta) -> str:
    """A short age for people: ``5m``, ``3h``, ``12d``."""
    minutes = max(0, int(span.total_seconds() // 60))
    if minutes < 60:
        return f"{minutes}m"
    if minutes < 48 * 60:
        return f"{minutes // 60}h"
    return f"{minutes // 1440}d"


def is_old(since: datetime, now: datetime, days: int) -> bool:
    """Is it older than ``days``?"""
    return now - since >= timedelta(days=days)
