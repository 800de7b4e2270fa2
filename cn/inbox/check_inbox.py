"""The inbox of the work tree after a run's commit: what is missing comes back, what does not belong is reported."""

from __future__ import annotations

import os
from dataclasses import replace

from cn.inbox.plan.arrivals import plan_restored
from cn.inbox.superseded import set_aside
from cn.inbox.working_copies import has_triage, unknown_files, versions
from cn.protocol.layout import DONE, INBOX, done_path, inbox_path
from cn.protocol.ledger import Item
from cn.run.executor import Executor
from cn.run.memory import Condition
from cn.run.run import Run
from cn.system.files import write_file
from cn.transaction.unplaced import read_left
from cn.values.names import Name, ThreadName
from cn.values.text import visible


def restore_pending(executor: Executor) -> None:
    """Every open thread of the ledger is in the inbox of main, or is put there again.

    Its text is taken from ``done/`` if somebody moved it there by hand, else from the last
    commit of main that had it.
    """
    pending = list(executor.snapshot.pending())
    lost: dict[str, Condition] = {}
    there = {e.path for e in executor.snapshot.folder(INBOX) if e.kind == "blob"} if pending else set()
    for peer, item in pending:
        name = ThreadName(item.get("thread"))
        if name in there or inbox_path(name) in executor.changed or executor.item(peer, "in", item.topic) is None:
            continue
        moved = executor.snapshot.read(done_path(name))
        data = moved if moved is not None else next(iter(versions(executor.snapshot, inbox_path(name))), None)
        if data is None:
            text = f"{inbox_path(name)} is lost from main and its history"
            lost[f"{name} {item.head}"] = Condition(text, "'cn doctor' tells more")
            continue
        text = data.decode("utf-8", "replace")
        executor.perform(plan_restored(peer, item, executor.now, text, done_path(name) if moved is not None else None))
        executor.notes.info(f"{inbox_path(name)} was gone from main; restored")
    executor.memory.conditions.tell("lost", lost, executor.notes)


_Pending = list[tuple[Name, Item]]


def check_inbox(run: Run) -> None:
    """Restore what is missing, report what stands in the way, is unknown, or stays refused."""
    run = replace(run, base=run.placed)
    snapshot = run.snapshot()
    pending = snapshot.pending()
    _restore_missing(run, pending)
    _report_blocked(run, pending)
    _report_unknown(run, pending)
    for peer, item in pending:
        name = ThreadName(item.get("thread"))
        if item.get("rule") and has_triage(run.hub, name, snapshot.algorithm):
            text = f"{peer}/{item.topic} stays refused: {item.get('rule')}: {item.get('why')}"
            run.report.refused(text, item.get("remedy"), source=f"{peer}/{item.topic}", told_before=True)


def _restore_missing(run: Run, pending: _Pending) -> None:
    """Put back working copies of pending threads that somebody removed or moved away."""
    root, snapshot = run.hub.root, run.snapshot()
    names = [ThreadName(item.get("thread")) for _, item in pending]
    missing = [name for name in names if not os.path.lexists(root / inbox_path(name))]
    if missing:  # those that cannot be written are told of, and tried again, elsewhere
        missing = [name for name in missing if inbox_path(name) not in read_left(run.hub)]
    snapshot.read_many(inbox_path(name) for name in missing)
    for name in missing:
        data = snapshot.read(inbox_path(name))
        if data is None:
            continue
        if run.dry_run:
            run.report.plan(f"restore the missing {inbox_path(name)}")
        else:
            write_file(root / inbox_path(name), data, root=root)
            run.report.info(f"{inbox_path(name)} was missing; restored from main")


def _report_blocked(run: Run, pending: _Pending) -> None:
    """Name what stands in the place of a pending thread and is no file, so that nobody can decide it."""
    found: dict[str, Condition] = {}
    for peer, item in pending:
        path = inbox_path(ThreadName(item.get("thread")))
        here = f"{run.hub.root}/{path}"
        plain = os.path.isfile(here) and not os.path.islink(here)  # of what nobody can tell nothing is said
        if os.path.lexists(here) and not plain and path not in read_left(run.hub):  # that is told elsewhere
            kind = "a symlink" if os.path.islink(here) else "a folder" if os.path.isdir(here) else "no file"
            text = f"{path} is {kind} in the work tree: the thread cannot be read or decided there"
            remedy = f"move {path} out of the way; the next run puts the thread there"
            found[path] = Condition(text, remedy, f"{peer}/{item.topic}")
    run.memory.conditions.tell("blocked", found, run.report)


def _report_unknown(run: Run, pending: _Pending) -> None:
    """Name files in the inbox that no ledger knows. They are never executed.

    Threads that are done, and were edited here while another clone decided them, or that an editor saved
    once more, are set aside: they would stand in the way for ever.
    """
    snapshot = run.snapshot()
    unknown = unknown_files(run.hub, snapshot, pending)
    done = {e.path for e in snapshot.folder(DONE)} if unknown else set()
    for name in unknown:
        path = run.hub.root / INBOX / name
        if name in done and path.is_file() and not path.is_symlink():
            set_aside(run, ThreadName(name))
            continue
        run.report.refused(
            f"{INBOX}/{visible(name)} is no thread cn knows; it is not executed",
            "move it elsewhere, for example to threads/adhoc/",
            told_before=not run.memory.tell_once("stray", name),
        )
