"""One turn of a conversation with tools: request, answer (Messages API, "Tool use", "Prompt caching").

Blocks of an answer go back into the next request as they came, also those of kinds that are not known here, such as
thinking with its signature.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from cn.llm.request import COUNTS, HINTS, MOST_TOKENS, Block, Failure, Kind, Usage
from cn.values.text import one_line

Content = Mapping[str, Any]
"""A block of a message: ``{"type": "text", "text": …}``, ``tool_use``, ``tool_result`` …"""
END_TURN, TOOL_USE, MAX_TOKENS, PAUSE, FULL = (
    "end_turn",
    "tool_use",
    "max_tokens",
    "pause_turn",
    "model_context_window_exceeded",
)
"""Values of ``stop_reason``."""


class ToolCall(NamedTuple):
    """What the model wants to have done; ``id`` names it in the answer."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Conversation:
    """What the model is asked; messages and tools are as the API takes them."""

    model: str
    max_tokens: int
    system: tuple[Block, ...]
    tools: tuple[Mapping[str, Any], ...]
    messages: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Turn:
    """What the model said and wants; ``stop`` is the API's ``stop_reason``, the others as in an answer of text."""

    content: tuple[Content, ...]
    stop: str
    usage: Usage
    model: str
    id: str
    seconds: float = 0.0
    attempts: int = 1
    unknown: bool = False

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tools that it calls, in order."""
        used = (block for block in self.content if block.get("type") == "tool_use")
        return tuple(ToolCall(str(one["id"]), str(one["name"]), _object(one.get("input"))) for one in used)

    @property
    def is_whole(self) -> bool:
        """Did it end where the model meant to? The last call of one that was cut off may lack a part, unseen."""
        return self.stop in (TOOL_USE, END_TURN)

    @property
    def text(self) -> str:
        """What it says beside them."""
        return "".join(str(block.get("text", "")) for block in self.content if block.get("type") == "text")


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def conversation_json(asked: Conversation) -> str:
    """The body of ``POST /v1/messages``; all that does not change from turn to turn is cached.

    A breakpoint stands behind tools and system, and one behind the last message, which the next turn reads up to.
    """
    system = [{"type": "text", "text": block.text, **_mark(block.cached)} for block in asked.system]
    last = dict(asked.messages[-1])
    content = last["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else [dict(one) for one in content]
    blocks[-1] |= _mark(True)
    body = {
        "model": asked.model,
        "max_tokens": asked.max_tokens,
        "system": system,
        "tools": list(asked.tools),
        "messages": [*asked.messages[:-1], last | {"content": blocks}],
    }
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode("utf-8")


def _mark(cached: bool) -> dict[str, Any]:
    return {"cache_control": {"type": "ephemeral"}} if cached else {}


def read_turn(data: bytes) -> Turn | Failure:
    """The body of a response with status 200. What cannot be read was charged none the less."""
    try:
        found = json.loads(data)
        content = tuple(dict(block) for block in found["content"])
        usage = Usage(*(min(max(0, int(found["usage"].get(key) or 0)), MOST_TOKENS) for key in COUNTS))
        turn = Turn(
            content, str(found["stop_reason"]), usage, one_line(str(found["model"])), one_line(str(found["id"]))
        )
        if not all(call.id and call.name for call in turn.calls):
            raise ValueError("a call without a name")
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        text = "the answer is no message of the Messages API"
        return Failure(Kind.SERVER, text, HINTS[Kind.NOT_FOUND], unknown=True)
    return turn


def tool_result(call: ToolCall, text: str, *, is_error: bool) -> Content:
    """What a call gave, as a block of the next message."""
    return {"type": "tool_result", "tool_use_id": call.id, "content": text, **({"is_error": True} if is_error else {})}
