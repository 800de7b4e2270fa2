"""Which runner an underling gets that an agent delegates to: never one that this machine does not let it choose.

A runner may run programs, use the network, or cost more than another; what works for whom is the user's to say. So an
agent gives on its own, or a person, or one that its own runner's table names in ``underlings``.
"""

from __future__ import annotations

from cn.agency.plan.result import Refused
from cn.agency.rows import Handler
from cn.agents.machine import PERSON, Machine

RULE = "runner"


def runner_for_underling(machine: Machine, handler: Handler, wanted: str) -> str | Refused:
    """The runner as it is recorded, for what ``handler``'s agent asks; ``wanted`` empty: it named none."""
    own = machine.runner(handler.runner)
    if wanted in ("", handler.runner, own.name if own else ""):
        return handler.runner
    named = own.underlings if own else ()
    if wanted == PERSON or wanted in named:
        return wanted
    mine = own.name if own else handler.runner or machine.default
    allowed = ", ".join(dict.fromkeys((mine, PERSON, *named)))
    why = f"an agent of runner {mine} may name {allowed} for an underling, and not {wanted[:60]!r}"
    remedy = f"leave 'runner' out; the user allows more by 'underlings' in [runners.{mine}] of agency.toml"
    return Refused(RULE, why, remedy, handler.boss)
