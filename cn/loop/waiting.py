"""What waited for origin is said by the run that reaches it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from cn.actions.drafts import is_said, is_same, part_of, take_back
from cn.git.repository import Hub
from cn.outbox.deliver import deliver
from cn.protocol.draft import parse_draft
from cn.protocol.layout import DRAFTS
from cn.run.memory import Condition
from cn.run.run import Run, open_run
from cn.run.snapshot import Snapshot
from cn.threads.drafts import NOT_MADE_HERE, list_drafts, read_draft, strange_files
from cn.transaction.protected_files import is_made_here
from cn.values.errors import Blocked, Refused, UsageError
from cn.values.names import HubPath
from cn.values.record_header import RecordRefused
from cn.values.report import Report
from cn.values.shell_words import command
from cn.values.text import one_line


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
    found: dict[str, Condition] = {}
    for path in list_drafts(run.snapshot):
        if run.snapshot.blob(path) is None:
            continue  # another clone has said it meanwhile
        try:
            _say_draft(run, path)
        except Blocked:
            raise  # it is not the draft that keeps it from being said
        except (Refused, RecordRefused, UsageError) as why:
            remedy = f"{command('rm -- {}', path)} takes it back; else {why.hint or 'mend it'}"
            found[path] = Condition(f"{path} is not said: {why.text}", remedy)
    # What this clone's main has as a draft goes with it, once origin's main has taken that over.
    for name in strange_files(run.hub, run.placed, Snapshot(run.hub.git, run.base.local)):
        path = HubPath(f"{DRAFTS}/{one_line(name, 120)}")
        found[path] = Condition(
            f"{path} is no draft of cn's, and is not said", "move it elsewhere; 'cn send' says something"
        )
    for told in found.values():
        before = run.memory.told("draft said", told.text) and not tell
        run.report.refused(told.text, told.remedy, told_before=before)
    run.memory.conditions.replace("drafts", found)


def _say_draft(run: Run, path: HubPath) -> None:
    from cn.actions.mail import SAYS  # nearly never needed
    from cn.actions.threads import OPENS

    kept = read_draft(run.hub, run.snapshot, path, run.placed)
    if kept.here is None:
        take_back(run, kept)
        return
    draft = before = parse_draft(kept.here)
    if edited := kept.here != kept.data:
        with suppress(RecordRefused):
            before = parse_draft(kept.data)
            draft = replace(draft, tried=before.tried)
    said = is_said(run, draft)
    is_other = not is_same(before, draft) or draft.called not in ("", draft.to)
    if (is_other or not said) and not is_made_here(run.hub, run.snapshot.commit, path):
        raise Refused(NOT_MADE_HERE, "the clone in which it was written says it; or say it yourself, then remove it")
    if said and is_other:
        told = f"what {path} said, {before.what}, had come to origin before it was edited here"
        run.report.info(f"{told}: what it says now goes besides")
        draft, said = replace(draft, tried=""), False
    elif edited and not said:
        run.report.info(f"{path} was edited here: it is said as it is now")
    acts = {**SAYS, **OPENS}
    if draft.act not in acts:
        raise Refused(f"nobody says {one_line(draft.act, 20)!r} here")
    if said:
        run.commit(part_of(run, kept, draft, lambda _: None))
    else:
        acts[draft.act](run, draft, lambda plan: run.commit(part_of(run, kept, draft, plan)))
