"""What the model's API answers beside messages: errors, and what it knows of a model.

Source: the API's page "Errors" for status codes and the shape
``{"type": "error", "error": {"type": …, "message": …}}``, "Models" for ``GET /v1/models/{id}``, "Token
counting"; RFC 9110, 10.2.3 for ``Retry-After``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from cn.llm.request import Failure, Kind
from cn.values.text import hide, one_line

RETRIED = frozenset({408, 429, 500, 502, 503, 504, *range(520, 526), 529})
"""Statuses that may pass (520 to 525 are those of the network in front of the API)."""
_CHARGED = frozenset({408, 502, 504, 520, 524})
"""Of these the request may have reached the model."""
MAX_WAIT = 60.0
"""Seconds a server may make us wait within one call; beyond, the call fails and a later run tries again."""

_KINDS = {
    401: Kind.AUTH,
    402: Kind.PERMISSION,
    403: Kind.PERMISSION,
    404: Kind.NOT_FOUND,
    408: Kind.TIMEOUT,
    413: Kind.TOO_LARGE,
    429: Kind.RATE_LIMITED,
    504: Kind.TIMEOUT,
    529: Kind.OVERLOADED,
}
HINTS = {
    Kind.AUTH: "check the key in ANTHROPIC_KEY: it must be one of the server in llm.base_url",
    Kind.PERMISSION: "look in the console of the API: the key may not do this, or its account is not paid",
    Kind.NOT_FOUND: "correct llm.model or llm.base_url in agent.yaml",
    Kind.TOO_LARGE: "load less: lower the limits of context in agent.yaml",
    Kind.INVALID: "'cn context' shows what is sent, and how large it is",
    Kind.RATE_LIMITED: "the next run tries again; lower budgets in agent.yaml if it happens often",
    Kind.OVERLOADED: "the next run tries again",
    Kind.SERVER: "the next run tries again",
    Kind.NETWORK: "check the network and llm.base_url; the next run tries again",
    Kind.TIMEOUT: "the next run tries again",
    Kind.EMPTY: "",
}
"""The next step after a failure of each kind."""


def read_error(status: int, body: bytes, secrets: Sequence[str] = ()) -> Failure:
    """The failure that a response other than 200 stands for."""
    kind = _KINDS.get(status) or (Kind.SERVER if status >= 500 else Kind.INVALID)
    told = error_message(body)
    text = f"{_name(status)}: {told}" if told else _name(status)
    return Failure(
        kind,
        one_line(hide(text, *secrets), 400),
        HINTS[Kind.NOT_FOUND] if status < 400 else HINTS[kind],
        retryable=status in RETRIED,
        unknown=status in _CHARGED,
    )


def _name(status: int) -> str:
    if 300 <= status < 400:
        return f"the API redirects (status {status}), which is not followed"
    return f"the API answered with status {status}"


def error_fields(body: bytes) -> tuple[str, str]:
    """``error.type`` and ``error.message`` of an error body; empty where it has another shape."""
    try:
        error: dict[str, Any] = json.loads(body)["error"]
        return str(error["type"]), str(error["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return "", ""


def error_message(body: bytes) -> str:
    """What the server says, or the beginning of a body of another shape."""
    kind, message = error_fields(body)
    if kind:
        return f"{message} ({kind})"
    return "" if body.lstrip().startswith(b"<") else body[:400].decode("utf-8", "replace")


def parse_retry_after(value: str, now: datetime) -> float | None:
    """Seconds to wait: ``Retry-After`` is a number or a date. None: not said, or not readable."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(value) - now).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
    return None if math.isnan(seconds) else max(0.0, seconds)


def pause_before(attempt: int, pauses: Sequence[float], asked: float | None, chance: float) -> float | None:
    """Seconds until attempt ``attempt`` (the second is 2), or None when there shall be none.

    Exponential back-off from ``pauses`` with jitter: ``chance``, of [0, 1), takes up to half of it
    away, so that many who were refused together do not come back together. What the server
    ``asked`` for is waited in full, up to :data:`MAX_WAIT`.
    """
    if attempt - 2 >= len(pauses) or (asked is not None and asked > MAX_WAIT):
        return None
    return max(pauses[attempt - 2] * (1 - chance / 2), asked or 0.0)


@dataclass(frozen=True)
class Checked:
    """A model that nothing speaks against. ``id`` is what a name such as an alias stands for.

    ``known`` tells whether the API confirmed it; else ``note`` says why nobody can tell. ``note``
    also warns of a model that will be withdrawn. 0: the limit is not known.
    """

    id: str
    known: bool
    note: str = ""
    max_tokens: int = 0
    max_input_tokens: int = 0


def unchecked(model: str, why: str) -> Checked:
    """Nobody can tell whether the model exists."""
    return Checked(model, False, f"the model {one_line(model, 80)} was not checked: {one_line(why, 300)}")


def read_model(model: str, data: bytes) -> Checked | Failure:
    """The body of a response with status 200."""
    try:
        found: dict[str, Any] = json.loads(data)
        name = str(found["id"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return unchecked(model, "the server's answer is none of the Models API")
    retires = str(found.get("retires_at") or "")[:10]
    if found.get("lifecycle") == "retired":
        text = f"the model {one_line(model, 80)} is retired{f' since {one_line(retires)}' if retires else ''}"
        return Failure(Kind.NOT_FOUND, text, HINTS[Kind.NOT_FOUND], attempts=1)
    note = ""
    if found.get("lifecycle") == "deprecated":
        when = f"on {one_line(retires)}" if retires else "soon"
        note = f"the model {one_line(model, 80)} will be withdrawn {when}; choose a newer one in llm.model"
    return Checked(name, True, note, _limit(found, "max_tokens"), _limit(found, "max_input_tokens"))


def _limit(found: dict[str, Any], key: str) -> int:
    value = found.get(key)
    return value if isinstance(value, int) and value > 0 else 0


def read_count(data: bytes) -> int | None:
    """``input_tokens`` of a count; None: not readable."""
    try:
        count = json.loads(data)["input_tokens"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return count if isinstance(count, int) and count >= 0 else None
