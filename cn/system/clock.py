"""The clock, in one place."""

from __future__ import annotations

import calendar
import time
from datetime import UTC, datetime, timedelta

from cn.values.errors import Blocked

_FIRST = datetime(1970, 1, 2, tzinfo=UTC)
_END = datetime(3000, 1, 1, tzinfo=UTC)
"""Beyond these no clock is right. A commit from before 1970 is refused by git in every other clone (git-fsck(1),
``badDateOverflow``), and what lies in years to come is more than times can be reckoned with."""


def now() -> datetime:
    """The time, UTC, in whole seconds.

    Raises :class:`Blocked` where the clock is so wrong that nothing may be dated by it.
    """
    seconds = read_seconds()
    if not _FIRST.timestamp() <= seconds < _END.timestamp():
        raise Blocked(f"the clock of this machine shows {_show(seconds)}", "set the clock, then run again")
    return datetime.fromtimestamp(int(seconds), UTC)


def read_seconds() -> float:
    """What the system says (time(2)), right or wrong."""
    try:
        return time.time()
    except OverflowError:  # Python's clock ends in 2262, that of C does not
        return float(calendar.timegm(time.gmtime()))


def _show(seconds: float) -> str:
    try:
        return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=int(seconds)):%Y-%m-%dT%H:%M:%SZ}"
    except OverflowError:
        return "a time after the year 9999"
