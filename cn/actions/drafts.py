"""What a person says while origin does not answer: it waits in main here until a run reaches origin."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from cn.git.repository import Hub
from cn.outbox.deliver import deliver
from cn.protocol.draft import Draft, format_draft
from cn.protocol.effects import Plan, Put
from cn.run.executor import Executor
from cn.run.find_thread import look_for_pending
from cn.run.run import Run, open_run
from cn.transaction.base import OriginUnreachable
from cn.values.errors import Refused
from cn.values.report import Report
from cn.values.text import one_line

Planner = Callable[[Executor], str | None]
Commit = Callable[[Planner], None]
"""Makes one commit of what a planner performs: :meth:`~cn.run.run.Run.commit`, or a part of it."""


Say = Callable[[Run, Draft, Commit], None]
"""Plans what a draft says, and commits it."""


def say_now_or_later(hub: Hub, draft: Draft, say: Say, *, dry_run: bool) -> Report:
    """Say and deliver it; where origin does not answer, look whether it would be said, and let it wait.

    Raises :class:`Refused` with the rule that forbids it.
    """
    try:
        with open_run(hub, dry_run=dry_run, hope=draft.act == "send") as run:  # what others decided matters to the rest
            say(run, draft, run.commit)
            deliver(run)
        return run.report
    except OriginUnreachable as gone:
        with open_run(hub, dry_run=dry_run, offline=True) as run:
            say(run, draft, lambda plan: _try(run, plan))
            run.commit(lambda executor: _keep(executor, _as_seen(run, draft)))
        if not run.dry_run:
            run.report.info(f"{gone.text}; the {draft.act} waits here, and goes when origin answers", source=draft.to)
        return run.report


def _as_seen(run: Run, draft: Draft) -> Draft:
    """With what it is about as it is now: it may be another matter when origin answers."""
    with suppress(Refused):
        if draft.act != "send" and (found := look_for_pending(run.snapshot, draft.to)):
            return replace(draft, thread=found[1].get("thread"), head=found[1].head)
    return draft


def is_as_seen(run: Run, draft: Draft) -> bool:
    """Is the thread that waits under this name the one that it is about, at the head that was seen?"""
    found = look_for_pending(run.snapshot, draft.to) if draft.head else None
    return found is None or (found[1].get("thread"), found[1].head) == (draft.thread, draft.head)


def _try(run: Run, plan: Planner) -> None:
    """Let a planner refuse; what it performs is thrown away."""
    plan(run.executor())


def _keep(executor: Executor, draft: Draft) -> str:
    executor.perform(Plan(draft.to, (Put(draft.path, format_draft(draft).decode()),)))
    return f"cn: {draft.act} to {one_line(draft.to, 60)} waits for origin"
