"""``cn inbox sync`` and ``cn sync``: fetch, write thread files, log, wake the agent, retry the outbox."""

from __future__ import annotations

from collections.abc import Iterable

from cn.agent.hooks import feed
from cn.agent.wake import wake
from cn.git.repository import Hub
from cn.inbox.arrivals import plan_arrivals, plan_vanished
from cn.inbox.due import plan_times
from cn.inbox.restore import plan_restore
from cn.inbox.superseded import set_aside
from cn.inbox.working_copies import has_triage, report_blocked, report_unknown, restore_missing
from cn.loop.idle_note import Watch
from cn.outbox.deliver import deliver
from cn.outbox.our_branches import plan_claims, plan_ours
from cn.peers.observe import Observation, bring, observe, report_strays
from cn.peers.refused_arrivals import note_arrivals, note_names
from cn.run.executor import Executor
from cn.run.run import Run, open_run
from cn.threads.rotate import plan_rotation
from cn.transaction.housekeeping import sweep_kept, sweep_stale, tidy
from cn.values.names import Name, ThreadName
from cn.values.report import Progress, Report


def sync(
    hub: Hub,
    *,
    only: Iterable[Name] | None = None,
    force: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Report:
    """One sync. ``only`` limits it to some peers, ``force`` ignores back-off."""
    report = Report()
    watch = None if only is not None or force or dry_run else Watch(hub.root)
    with open_run(hub, report, dry_run=dry_run, progress=progress) as run:
        chosen = None if only is None else [run.settings.peer(name).name for name in only]
        seen = observe(
            run.hub,
            run.settings,
            run.memory,
            report,
            run.now,
            only=chosen,
            force=force,
            down=run.down,
            progress=progress,
        )
        keys = bring(run.hub, run.settings, seen, report, run.memory, progress=progress)
        report_strays(seen, run.settings.us, report, run.memory)

        run.commit(lambda executor: plan_sync(run, executor, seen, keys))
        check_inbox(run)
        deliver(run, force=force)
        if not dry_run and run.memory.begin_day("sweep"):
            sweep_stale(run.hub)
            sweep_kept(run.hub)
        report.untidy = not dry_run and run.memory.begin_hour("tidy")
        if watch is not None:
            run.memory.save()
            watch.note(run, seen)
    if not dry_run:
        wake(hub, report)
    return report


def finish(hub: Hub, report: Report) -> None:
    """What can wait until the report was shown, and needs no lock."""
    if report.untidy:
        tidy(hub)


def plan_sync(run: Run, executor: Executor, seen: Observation, keys: list[tuple[Name, str]]) -> str | None:
    """All that a sync decides, on one base."""
    plan_vanished(executor, seen)
    plan_arrivals(executor, seen, keys)
    plan_ours(executor, seen)
    plan_claims(executor, seen)
    plan_times(executor)
    plan_restore(executor)
    feed(run, executor)
    for one in executor.refused:
        run.memory.tell_once("arrival", *one.key, one.head)
    note_arrivals(run, seen, keys, executor.refused)
    note_names(run, seen)
    if not executor.empty and run.memory.begin_day("rotation"):
        plan_rotation(executor)
    arrived = sum(row.decision in ("received", "rewritten", "moved") for row in executor.rows)
    return f"cn: sync, {arrived} new" if arrived else "cn: sync"


def check_inbox(run: Run) -> None:
    """Working copies: put back what is missing, name what is unknown."""
    snapshot = run.snapshot()
    pending = snapshot.pending()
    restore_missing(run.hub, snapshot, pending, run.report, dry_run=run.dry_run)
    report_blocked(run.hub, pending, run.report, run.memory)
    for late in report_unknown(run.hub, snapshot, pending, run.report, run.memory):
        set_aside(run, late)
    for peer, item in pending:
        name = ThreadName(item.get("thread"))
        if item.get("rule") and has_triage(run.hub, name, snapshot.algorithm):
            text = f"{peer}/{item.topic} stays refused: {item.get('rule')}: {item.get('why')}"
            run.report.refused(text, item.get("remedy"), source=f"{peer}/{item.topic}", told_before=True)
