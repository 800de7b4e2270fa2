"""Which reflections are due: a period that is over, and in which something happened.

Each level draws on the one below: days on the log, weeks on days, and so on. A period with
nothing below it asks for nothing, so an idle hub wakes nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta

from cn.protocol.log import Row
from cn.protocol.own_thread import Own
from cn.protocol.queue_item import PERIODIC, Cadence, first_day, is_period, period

_BACK = {
    Cadence.DAILY: timedelta(days=8),
    Cadence.WEEKLY: timedelta(days=35),
    Cadence.MONTHLY: timedelta(days=100),
    Cadence.QUARTERLY: timedelta(days=300),
    Cadence.YEARLY: timedelta(days=800),
}
"""How long after its begin a period is still asked about: a machine may have been off."""
CONCERN_EVERY = timedelta(days=7)
"""How often an open concern comes back."""
TITLES = {cadence: f"{cadence.value.capitalize()} reflection" for cadence in PERIODIC}


def level_below(cadence: Cadence) -> Cadence | None:
    """The level that a reflection draws on; None for the log of the day."""
    index = PERIODIC.index(cadence)
    return PERIODIC[index - 1] if index else None


def by_period(cadence: Cadence, lower: Iterable[str]) -> dict[str, list[str]]:
    """The periods of ``cadence`` in which those of the level below lie; a week goes by its Thursday.

    Names that are no periods are left out.
    """
    level, found = level_below(cadence), dict[str, list[str]]()
    for name in sorted(lower):
        with suppress(ValueError):
            if is_period(level or Cadence.DAILY, name):
                day = first_day(level or Cadence.DAILY, name) + timedelta(days=3 if level is Cadence.WEEKLY else 0)
                above = period(cadence, datetime.combine(day, time(), UTC))
                found.setdefault(above, []).append(name)
    return found


def due_reflections(
    now: datetime, days: Collection[str], written: Mapping[Cadence, Collection[str]]
) -> list[tuple[Cadence, str]]:
    """The latest period of each cadence that is over and has something below it.

    Left out where a later one is written. ``days`` are the days that have a log, ``written``
    the names of the reflections there are.
    """
    found = []
    for cadence in PERIODIC:
        level = level_below(cadence)
        names = by_period(cadence, days if level is None else written.get(level, ()))
        over = max((name for name in names if _is_over(cadence, name, now)), default="")
        if over and not any(name > over for name in written.get(cadence, ())):
            found.append((cadence, over))
    return found


def _is_over(cadence: Cadence, name: str, now: datetime) -> bool:
    begin = datetime.combine(first_day(cadence, name), time(), UTC)
    return name < period(cadence, now) and now - begin <= _BACK[cadence]


def is_worth_reflecting(rows: Sequence[Row]) -> bool:
    """Did anything happen that is worth a reflection? What the agenda itself brought about is not."""
    own = {cadence.value for cadence in PERIODIC} | {"mca"}
    return any(row.source.partition("/")[0] not in own for row in rows)


def is_due(own: Own, now: datetime) -> bool:
    """Is it the time to ask the agent about a thread of our own?

    A deferred one when its time has come, a concern every week; all else was asked once.
    """
    if own.get("Input"):
        return False
    if own.state == "deferred":
        return own.until is not None and own.until <= now
    if own.state != "open" or not own.is_concern:
        return False
    last = own.asked or own.opened
    return last is None or now - last >= CONCERN_EVERY
