"""By what an agent proves who it is: random bytes that it is given, whose hash alone is recorded with its lease."""

from __future__ import annotations

import hashlib
import os

from cn.agency.operations import ByHandler
from cn.agency.rows import Facts

_BYTES = 32


def new_token() -> str:
    """64 hexadecimal digits that nobody else knows."""
    return os.urandom(_BYTES).hex()


def hash_token(token: str) -> str:
    """Its SHA-256, as a lease has it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def principal_of_token(token: str, facts: Facts) -> ByHandler | None:
    """The live agent that was given it; None for one that ended, was guessed, or was never given out."""
    agent = facts.agent_of(hash_token(token))
    return ByHandler(agent.handler, agent.tenure, agent.id) if agent else None
