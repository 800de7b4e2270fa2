"""Write what calls to the model used, count it against budgets, sum it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cn.llm.budgets import Budgets, budget_since, check_budgets
from cn.llm.request import Answer, Failure
from cn.llm.usage_events import EVENT, By, Call, Sum, end_call, format_call, parse_call, sum_calls, sum_usage
from cn.run.executor import MACHINE_LOG
from cn.run.machine_log import machine_lines
from cn.system.clock import now
from cn.system.files import append_line

_ROTATED = 3
_MARK = f'"event": "{EVENT}"'.encode()


@dataclass(frozen=True)
class UsageView:
    """Sums of the calls since a time (None: all that are known), and of all of them."""

    by: By
    since: datetime | None
    rows: tuple[Sum, ...]
    total: Sum


def ask_counted(root: Path, begun: Call, ask: Callable[[], Answer | Failure]) -> tuple[Answer | Failure, Call]:
    """Make a call that counts, even if this process dies meanwhile; what came of it, and its event.

    Raises :class:`CnError` before the call where it could not be written down.
    """
    log_call(root, begun)
    outcome = ask()
    call = end_call(begun, outcome, now())
    log_call(root, call)
    return outcome, call


def log_call(root: Path, call: Call) -> None:
    """Write a call to the machine log, at once: what was paid counts, whatever becomes of the answer."""
    append_line(root / MACHINE_LOG, format_call(call), root=root)


def read_calls(root: Path, since: datetime | None = None) -> list[Call]:
    """The calls that the machine log of the hub at ``root`` still knows, oldest first."""
    found: dict[str, Call] = {}
    for number, line in enumerate(machine_lines(root, rotated=_ROTATED)):
        call = parse_call(line) if _MARK in line else None
        if call is not None:
            found[call.id or str(number)] = call  # how it ended takes the place of how it began
    return [call for call in found.values() if since is None or call.at >= since]


def over_budget(root: Path, budgets: Budgets, peer: str, at: datetime) -> str:
    """Which budget stops a call for ``peer`` at that time; empty: none. To be asked before every call."""
    return check_budgets(read_calls(root, budget_since(at)), budgets, peer, at)


def read_usage(root: Path, by: By, since: datetime | None = None) -> UsageView:
    """What ``cn usage`` shows."""
    calls = read_calls(root, since)
    return UsageView(by, since, tuple(sum_usage(calls, by)), sum_calls(calls, "total"))
