"""No model answered an agent: that is nobody's fault who works here, and no attempt (``docs/agency.md``).

The builtin agent tells it by its exit code, Claude Code by its last line; of other programs nobody knows. The reason of
the agent's end begins with :data:`UNANSWERED` then. All agents of that runner ask the same API, so none is started for
some minutes, and then it is asked again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from cn.llm.request import Failure, Kind
from cn.values.timestamps import format_second

UNANSWERED: Final = "no model answered"
EXIT_UNANSWERED: Final = 69
"""``EX_UNAVAILABLE`` of sysexits.h."""
LONGEST: Final = timedelta(minutes=10)
_AGAIN: Final = "it is tried again in some minutes"
_SERVERS: Final = "of the environment of 'cn agency serve'"
_HINTS: Final = {
    Kind.AUTH: f"look at ANTHROPIC_KEY {_SERVERS}",
    Kind.PERMISSION: "look in the console of the API: the key may not do this, or its account is not paid",
    Kind.NOT_FOUND: f"correct 'model' of the runner in agency.toml, or ANTHROPIC_BASE_URL {_SERVERS}",
    Kind.RATE_LIMITED: f"{_AGAIN}; fewer agents at once ask less (git config agency.agents)",
    Kind.OVERLOADED: _AGAIN,
    Kind.SERVER: _AGAIN,
    Kind.NETWORK: f"look at the network, and at ANTHROPIC_BASE_URL {_SERVERS} where it is set; {_AGAIN}",
    Kind.TIMEOUT: _AGAIN,
}
"""Failures that no agent can do anything about, with the next step for who runs the server."""


class Away(NamedTuple):
    """Since so many attempts no model answered agents of a runner: the next one, and why."""

    times: int
    until: datetime
    why: str

    @property
    def told(self) -> str:
        """For status and doctor."""
        return f"{self.why}; agents of its runner are started again at {format_second(self.until)}"


def told_failure(failure: Failure) -> str:
    """Why an agent ends without an answer; what no other agent would meet is its own failure."""
    hint = _HINTS.get(failure.kind)
    return f"{UNANSWERED}: {failure.text}; {hint}" if hint else f"failed: {failure.text}"


def wait_longer(before: Away | None, why: str, now: datetime, first: float) -> Away:
    """After another agent that no model answered; ``first`` is the first wait in seconds, each is twice the last."""
    if before and now < before.until:  # several were at work
        return before._replace(why=why)
    times = before.times + 1 if before and now - before.until < LONGEST else 1
    wait = min(timedelta(seconds=first * float(1 << min(times - 1, 20))), LONGEST)
    return Away(times, now + wait, why)
