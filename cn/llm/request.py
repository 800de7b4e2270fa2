"""One question to a model and its outcome: request, answer, failure (Messages API, "Create a Message").

The model is a function from text to text: no tools, no stream, one request. The bytes of
the request are made here, so that a dry run prints exactly what would be sent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Any

from cn.values.errors import CnError
from cn.values.known_secrets import hide
from cn.values.text import one_line

MAX_BREAKPOINTS = 4
"""Cache breakpoints a request may have (Messages API, "Prompt caching")."""
MOST_TOKENS = 10**12
"""A server may count whatever it likes; no price of more is a number."""


class RequestRefused(CnError):
    """A request that the API would refuse: a mistake of whoever packed it."""


@dataclass(frozen=True)
class Block:
    """A part of the system prompt. ``cached``: a cache breakpoint stands at its end."""

    text: str
    cached: bool = False


@dataclass(frozen=True)
class Said:
    """One message of the conversation; ``role`` is ``user`` or ``assistant``."""

    role: str
    text: str


@dataclass(frozen=True)
class Request:
    """What the model is asked. Messages take turns, the user's first and last.

    Raises :class:`RequestRefused` for what the API would not take, so that it costs no call.
    """

    model: str
    max_tokens: int
    system: tuple[Block, ...]
    messages: tuple[Said, ...]

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem:
            raise RequestRefused(f"no request to a model: {problem}")


def _problem(request: Request) -> str:
    if not request.model.strip():
        return "it names no model"
    if request.max_tokens < 1:
        return f"max_tokens is {request.max_tokens}"
    if any(not text.strip() for text in (*(b.text for b in request.system), *(m.text for m in request.messages))):
        return "a part of it is empty"
    if sum(block.cached for block in request.system) > MAX_BREAKPOINTS:
        return f"it has more than {MAX_BREAKPOINTS} cache breakpoints"
    roles = [message.role for message in request.messages]
    if roles != ["assistant" if i % 2 else "user" for i in range(len(roles))] or len(roles) % 2 == 0:
        return "its messages do not take turns, from the user to the user"
    return ""


def request_json(request: Request) -> str:
    """The body of ``POST /v1/messages``: the same request gives the same text."""
    return _dump({"model": request.model, "max_tokens": request.max_tokens, **_prompt(request)})


def format_sent(request: Request) -> str:
    """A request as it is archived: a JSON list, an object of texts a line; first the model, then all that it read."""
    lines = [{"model": request.model, "max_tokens": str(request.max_tokens)}]
    lines += [{"place": "system", "cached": "yes" if one.cached else "no", "text": one.text} for one in request.system]
    lines += [{"place": said.role, "text": said.text} for said in request.messages]
    rows = (json.dumps(line, ensure_ascii=False) for line in lines)
    return "[\n " + ",\n ".join(rows) + "\n]\n"


def parse_sent(data: bytes) -> Request | None:
    """The inverse of :func:`format_sent`; None for what is none."""
    try:
        head, *rest = json.loads(data)
        system = tuple(Block(one["text"], one["cached"] == "yes") for one in rest if one["place"] == "system")
        messages = tuple(Said(one["place"], one["text"]) for one in rest if one["place"] != "system")
        return Request(head["model"], int(head["max_tokens"]), system, messages)
    except (ValueError, KeyError, TypeError, RecursionError, RequestRefused):
        return None


def count_json(request: Request) -> str:
    """The body of ``POST /v1/messages/count_tokens`` for the same prompt."""
    return _dump({"model": request.model, **_prompt(request)})


def _prompt(request: Request) -> dict[str, Any]:
    system = [
        {"type": "text", "text": block.text, **({"cache_control": {"type": "ephemeral"}} if block.cached else {})}
        for block in request.system
    ]
    messages = [{"role": message.role, "content": message.text} for message in request.messages]
    return {**({"system": system} if system else {}), "messages": messages}


def _dump(body: dict[str, Any]) -> str:
    """Indented, for whoever reads a dry run; a lone surrogate, which UTF-8 cannot hold, becomes ``?``."""
    text = json.dumps(body, ensure_ascii=False, indent=2) + "\n"
    return text.encode("utf-8", "replace").decode("utf-8")


class Stop(Enum):
    """Why the model stopped (``stop_reason``)."""

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    REFUSAL = "refusal"
    OTHER = "other"


@dataclass(frozen=True)
class Usage:
    """What was charged, in tokens. The whole input is ``input_tokens`` and both cache counts."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def prompt_tokens(self) -> int:
        """The whole input."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def tokens(self) -> int:
        """Input and output."""
        return self.prompt_tokens + self.output_tokens


@dataclass(frozen=True)
class Answer:
    """What the model said. ``model`` is the one that answered, ``seconds`` the time of all attempts.

    ``note`` says more of a stop that is no end of turn. ``unknown``: an earlier attempt broke
    off after it was sent, and may have been charged too.
    """

    text: str
    stop: Stop
    usage: Usage
    model: str
    id: str
    seconds: float = 0.0
    attempts: int = 1
    note: str = ""
    unknown: bool = False


class Kind(Enum):
    """What kind of failure it is."""

    AUTH = "auth"
    PERMISSION = "permission"
    NOT_FOUND = "not_found"
    TOO_LARGE = "too_large"
    INVALID = "invalid"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    SERVER = "server"
    NETWORK = "network"
    TIMEOUT = "timeout"
    EMPTY = "empty"


@dataclass(frozen=True)
class Failure:
    """A call without an answer. ``text`` says what, ``hint`` the next step; neither holds a secret.

    ``retryable``: the same request may succeed later. ``unknown``: it may have been charged;
    ``usage`` is what is known to have been.
    """

    kind: Kind
    text: str
    hint: str = ""
    retryable: bool = False
    attempts: int = 0
    unknown: bool = False
    seconds: float = 0.0
    usage: Usage = Usage()
    model: str = ""

    @property
    def unreached(self) -> bool:
        """Did no connection come to the server, so that it read nothing?"""
        return self.kind in (Kind.NETWORK, Kind.TIMEOUT) and not self.unknown


def read_answer(data: bytes) -> Answer | Failure:
    """The body of a response with status 200. What cannot be read was charged none the less."""
    try:
        found = json.loads(data)
        blocks = [b for b in found["content"] if b["type"] == "text"]
        text = "".join(str(b["text"]) for b in blocks)
        counts = (min(max(0, int(found["usage"].get(key) or 0)), MOST_TOKENS) for key in COUNTS)
        usage = Usage(*counts)
        reason = str(found["stop_reason"])
        model, number = one_line(str(found["model"])), one_line(str(found["id"]))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        if is_page(data):
            return _unreached(200, _PAGE)
        return Failure(
            Kind.SERVER,
            "the answer is no message of the Messages API",
            "check llm.base_url: it must lead to a server of that API",
            unknown=True,
        )
    stop = Stop(reason) if reason in {s.value for s in Stop} else Stop.OTHER
    if not text.strip() and stop is not Stop.REFUSAL:
        hint = "raise llm.max_tokens in agent.yaml: the model's thinking takes of it too"
        return Failure(
            Kind.EMPTY,
            f"the model answered without text (it stopped with {one_line(reason, 40)})",
            hint if stop is Stop.MAX_TOKENS else "",
            usage=usage,
            model=model,
        )
    return Answer(text, stop, usage, model, number, note=_note(found, stop, reason))


COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def _note(found: dict[str, Any], stop: Stop, reason: str) -> str:
    match stop:
        case Stop.REFUSAL:
            details = found.get("stop_details")
            told = details if isinstance(details, dict) else {}
            return one_line(": ".join(str(told[k]) for k in ("category", "explanation") if told.get(k)), 300)
        case Stop.OTHER:
            return one_line(reason, 80)
        case _:
            return ""


# What the API answers beside messages: errors (its page "Errors" for status codes and their shape), what it knows of a
# model ("Models", ``GET /v1/models/{id}``), "Token counting"; RFC 9110, 10.2.3 for ``Retry-After``.

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


_PAGE = "a page for a browser"
_BEFORE = {407: "a proxy that wants a login", 511: "a network that wants a login"}
"""Statuses of what stands before a server (RFC 9110, 15.5.8; RFC 6585, 6). So is any redirect: the API makes none."""


def is_page(body: bytes) -> bool:
    """Is it a page for a browser? The API answers in JSON alone, whatever it says."""
    return body.lstrip()[:1] == b"<"


def _unreached(status: int, what: str) -> Failure:
    """Something where the API should be: the network's login, a filter. No model was asked, and it may be gone soon."""
    text = f"no model was reached: {what} (status {status}) stands before the API"
    hint = "log in to the network, or look at llm.base_url; it is tried again"
    return Failure(Kind.NETWORK, text, hint, retryable=True)


def read_error(status: int, body: bytes, secrets: Sequence[str] = ()) -> Failure:
    """The failure that a response other than 200 stands for."""
    if status in _BEFORE:
        return _unreached(status, _BEFORE[status])
    if is_page(body) and status not in RETRIED and status < 500:
        return _unreached(status, _PAGE)
    if 300 <= status < 400:
        return _unreached(status, "a redirect, which is not followed,")
    kind = _KINDS.get(status) or (Kind.SERVER if status >= 500 else Kind.INVALID)
    text = f"the API answered with status {status}"
    name, message = error_fields(body)
    # What the server says, or the beginning of a body of another shape.
    told = f"{message} ({name})" if name else body[:400].decode("utf-8", "replace")
    text += f": {told}" if told and (name or not body.lstrip().startswith(b"<")) else ""
    return Failure(
        kind, one_line(hide(text, *secrets), 400), HINTS[kind], retryable=status in RETRIED, unknown=status in _CHARGED
    )


def error_fields(body: bytes) -> tuple[str, str]:
    """``error.type`` and ``error.message`` of an error body; empty where it has another shape."""
    try:
        error: dict[str, Any] = json.loads(body)["error"]
        return str(error["type"]), str(error["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return "", ""


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
    return Checked(name, True, note, _limit(found, "max_tokens"))


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
