"""``cn inbox sync`` and ``cn sync``: fetch, write thread files, log, wake the agent, retry the outbox."""

from __future__ import annotations

from collections.abc import Iterable

from cn.agent.hooks import update_queue
from cn.agent.wake import wake
from cn.git.repository import Hub
from cn.inbox.arrivals import record_arrivals, record_vanished
from cn.inbox.check_inbox import check_inbox
from cn.inbox.due import record_due
from cn.inbox.restore import restore_pending
from cn.loop.idle_note import IdleNote
from cn.outbox.deliver import deliver
from cn.outbox.our_branches import record_ours, record_proven
from cn.peers.fetch_changed import fetch_changed, note_refused
from cn.peers.observe import Observation, observe, report_strays
from cn.run.executor import Executor
from cn.run.run import Run, open_run
from cn.threads.rotate import rotate
from cn.transaction.housekeeping import sweep_kept, sweep_stale, tidy
from cn.values.names import Name
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
    note = None if only is not None or force or dry_run else IdleNote(hub.root)
    with open_run(hub, report, dry_run=dry_run, progress=progress) as run:
        chosen = None if only is None else [run.settings.peer(name).name for name in only]
        seen = observe(run, only=chosen, force=force)
        keys = fetch_changed(run, seen)
        report_strays(run, seen)
        run.commit(lambda executor: gather_sync(run, executor, seen, keys))
        if note is not None:
            note.placed()
        check_inbox(run)
        deliver(run, force=force)
        if not dry_run and run.memory.begin_day("sweep"):
            sweep_stale(run.hub)
            sweep_kept(run.hub)
        report.untidy = not dry_run and run.memory.begin_hour("tidy")
        if note is not None:
            run.memory.save()
            note.write(run, seen)
    if not dry_run:
        wake(hub, report)
    return report


def finish(hub: Hub, report: Report) -> None:
    """What can wait until the report was shown, and needs no lock."""
    if report.untidy:
        tidy(hub)


def gather_sync(run: Run, executor: Executor, seen: Observation, keys: list[tuple[Name, str]]) -> str | None:
    """All that a sync decides, on one base."""
    record_vanished(executor, seen)
    refused = record_arrivals(executor, seen, keys)
    record_ours(executor, seen)
    record_proven(executor, seen)
    record_due(executor)
    restore_pending(executor)
    update_queue(run, executor)
    for one in refused:
        run.memory.tell_once("arrival", *one.key, one.head)
    note_refused(run, seen, keys, refused)
    if not executor.empty and run.memory.begin_day("rotation"):
        rotate(executor)
    arrived = sum(row.decision in ("received", "rewritten", "moved") for row in executor.rows)
    return f"cn: sync, {arrived} new" if arrived else "cn: sync"
