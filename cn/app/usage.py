"""What calls to the model used: written, counted against budgets, summed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cn.app.book import MACHINE_LOG
from cn.app.machine_log import machine_lines
from cn.core.budget import Budgets, budget_since, check_budgets
from cn.core.usage import EVENT, By, Call, Sum, format_call, parse_call, sum_calls, sum_usage
from cn.shell.files import append_line

_ROTATED = 3
_MARK = f'"event": "{EVENT}"'.encode()


@dataclass(frozen=True)
class UsageView:
    """Sums of the calls since a time (None: all that are known), and of all of them."""

    by: By
    since: datetime | None
    rows: tuple[Sum, ...]
    total: Sum


def log_call(root: Path, call: Call) -> None:
    """Write a call to the machine log, at once: what was paid counts, whatever becomes of the answer."""
    append_line(root / MACHINE_LOG, format_call(call), root=root)


def read_calls(root: Path, since: datetime | None = None) -> list[Call]:
    """The calls that the machine log of the hub at ``root`` still knows, oldest first."""
    found = (parse_call(line) for line in machine_lines(root, rotated=_ROTATED) if _MARK in line)
    return [call for call in found if call is not None and (since is None or call.at >= since)]


def over_budget(root: Path, budgets: Budgets, peer: str, now: datetime) -> str:
    """Which budget stops a call for ``peer`` now; empty: none. To be asked before every call."""
    return check_budgets(read_calls(root, budget_since(now)), budgets, peer, now)


def read_usage(root: Path, by: By, since: datetime | None = None) -> UsageView:
    """What ``cn usage`` shows."""
    calls = read_calls(root, since)
    return UsageView(by, since, tuple(sum_usage(calls, by)), sum_calls(calls, "total"))
