"""The last hours of a hub: what happened in each, from the rows of its log. Pure but for the reading."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from cn.protocol.log import NOTHING
from cn.run.view import View
from cn.views.log import LoggedAction, read_log

HOURS = 24
_HOUR = timedelta(hours=1)


class Hour(NamedTuple):
    """One hour, by its beginning: what arrived, what was done, what was refused or failed."""

    start: datetime
    arrived: int
    done: int
    failed: int


def read_hours(view: View, count: int = HOURS) -> tuple[Hour, ...]:
    """The last hours, the present one last."""
    last = view.now.replace(minute=0, second=0)
    first = last - (count - 1) * _HOUR
    return count_hours(read_log(view, first), first, count)


def count_hours(rows: Iterable[LoggedAction], first: datetime, count: int) -> tuple[Hour, ...]:
    """What happened in so many hours from ``first`` on."""
    found = [Hour(first + number * _HOUR, 0, 0, 0) for number in range(count)]
    for happened in rows:
        at = (happened.row.at - first) // _HOUR
        if 0 <= at < count:
            one = found[at]
            kind = _kind(happened)
            found[at] = one._replace(**{kind: getattr(one, kind) + 1}) if kind else one
    return tuple(found)


def _kind(happened: LoggedAction) -> str:
    row = happened.row
    if row.decision == "received":
        return "arrived"
    if row.executed.startswith(("refused", "failed")) or row.decision == "timed out":
        return "failed"
    return "done" if row.executed not in ("", NOTHING) else ""
