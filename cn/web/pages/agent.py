"""The agent: its turn and queue, what it was asked and answered, what that cost, and what it may cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple

from markupsafe import Markup

from cn.llm.config import AgentConfig, Budget
from cn.llm.usage import Call, Sum, sum_calls, sum_usage
from cn.views.queue import QueueView
from cn.views.turns import Turned
from cn.web.charts import NARROW, Chart, Series, beside, line
from cn.web.page import Page, Part

TURNS = 40
"""Turns that the page shows."""
_DAYS = 30
"""Days that its charts show."""


class Spent(NamedTuple):
    """A budget and what is used of it; ``part`` is between 0 and 1."""

    name: str
    used: int
    limit: int

    @property
    def part(self) -> float:
        """How much of it is used."""
        return min(1.0, self.used / self.limit) if self.limit else 1.0


def agent_page(
    queue: QueueView | None,
    turns: Sequence[Turned],
    calls: Sequence[Call],
    config: AgentConfig | None,
    titles: Mapping[str, str],
    now: datetime,
) -> Page:
    """The page; ``queue`` is None where no agent works one, ``titles`` are those of threads by name."""
    days = by_day(calls)
    spent = budgets(config.budgets.total, calls, now) if config else ()
    parts = (
        Part("queue", "agent-queue", {"queue": queue, "titles": titles}),
        Part("turns", "agent-turns", {"turns": turns, "titles": titles}),
        Part(
            "cost",
            "agent-cost",
            {"days": days, "cost": cost_chart(days), "cache": cache_chart(days), "total": sum_calls(calls)},
            wide=False,
        ),
        Part("budgets", "agent-budgets", {"spent": spent, "configured": config is not None}, wide=False),
    )
    return Page("The agent", "agent", parts)


def by_day(calls: Sequence[Call]) -> tuple[Sum, ...]:
    """Day after day up to the last with a call, at most so many; days without a call too."""
    found = {one.key: one for one in sum_usage(calls, "day")}
    if not found:
        return ()
    first, last = date.fromisoformat(min(found)), date.fromisoformat(max(found))
    first = max(first, last - timedelta(days=_DAYS - 1))
    keys = [str(first + timedelta(days=number)) for number in range((last - first).days + 1)]
    return tuple(found.get(key) or sum_calls((), key) for key in keys)


def budgets(budget: Budget, calls: Sequence[Call], now: datetime) -> tuple[Spent, ...]:
    """What is used of the hub's budget."""
    day = now.replace(hour=0, minute=0, second=0)
    tokens = sum(call.usage.tokens for call in calls if call.at >= day)
    turns = sum(call.at > now - timedelta(hours=1) for call in calls)
    pairs = ("tokens today", tokens, budget.tokens_per_day), ("calls in this hour", turns, budget.turns_per_hour)
    return tuple(Spent(name, used, limit) for name, used, limit in pairs if limit is not None)


def cost_chart(days: Sequence[Sum]) -> Markup:
    """Dollars by day."""
    told = f"{len(days)} days, {sum(day.calls for day in days)} calls"
    chart = Chart(
        "cost", "Cost by day, US dollars", told, [day.key[5:] for day in days], lambda value: f"{value:.3g}", NARROW
    )
    return beside(chart, (Series("dollars", "one", [day.cost for day in days]),))


def cache_chart(days: Sequence[Sum]) -> Markup:
    """How much of the input came from the cache, by day."""
    rates = [day.cache_hit_rate for day in days]
    chart = Chart(
        "cache",
        "Input read from the cache, by day",
        "part of the whole input",
        [d.key[5:] for d in days],
        lambda value: f"{value:.0%}",
        NARROW,
    )
    return line(chart, Series("cached", "two", rates), 1)
