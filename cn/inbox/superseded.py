"""A thread that is done although its copy here says otherwise: put the copy aside, tell once, log here.

Two clones may decide the same thread. The one that comes second commits nothing: what it has to tell
stands in its own machine log, which ``cn log`` shows, and not in the log that all clones share.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from cn.protocol.layout import FINAL, done_path, inbox_path
from cn.protocol.ledger import IN, Event, each_event
from cn.protocol.log import Row, format_event
from cn.protocol.thread_file import Triage, TriageRefused, format_decision, read_decision, read_text, seen_head
from cn.run.executor import MACHINE_LOG
from cn.run.run import Run
from cn.run.secret_gate import without_secrets
from cn.run.snapshot import Snapshot
from cn.secrets.scanner import own_lines
from cn.system.files import append_line, log_lines, read_regular
from cn.transaction.checkout import keep_aside, kept_sentence
from cn.values.names import HubPath, ThreadName
from cn.values.text import one_line

OVERTAKEN = "overtaken"
"""The outcome, in the machine log, of a decision that another one was faster than."""


def set_aside(run: Run, name: ThreadName) -> None:
    """Take a copy of a thread that is done out of the inbox, and say what of it was not carried out."""
    path = inbox_path(name)
    if run.dry_run:
        run.report.plan(f"set {path} aside, which is done")
        return
    row = _overtaken(run, name, path)
    if row is not None:
        log_overtaken(run, row)
    told = kept_sentence(run.hub, path, keep_aside(run.hub, path, run.hub.root / path), "is done already")
    if row is not None:
        told = f"{row.source}: {row.decision} was {row.executed}; {told}"
    run.report.info(told, source=row.source if row is not None else "")


def log_overtaken(run: Run, row: Row) -> None:
    """Log it in this clone, once."""
    if row.decision not in (d for d, outcome in _logged(run, row.thread) if outcome == OVERTAKEN):
        append_line(run.hub.root / MACHINE_LOG, format_event(row), root=run.hub.root)


def decided_first(run: Run, snapshot: Snapshot, name: ThreadName) -> str:
    """What ended a thread that is done in ``snapshot``, as it may be told; empty where nobody can tell."""
    done = snapshot.read(done_path(name)) or b""
    triage = _triage(done, done)
    return _shown(run, inbox_path(name), done, triage) if triage is not None else ""


def who_was_first(run: Run, snapshot: Snapshot, name: ThreadName) -> str:
    """The same with who did it, a run of this clone or another's."""
    first = decided_first(run, snapshot, name)
    if not first:
        return "it was done before"
    # What was only decided here, and refused, is no execution.
    here = any(d == first and outcome in FINAL for d, outcome in _logged(run, name))
    return f"{'a run here' if here else 'another clone'} was first with {first}"


def _overtaken(run: Run, name: ThreadName, path: HubPath) -> Row | None:
    """What the copy decides and nobody did; None where it decides nothing, or what was done."""
    done = run.snapshot.read(done_path(name)) or b""
    data = read_regular(run.hub.root / path) or b""
    ours, theirs = _triage(data, done), _triage(done, done)
    event = _received(run, name)
    if ours is None or event is None or (theirs is not None and _same(ours, theirs)):
        return None
    peer, received = event
    decision = _shown(run, path, data, ours)
    first = who_was_first(run, run.snapshot, name)
    branch, head = received.fields.get("branch", ""), seen_head(data.decode("utf-8", "replace"))
    source, executed = f"{peer}/{received.topic}", f"not carried out: {first}"
    return Row(run.now, source, decision, executed, name, branch, head, OVERTAKEN)


def _triage(data: bytes, committed: bytes) -> Triage | None:
    try:
        return read_decision(read_text(data), read_text(committed))
    except TriageRefused:
        return None


def _same(one: Triage, other: Triage) -> bool:
    """Is it the one decision? What stands below its fields is cut when a thread is filed."""
    return (one.decision, one.actor, one.at) == (other.decision, other.actor, other.at)


def _shown(run: Run, path: HubPath, data: bytes, triage: Triage) -> str:
    whole = own_lines(path, data.decode("utf-8", "replace"))
    text = one_line(format_decision(triage.decision), 200)
    return without_secrets(text, run.settings, whole)


def _received(run: Run, name: ThreadName) -> tuple[str, Event] | None:
    """The peer that the ledger knows the thread from, and the event that made it."""
    for peer in run.snapshot.open_items:
        if name[9:].startswith(f"{peer}-"):
            history = run.snapshot.history(peer).split("\n")
            for event in each_event("\n".join(line for line in history if " thread=" in line)):
                if event.side == IN and event.fields["thread"] == name:
                    return peer, event
    return None


def _logged(run: Run, name: str) -> Iterator[tuple[str, str]]:
    """Decision and outcome of what this clone's machine log tells of the thread."""
    for line in log_lines(run.hub.root / MACHINE_LOG):
        if name.encode() in line:
            try:
                data = json.loads(line)
                yield str(data.get("decision", "")), str(data.get("outcome", ""))
            except (ValueError, AttributeError):
                continue
