"""What a model is asked: one request, text in (DESIGN 13 and 16, "request to the model")."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    """A block of the system prompt; ``cached`` puts a cache breakpoint at its end."""

    text: str
    cached: bool = False


@dataclass(frozen=True)
class Said:
    """A message: ``role`` is ``user`` or ``assistant``."""

    role: str
    text: str


@dataclass(frozen=True)
class Request:
    """One call. The messages alternate, the first and the last are the user's."""

    model: str
    max_tokens: int
    system: tuple[Block, ...]
    messages: tuple[Said, ...]
