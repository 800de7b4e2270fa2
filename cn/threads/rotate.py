"""Move what is older than a quarter of a year to a folder of its year."""

from __future__ import annotations

from datetime import timedelta

from cn.protocol.cadence import REFLECTIONS, Cadence
from cn.protocol.effects import Move, Plan
from cn.protocol.layout import DONE, SENT
from cn.protocol.own_thread import DONE_CONCERNS
from cn.protocol.queue_item import LOGS
from cn.run.executor import Executor
from cn.values.names import HubPath
from cn.values.timestamps import format_day

DAILY = HubPath(f"{REFLECTIONS}/{Cadence.DAILY.value}")
_QUARTER = timedelta(days=92)
_MOST = 500


def rotate(executor: Executor) -> None:
    """Move at most a bounded number of old files of ``done/`` and ``sent/`` to ``YYYY/``."""
    limit = format_day(executor.now - _QUARTER)
    for folder in (DONE, SENT, *LOGS.values(), DAILY, DONE_CONCERNS):
        names = [e.path for e in executor.snapshot.folder(folder) if e.kind == "blob"]
        old = [n for n in names if n[:8].isdigit() and n[:8] < limit and f"{folder}/{n}" not in executor.changed]
        old = sorted(old)[:_MOST]
        for name in old:
            new = HubPath(f"{folder}/{name[:4]}/{name}")
            executor.perform(Plan(folder, (Move(HubPath(f"{folder}/{name}"), new),)))
