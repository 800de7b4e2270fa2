"""Pending threads that nobody touched: due ones return, missing ones come back, strangers are named."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from cn.inbox.arrivals import assigned_to
from cn.inbox.plan.arrivals import plan_restored, plan_returned
from cn.inbox.superseded import set_aside
from cn.inbox.working_copies import has_triage, unknown_files, unread, versions
from cn.outbox.plan.receipts import clean_up
from cn.protocol import rules
from cn.protocol.effects import Plan
from cn.protocol.layout import DONE, INBOX, done_path, inbox_path, returned_text
from cn.protocol.ledger import IN, OUT, Item
from cn.protocol.outbox_entry import take_out
from cn.run.executor import Executor
from cn.run.memory import Condition, Memory
from cn.run.run import Run
from cn.run.snapshot import Snapshot
from cn.system.files import write_file
from cn.transaction.unplaced import read_unplaced
from cn.values.names import HubPath, Name, ThreadName
from cn.values.report import Mark
from cn.values.text import visible
from cn.values.timestamps import StampRefused, format_second, is_old, parse_stamp

_A_DAY = timedelta(days=1)


def record_due(executor: Executor) -> None:
    """What nobody's decision brings about: deferred threads return when it is time, and assigned ones when their
    reviewer is none any more; old notices are cleaned up.
    """
    for peer, known in executor.snapshot.pending():
        item = executor.item(peer, IN, known.topic)  # this very run may have refreshed or ended it
        if item is not None and item.is_due(executor.now):
            executor.perform(plan_returned(peer, item, executor.now))
            executor.notes.done(f"{item.get('thread')} returns: {returned_text('')}", source=f"{peer}/{item.topic}")
        elif item is not None and item.state == "assigned" and not assigned_to(executor, item):
            executor.perform(plan_returned(peer, item, executor.now))
            why = returned_text(item.get("actor"))
            executor.notes.done(f"{item.get('thread')} returns: {why}", source=f"{peer}/{item.topic}")
    days = executor.settings.config.notice_days
    old: dict[str, tuple[Name, Item]] = {}
    for peer, known in executor.snapshot.outbound():
        item = executor.item(peer, OUT, known.topic)
        if item is None:
            continue
        answer = item.get("about") or item.get("kind") == "notice"
        ended = item.state in ("delivered", "answered") and peer in executor.settings.peers
        if answer and ended and is_old(item.since, executor.now, days):
            old[f"{peer}/{item.topic} {item.head}"] = (peer, item)
    for key in sorted(_due_for_a_day(executor.memory, old, executor.now)):
        peer, item = old[key]
        source = f"{peer}/{item.topic}"
        executor.perform(Plan(source, (clean_up(peer, item, executor.now, f"older than {days} days", source),)))


def _due_for_a_day(memory: Memory, keys: Iterable[str], now: datetime) -> set[str]:
    """Of all that is due now: what was due a day ago too, and whenever cn looked since.

    So a clock that jumped ahead, and is set right within that day, has brought nothing about.
    """
    entries = memory.section("due")
    before = due_since(entries)
    since = {key: at if (at := before.get(key)) and at <= now else now for key in keys}
    entries.clear()
    entries.update({key: format_second(at) for key, at in since.items()})
    return {key for key, at in since.items() if now - at >= _A_DAY}


def due_since(entries: Mapping[str, object]) -> dict[str, datetime]:
    """Since when cn has seen what is due: ``peer/topic head`` of the notice."""
    with suppress(StampRefused):
        return {key: parse_stamp(str(at)) for key, at in entries.items()}
    return {}


def restore_pending(executor: Executor) -> None:
    """Every open thread of the ledger is in the inbox of main, or is put there again.

    Its text is taken from ``done/`` if somebody moved it there by hand, else from the last
    commit of main that had it.
    """
    pending = list(executor.snapshot.pending())
    lost: dict[str, Condition] = {}
    there = {e.path for e in executor.snapshot.folder(INBOX) if e.kind == "blob"} if pending else set()
    for peer, item in pending:
        name = ThreadName(item.fields["thread"])
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


_Pending = list[tuple[str, Item, HubPath]]
"""``peer/topic``, what the ledger has of it, and where its thread lies."""


DECLINED = "declined"
"""The kind of condition that origin takes no commit with what is decided about a thread, by :func:`declined_name`."""


def declined_name(peer: str, topic: str, head: str) -> str:
    """The name of such a condition: what is decided about another head is another decision."""
    return f"{peer}/{topic} {head}"


def forget_declined(run: Run) -> None:
    """What origin took no decision about, and is over, or has moved on, needs nothing any more."""
    conditions = run.memory.conditions
    if names := conditions.names(DECLINED):
        waiting = {declined_name(peer, item.topic, item.head) for peer, item in run.placed.pending()}
        for name in names:
            if name not in waiting:
                conditions.clear(DECLINED, name)


def check_inbox(run: Run) -> None:
    """Restore what is missing, report what stands in the way, is unknown, or stays refused."""
    forget_declined(run)
    snapshot = run.placed
    listed = snapshot.pending()
    pending = [(f"{peer}/{item.topic}", item, inbox_path(ThreadName(item.fields["thread"]))) for peer, item in listed]
    _restore_missing(run, snapshot, [path for _, _, path in pending])
    _report_blocked(run, pending)
    _report_unknown(run, snapshot, listed)
    told = {note.source for note in run.report.notes if note.mark is Mark.REFUSED}  # by this very run
    for (peer, item), (source, _, _) in zip(listed, pending, strict=True):
        if source in told or not item.get("rule") or rules.is_past(item, known=peer in run.settings.peers):
            continue
        if has_triage(run.hub, ThreadName(item.fields["thread"])):
            text = f"{source} stays refused: {item.get('rule')}: {item.get('why')}"
            run.report.refused(text, item.get("remedy"), source=source, told_before=True)


def _restore_missing(run: Run, snapshot: Snapshot, paths: Sequence[HubPath]) -> None:
    """Put back working copies of pending threads that somebody removed or moved away."""
    root = run.hub.root
    missing = [path for path in paths if not os.path.lexists(root / path)]
    if not missing:
        return
    left = read_unplaced(run.hub).left  # those that cannot be written are told of, and tried again, elsewhere
    missing = [path for path in missing if path not in left]
    snapshot.read_many(missing)
    for path in missing:
        data = snapshot.read(path)
        if data is None:
            continue
        if run.dry_run:
            run.report.plan(f"restore the missing {path}")
        else:
            write_file(root / path, data, root=root)
            run.report.info(f"{path} was missing; restored from main")


def _report_blocked(run: Run, pending: _Pending) -> None:
    """Name what stands in the place of a pending thread and is no file, or none that we may read: nobody decides it."""
    found: dict[str, Condition] = {}
    for source, _, path in pending:
        here = f"{run.hub.root}/{path}"
        plain = os.path.isfile(here) and not os.path.islink(here)  # of what nobody can tell nothing is said
        if os.path.lexists(here) and not plain and path not in read_unplaced(run.hub).left:  # that is told elsewhere
            kind = "a symlink" if os.path.islink(here) else "a folder" if os.path.isdir(here) else "no file"
            text = f"{path} is {kind} in the work tree: the thread cannot be read or decided there"
            found[path] = Condition(text, f"move {path} out of the way; the next run puts the thread there", source)
    for path, (text, remedy) in unread(run.hub, (ThreadName(item.fields["thread"]) for _, item, _ in pending)).items():
        found[path] = Condition(text, remedy)
    run.memory.conditions.tell("blocked", found, run.report)


def _report_unknown(run: Run, snapshot: Snapshot, pending: list[tuple[Name, Item]]) -> None:
    """Name files in the inbox that no ledger knows. They are never executed.

    Threads that are done, and were edited here while another clone decided them, or that an editor saved
    once more, are set aside: they would stand in the way for ever.
    """
    unknown = unknown_files(run.hub, snapshot, pending)
    done = {e.path for e in snapshot.folder(DONE)} if unknown else set()
    for name in unknown:
        path = run.hub.root / INBOX / name
        if name in done and path.is_file() and not path.is_symlink():
            set_aside(run, ThreadName(name))
            continue
        text = f"{INBOX}/{visible(name)} is no thread cn knows; it is not executed"
        told_before = run.memory.told("stray", name)
        committed = name in snapshot.thread_names()
        remedy = take_out(f"{INBOX}/{name}") if committed else "move it elsewhere, for example to threads/adhoc/"
        run.report.refused(text, remedy, told_before=told_before)
