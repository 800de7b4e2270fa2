"""Processes that stand still for a while, as Ctrl-Z, a debugger or a machine that sleeps make them."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def family(pid: int) -> list[int]:
    """A process and all that it started, as far as it lives (proc(5), ``/proc/PID/stat``), parents first."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = stat.read_text("utf-8", "replace").rpartition(")")[2].split()[1]
            children.setdefault(int(parent), []).append(int(stat.parent.name))
    found = [pid]
    for one in found:
        found += children.get(one, ())
    return found


def freeze(pid: int) -> list[int]:
    """Stop it and all that it started; what to give to :func:`thaw`."""
    stopped: list[int] = []
    for _ in range(2):  # what one of them started before it stood still stands still the second time
        for one in family(pid):
            if one not in stopped and signalled(one, signal.SIGSTOP):
                stopped.append(one)
    return stopped


def thaw(stopped: list[int]) -> None:
    for one in stopped:
        signalled(one, signal.SIGCONT)


def signalled(pid: int, number: signal.Signals) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False
