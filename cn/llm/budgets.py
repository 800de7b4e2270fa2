"""Budgets: what stops a call to the model before it is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cn.llm.usage_events import Call
from cn.values.text import one_line
from cn.values.timestamps import format_stamp

_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Budget:
    """Limits; None is no limit, 0 allows nothing.

    ``tokens_per_day`` counts input, cached or not, and output of a UTC day, ``turns_per_hour`` the
    calls of the last 60 minutes, failed ones too: a loop that fails is a loop.
    """

    tokens_per_day: int | None = None
    turns_per_hour: int | None = None


@dataclass(frozen=True)
class Budgets:
    """The hub's budget in all, and that of every single sender, some by name.

    A sender is what an item says in ``from``: a peer, the hub itself, ``telegram:<chat>``.
    """

    total: Budget = Budget()
    each: Budget = Budget()
    named: tuple[tuple[str, Budget], ...] = ()

    def of(self, sender: str) -> Budget:
        """The budget of one sender: its own, ``telegram`` for a chat without one, else that of each."""
        named = dict(self.named)
        return named.get(sender) or named.get(sender.partition(":")[0]) or self.each


def budget_since(now: datetime) -> datetime:
    """From when on calls count: the beginning of the UTC day, or an hour back where that is earlier."""
    return min(_midnight(now), now - _HOUR)


def check_budgets(calls: Iterable[Call], budgets: Budgets, peer: str, now: datetime) -> str:
    """Which budget stops a call for ``peer`` now, and until when; empty: none does."""
    found = list(calls)
    return _check(found, budgets.total, "budgets", "", now) or _check(
        [call for call in found if call.peer == peer], budgets.of(peer), "budgets.per_peer", peer, now
    )


def _check(calls: Sequence[Call], budget: Budget, where: str, peer: str, now: datetime) -> str:
    whose = f" by {one_line(peer, 80)}" if peer else ""
    tokens, turns = budget.tokens_per_day, budget.turns_per_hour
    if tokens == 0 or turns == 0:
        return f"{where}.{'tokens_per_day' if tokens == 0 else 'turns_per_hour'} is 0: no call is made"
    if tokens is not None:
        day = _midnight(now)
        used = sum(call.usage.tokens for call in calls if call.at >= day)
        if used >= tokens:
            told = f"{used} of {tokens} tokens are used today{whose} ({where}.tokens_per_day)"
            return f"{told}: no call until {format_stamp(day + _DAY)}"
    if turns is not None:
        recent = sorted(call.at for call in calls if call.at > now - _HOUR)
        if len(recent) >= turns:
            told = f"{len(recent)} of {turns} turns are used in this hour{whose} ({where}.turns_per_hour)"
            # In whole minutes, rounded up: at the time told the call is possible.
            free = recent[len(recent) - turns] + _HOUR + timedelta(seconds=59)
            return f"{told}: no call until {format_stamp(free)}"
    return ""


def _midnight(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
