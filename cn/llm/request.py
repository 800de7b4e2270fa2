"""One question to a model and its outcome: request, answer, failure (Messages API, "Create a Message").

The model is a function from text to text: no tools, no stream, one request. The bytes of
the request are made here, so that a dry run prints exactly what would be sent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any

from cn.values.errors import CnError
from cn.values.text import one_line

MAX_BREAKPOINTS = 4
_MOST_TOKENS = 10**12
"""A server may count whatever it likes; no price of more is a number."""
"""Cache breakpoints a request may have (Messages API, "Prompt caching")."""


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


def read_answer(data: bytes) -> Answer | Failure:
    """The body of a response with status 200. What cannot be read was charged none the less."""
    try:
        found = json.loads(data)
        blocks = [b for b in found["content"] if b["type"] == "text"]
        text = "".join(str(b["text"]) for b in blocks)
        usage = _read_usage(found["usage"])
        reason = str(found["stop_reason"])
        model, number = one_line(str(found["model"])), one_line(str(found["id"]))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
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


def _read_usage(found: dict[str, Any]) -> Usage:
    counts = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return Usage(*(min(max(0, int(found.get(count) or 0)), _MOST_TOKENS) for count in counts))


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
