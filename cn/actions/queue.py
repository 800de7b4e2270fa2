"""``cn next`` and ``cn queue``: give the agent its next item, and change the queue by hand."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from cn.agent.hooks import update_queue, wake
from cn.agent.plan.turns import plan_cleared, plan_retry, source_of
from cn.agent.queue import current_turn, known_ids, places, read_queued, require_given, require_queue
from cn.git.repository import Hub
from cn.protocol.effects import Drop, Plan
from cn.protocol.own_thread import parse_own
from cn.protocol.queue_item import DEAD, QUEUE, Input, new_input_id
from cn.run.executor import Executor
from cn.run.run import Run, open_run, run_once
from cn.values.errors import Refused
from cn.values.record_header import RecordRefused
from cn.values.report import Report
from cn.values.text import one_line


def next_item(hub: Hub, *, dry_run: bool = False) -> Report:
    """Give the agent the next item, if it has none."""

    def plan(run: Run, executor: Executor) -> str | None:
        require_given(run)
        before = current_turn(executor)
        update_queue(run, executor)
        after = current_turn(executor)
        if after is None:
            executor.notes.info("nothing waits for the agent")
        elif before is not None and before.input.id == after.input.id:
            executor.notes.info(f"{source_of(after.input)} is the agent's input already ({after.input.id})")
        return "cn: next"

    return _and_wake(hub, plan, dry_run)


def _and_wake(hub: Hub, plan: Callable[[Run, Executor], str | None], dry_run: bool) -> Report:
    with open_run(hub, dry_run=dry_run) as run:
        run.commit(lambda executor: plan(run, executor))
    if not dry_run:
        wake(run)
    return run.report


def clear(hub: Hub, *, dry_run: bool = False) -> Report:
    """Take everything that waits out of the queue; the threads stay. What is in flight stays too."""

    def plan(run: Run, executor: Executor) -> str | None:
        paths = [path for _, path in places(executor, QUEUE)]
        for path in paths:
            try:
                executor.perform(plan_cleared(read_queued(executor, path), executor.now))
            except RecordRefused:
                executor.perform(Plan(path, (Drop(path),)))  # a damaged file waits for nobody
        if paths:
            back = "; 'cn queue retry' brings them back" if run.settings.config.interface == "queue" else ""
            executor.notes.done(f"took {len(paths)} out of the queue{back}")
        else:
            executor.notes.info("nothing waits in the queue")
        return f"cn: cleared {len(paths)} from the queue"

    return run_once(hub, plan, dry_run=dry_run)


def retry(hub: Hub, id: str, *, dry_run: bool = False) -> Report:
    """Queue a dead letter again, by its id or the name of its thread."""

    def plan(run: Run, executor: Executor) -> str | None:
        require_queue(run)
        asked = _find_dead(executor, id)
        source = source_of(asked)
        again = new_input_id(executor.now, (source, asked.head, secrets.token_hex(8)), known_ids(executor))
        data = None if asked.topic or not asked.path else executor.read(asked.path)
        own = None if data is None else parse_own(asked.path, data.decode("utf-8", "replace"))
        executor.perform(plan_retry(asked, again, executor.now, own))
        executor.notes.done(f"{source} waits again as {again}", source=source)
        update_queue(run, executor)
        return f"cn: retry {source}"

    return _and_wake(hub, plan, dry_run)


def _find_dead(executor: Executor, wanted: str) -> Input:
    for _, path in places(executor, DEAD):
        try:
            asked = read_queued(executor, path)
        except RecordRefused:
            continue
        if wanted in asked.names or wanted == source_of(asked):
            return asked
    raise Refused(f"no dead letter {one_line(wanted, 80)!r}", "'cn queue' lists them")
