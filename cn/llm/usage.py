"""What calls to the model used: events of ``logs/cn.log`` (``docs/protocol/logs.md``), prices, budgets, and sums.

A call is written twice under one id: before it is made, and when it ended. So one whose
process died counts, as one that may have been charged. Prices are those of the Claude Platform documentation, page
"Pricing", looked up on :data:`LOOKED_UP`; a model that is not there has no price: None is not 0.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from cn.llm.config import Budget, Budgets
from cn.llm.request import Answer, Failure, Kind, Usage
from cn.protocol.log import json_line
from cn.run.executor import MACHINE_LOG
from cn.system.files import append_line, log_lines
from cn.values.text import one_line
from cn.values.timestamps import StampRefused, format_second, format_stamp, parse_stamp

EVENT = "model"
ASKED = "asked"
"""The ``stop`` of a call that has not ended, or whose process died."""
By = Literal["day", "peer"]
_KINDS = frozenset(kind.value for kind in Kind)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_ROTATED = 3
_MARK = f'"event": "{EVENT}"'.encode()
_TEXTS = ("input", "source", "peer", "model", "stop", "trigger", "main")
_COUNTS = tuple(part.name for part in fields(Usage))


@dataclass(frozen=True)
class Call:
    """One call, with or without an answer, all its attempts included.

    ``input`` is the id of the item it was for, ``source`` where that came from, ``peer`` who
    caused it (what budgets count by). ``stop`` is why the model stopped, or the kind of failure.
    ``cost`` is in US dollars, None where nobody knows; ``unknown``: an attempt that broke off may
    have been charged beside it.

    ``trigger`` names the attempt (:attr:`cn.protocol.queue_item.Turn.trigger`), empty for the first; ``main``
    is the commit whose files were sent, ``parts`` the UTF-8 bytes of each part of the request, in order.
    ``replay``: asked again by ``cn replay``; nothing came of it. ``id`` is the call's own.
    """

    at: datetime
    input: str
    source: str
    peer: str
    model: str
    usage: Usage
    cost: float | None
    seconds: float
    stop: str
    attempts: int = 1
    unknown: bool = False
    trigger: str = ""
    main: str = ""
    parts: tuple[tuple[str, int], ...] = ()
    replay: bool = False
    id: str = ""

    @property
    def failed(self) -> bool:
        """Was there no answer?"""
        return self.stop in _KINDS or self.stop == ASKED


def end_call(begun: Call, outcome: Answer | Failure, at: datetime) -> Call:
    """The event of the same call when it ended."""
    used = outcome.model or begun.model
    stop = outcome.stop.value if isinstance(outcome, Answer) else outcome.kind.value
    return replace(
        begun,
        at=at,
        model=used,
        usage=outcome.usage,
        cost=cost(outcome.usage, used),
        seconds=outcome.seconds,
        stop=stop,
        attempts=outcome.attempts,
        unknown=outcome.unknown,
    )


def format_call(call: Call) -> str:
    """One JSON line of ``logs/cn.log``; what is empty is left out."""
    data: dict[str, Any] = {"time": format_second(call.at), "event": EVENT}
    for key, value in vars(call).items():
        if key == "usage":
            data |= vars(value)
        elif key != "at" and value not in ("", (), None) and value is not False:
            data["call" if key == "id" else key] = value
    return json_line(data)


def parse_call(line: str | bytes) -> Call | None:
    """The call of a line of the log; None for every other line, whatever it holds."""
    try:
        data = json.loads(line)
        if data["event"] != EVENT:
            return None
        texts = {key: str(data.get(key, "")) for key in _TEXTS}
        return Call(
            parse_stamp(data["time"]),
            **texts,
            usage=Usage(*(max(0, int(data.get(key, 0))) for key in _COUNTS)),
            cost=_number(data["cost"]) if "cost" in data else None,
            seconds=_number(data.get("seconds", 0)),
            attempts=max(0, int(data.get("attempts", 1))),
            unknown=bool(data.get("unknown", False)),
            parts=_parts(data.get("parts")),
            replay=bool(data.get("replay", False)),
            id=str(data.get("call", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, StampRefused):
        return None


def _parts(value: Any) -> tuple[tuple[str, int], ...]:
    """What is no list of pairs is left out: what was paid counts, whatever else the line holds."""
    try:
        return tuple((str(name), max(0, int(size))) for name, size in value or ())
    except (ValueError, TypeError, OverflowError):
        return ()


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number) or number < 0:
        raise ValueError
    return number


def log_call(root: Path, call: Call) -> None:
    """Write a call to the machine log, at once: what was paid counts, whatever becomes of the answer."""
    append_line(root / MACHINE_LOG, format_call(call), root=root)


def read_calls(root: Path, since: datetime | None = None) -> list[Call]:
    """The calls that the machine log of the hub at ``root`` still knows, oldest first."""
    found: dict[str, Call] = {}
    for number, line in enumerate(log_lines(root / MACHINE_LOG, rotated=_ROTATED)):
        call = parse_call(line) if _MARK in line else None
        if call is not None:
            found[call.id or str(number)] = call  # how it ended takes the place of how it began
    return [call for call in found.values() if since is None or call.at >= since]


# Budgets: what stops a call before it is made.


def budget_since(now: datetime) -> datetime:
    """From when on calls count: the beginning of the UTC day, or an hour back where that is earlier."""
    return min(_midnight(now), now - _HOUR)


def over_budget(root: Path, budgets: Budgets, peer: str, at: datetime) -> str:
    """Which budget stops a call for ``peer`` at that time; empty: none. To be asked before every call."""
    return check_budgets(read_calls(root, budget_since(at)), budgets, peer, at)


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


# Sums.


@dataclass(frozen=True)
class Sum:
    """What some calls used together. ``cost`` adds up the calls whose price is known, None if none is.

    ``unpriced`` are calls that used tokens of no known price, ``unknown`` those that may have been
    charged more than is known, ``replays`` those of ``cn replay``.
    """

    key: str
    calls: int
    failed: int
    usage: Usage
    cost: float | None
    unpriced: int
    unknown: int
    seconds: float
    replays: int = 0

    @property
    def cache_hit_rate(self) -> float | None:
        """The part of the whole input that was read from the cache; None without input."""
        whole = self.usage.prompt_tokens
        return self.usage.cache_read_tokens / whole if whole else None


def sum_usage(calls: Iterable[Call], by: By) -> list[Sum]:
    """Sums by UTC day, oldest first, or by peer, the one that used most first."""
    groups: dict[str, list[Call]] = {}
    for call in calls:
        key = f"{call.at.astimezone(UTC):%Y-%m-%d}" if by == "day" else call.peer
        groups.setdefault(key, []).append(call)
    sums = [sum_calls(group, key) for key, group in groups.items()]
    return sorted(sums, key=lambda s: s.key if by == "day" else (-s.usage.tokens, s.key))


def sum_calls(calls: Iterable[Call], key: str = "") -> Sum:
    """All of them together."""
    found = list(calls)
    usage = Usage(*(sum(getattr(call.usage, count) for call in found) for count in _COUNTS))
    costs = [call.cost for call in found if call.cost is not None]
    return Sum(
        key,
        len(found),
        sum(call.failed for call in found),
        usage,
        round(sum(costs), 8) if costs else None,
        sum(call.cost is None and call.usage.tokens > 0 for call in found),
        sum(call.unknown for call in found),
        round(sum(call.seconds for call in found), 3),
        sum(call.replay for call in found),
    )


@dataclass(frozen=True)
class UsageView:
    """Sums of the calls since a time (None: all that are known), and of all of them."""

    by: By
    since: datetime | None
    rows: tuple[Sum, ...]
    total: Sum


def read_usage(root: Path, by: By, since: datetime | None = None) -> UsageView:
    """What ``cn usage`` shows."""
    calls = read_calls(root, since)
    return UsageView(by, since, tuple(sum_usage(calls, by)), sum_calls(calls, "total"))


# Prices.

LOOKED_UP = "2026-11-21"
_MILLION = 1_000_000


@dataclass(frozen=True)
class Price:
    """US dollars per million tokens. ``cache_write`` is for five minutes, the lifetime that cn asks for."""

    input: float
    output: float
    cache_write: float
    cache_read: float


@dataclass(frozen=True)
class Tiers:
    """A price, and a higher one for all tokens of a request whose input is longer than ``limit``."""

    short: Price
    limit: int
    long: Price


PRICES: dict[str, Price | Tiers] = {
    "claude-fable-5-2": Price(8, 40, 10, 0.20),
    "claude-fable-5-1": Price(10, 50, 12.50, 0.25),
    "claude-fable-5": Price(10, 50, 12.50, 1),
    "claude-mythos-5-1": Price(10, 50, 12.50, 0.25),
    "claude-mythos-5": Price(10, 50, 12.50, 1),
    "claude-opus-5-5": Price(4, 20, 5, 0.20),
    "claude-opus-5": Price(5, 25, 6.25, 0.50),
    "claude-opus-4-8": Price(5, 25, 6.25, 0.50),
    "claude-opus-4-7": Price(5, 25, 6.25, 0.50),
    "claude-opus-4-6": Price(5, 25, 6.25, 0.50),
    "claude-opus-4-5": Price(5, 25, 6.25, 0.50),
    "claude-sonnet-5-5": Price(2, 10, 2.50, 0.10),
    "claude-sonnet-5": Price(2, 10, 2.50, 0.20),
    "claude-sonnet-4-6": Price(3, 15, 3.75, 0.30),
    "claude-sonnet-4-5": Price(3, 15, 3.75, 0.30),
    "claude-sonnet-4": Price(3, 15, 3.75, 0.30),
    "claude-haiku-5-5": Tiers(Price(0.10, 0.50, 0.125, 0.01), 100_000, Price(0.50, 2.50, 0.625, 0.05)),
    "claude-haiku-4-5": Price(1, 5, 1.25, 0.10),
}
_DATED = re.compile(r"(.+?)(?:-20[0-9]{6}|-latest)?")


def price_of(model: str, prompt_tokens: int = 0) -> Price | None:
    """The price of a model, by its name with or without a date, for a request of that length."""
    match = _DATED.fullmatch(model)
    found = PRICES.get(match[1]) if match else None
    if isinstance(found, Tiers):
        return found.long if prompt_tokens > found.limit else found.short
    return found


def cost(usage: Usage, model: str) -> float | None:
    """US dollars of one request; None where the price is not known."""
    price = price_of(model, usage.prompt_tokens)
    if price is None:
        return None
    total = (
        usage.input_tokens * price.input
        + usage.output_tokens * price.output
        + usage.cache_write_tokens * price.cache_write
        + usage.cache_read_tokens * price.cache_read
    )
    return round(total / _MILLION, 8)
