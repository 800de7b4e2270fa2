"""Events of ``logs/cn.log`` about calls to the model, and their sums (``docs/protocol/logs.md``).

A call is written twice under one id: before it is made, and when it ended. So one whose
process died counts, as one that may have been charged.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from cn.llm.prices import cost
from cn.llm.request import Answer, Failure, Kind, Usage
from cn.values.text import redact
from cn.values.timestamps import StampRefused, format_second, parse_stamp

EVENT = "model"
ASKED = "asked"
"""The ``stop`` of a call that has not ended, or whose process died."""
By = Literal["day", "peer"]
_KINDS = frozenset(kind.value for kind in Kind)
_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


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


def begin_call(
    at: datetime,
    id: str,
    tokens: int,
    *,
    model: str,
    input: str = "",
    source: str = "",
    peer: str = "",
    trigger: str = "",
    main: str = "",
    parts: tuple[tuple[str, int], ...] = (),
    replay: bool = False,
) -> Call:
    """The event of a call that is about to be made, of about so many ``tokens``."""
    used = Usage(input_tokens=tokens)
    more = (ASKED, 1, True, trigger, main, parts, replay, id)
    return Call(at, input, source, peer, model, used, None, 0.0, *more)


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
    texts = {"input": call.input, "source": call.source, "peer": call.peer, "model": call.model}
    more = {"trigger": call.trigger, "main": call.main}
    data: dict[str, Any] = {
        "time": format_second(call.at),
        "event": EVENT,
        **{key: text for key, text in texts.items() if text},
        **{key: getattr(call.usage, key) for key in _COUNTS},
        **({"cost": call.cost} if call.cost is not None else {}),
        "seconds": call.seconds,
        "stop": call.stop,
        "attempts": call.attempts,
        **({"unknown": True} if call.unknown else {}),
        **{key: text for key, text in more.items() if text},
        **({"parts": [list(part) for part in call.parts]} if call.parts else {}),
        **({"replay": True} if call.replay else {}),
        **({"call": call.id} if call.id else {}),
    }
    return redact(json.dumps(data, ensure_ascii=True))


def parse_call(line: str | bytes) -> Call | None:
    """The call of a line of the log; None for every other line, whatever it holds."""
    try:
        data = json.loads(line)
        if data["event"] != EVENT:
            return None
        return Call(
            parse_stamp(data["time"]),
            str(data.get("input", "")),
            str(data.get("source", "")),
            str(data.get("peer", "")),
            str(data.get("model", "")),
            Usage(*(max(0, int(data.get(key, 0))) for key in _COUNTS)),
            _number(data["cost"]) if "cost" in data else None,
            _number(data.get("seconds", 0)),
            str(data.get("stop", "")),
            max(0, int(data.get("attempts", 1))),
            bool(data.get("unknown", False)),
            str(data.get("trigger", "")),
            str(data.get("main", "")),
            _parts(data.get("parts")),
            bool(data.get("replay", False)),
            str(data.get("call", "")),
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
