"""What waited for origin is said by the run that reaches it."""

from __future__ import annotations

from functools import partial

from cn.actions.drafts import Planner
from cn.git.repository import Hub
from cn.outbox.deliver import deliver
from cn.protocol.draft import parse_draft
from cn.protocol.effects import Drop, Plan
from cn.protocol.layout import DRAFTS
from cn.run.executor import Executor
from cn.run.memory import Condition
from cn.run.run import Run, open_run
from cn.values.errors import Refused, UsageError
from cn.values.names import HubPath
from cn.values.record_header import RecordRefused
from cn.values.report import Report
from cn.values.shell_words import command


def flush(hub: Hub, *, dry_run: bool = False) -> Report:
    """Say what waits, and deliver the outbox now, whatever the back-off says."""
    with open_run(hub, dry_run=dry_run) as run:
        say_drafts(run, tell=True)
        deliver(run, force=True)
    return run.report


def say_drafts(run: Run, *, tell: bool = False) -> None:
    """Say what waits, each in one commit with the end of its draft. One that is refused stays, and is told once, or
    now (``tell``).
    """
    if not run.snapshot.folder(DRAFTS):
        run.memory.conditions.replace("drafts", {})
        return
    from cn.actions.mail import SAYS  # nearly never needed

    refused = {}
    for entry in list(run.snapshot.folder(DRAFTS)):
        path = HubPath(f"{DRAFTS}/{entry.path.rpartition('/')[2]}")
        data = run.snapshot.read(path)
        if data is None:
            continue  # another clone has said it meanwhile
        try:
            draft = parse_draft(data)
            SAYS[draft.act](run, draft, partial(_say, run, path))
        except KeyError as unknown:
            refused[path] = Condition(
                f"{path}: {unknown} is not said here", f"{command('git rm -- {}', path)} drops it"
            )
        except (Refused, RecordRefused, UsageError) as why:
            remedy = f"{command('git rm -- {}', path)}, committed, drops it; else {why.hint or 'mend it'}"
            refused[path] = Condition(f"{path} is not said: {why.text}", remedy)
    for path, told in refused.items():
        run.report.refused(
            told.text, told.remedy, told_before=run.memory.told("draft said", path, told.text) and not tell
        )
    run.memory.conditions.replace("drafts", {str(path): told for path, told in refused.items()})


def _say(run: Run, path: HubPath, plan: Planner) -> None:
    def whole(executor: Executor) -> str | None:
        if executor.snapshot.blob(path) is None:
            return None  # another clone said it, and was first at origin
        executor.perform(Plan(path, (Drop(path),)))
        return plan(executor)

    run.commit(whole)
