"""The agent's part of a run: execute what it wrote, and give it the next item.

Most of cn's planners serve it alone. A run of a hub that feeds no agent (``interface: triage``)
does not import them: that is half of what it would import.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cn.protocol.queue_item import INPUT, OUTPUT, TURN, Turn

if TYPE_CHECKING:
    from cn.agent.queue import MayGive
    from cn.run.executor import Executor
    from cn.run.run import Run


def answered_turn(run: Run) -> Turn | None:
    """The item in flight, where an output waits for it."""
    if not _has_output(run):
        return None
    from cn.agent.queue import peek_turn, read_output

    return peek_turn(run.snapshot()) if read_output(run) is not None else None


def execute_output(run: Run, executor: Executor) -> str | None:
    """Execute what waits in ``state/output.md``; returns the line for the commit message."""
    if not _has_output(run):
        return None
    from cn.agent import execute

    return execute.execute_output(run, executor)


def update_queue(
    run: Run, executor: Executor, *, may_give: MayGive | None = None, keep_expired_turn: bool = False
) -> None:
    """Bring the queue up to date where this hub feeds an agent, or did until a moment ago.

    ``may_give`` tells whether the agent may have an item now; without it, it may. ``keep_expired_turn``: do
    not end a turn that is out of time.
    """
    fed = run.settings.config.interface == "queue"
    if fed or (run.hub.root / INPUT).exists() or executor.read(TURN) is not None:
        from cn.agent import queue

        queue.update_queue(run, executor, may_give=may_give, keep_expired_turn=keep_expired_turn)


def _has_output(run: Run) -> bool:
    return os.path.lexists(run.hub.root / OUTPUT)
