"""What happened: the audit trail of main, with details from this clone's machine log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cn.llm.usage import EVENT as MODEL
from cn.outbox.our_names import find_ours
from cn.protocol.log import FOLDER, NOTHING, Row, format_row, parse_rows
from cn.protocol.thread_life import CONTINUED
from cn.run.executor import MACHINE_LOG
from cn.run.view import View
from cn.system.files import log_lines
from cn.values.errors import Refused, UsageError
from cn.values.timestamps import StampRefused, format_day, parse_since, parse_stamp
from cn.views.thread_page import show_document

_DAYS = 32
_KEYS = set(Row.__annotations__) - {"at"}


@dataclass(frozen=True)
class LoggedAction:
    """One row. ``event`` is how the machine log calls its kind.

    ``audited`` tells whether it stands in ``logs/inbox`` of main; the time is in whole
    minutes then, unless the machine log knew it better.
    """

    row: Row
    event: str = "inbox"
    audited: bool = True


def read_since(text: str, now: datetime) -> datetime:
    """``--since``; raises :class:`UsageError` with the forms it may have."""
    try:
        return parse_since(text, now)
    except StampRefused as refused:
        raise UsageError(f"--since: {refused.text}", refused.hint) from None


def read_log(
    view: View, since: datetime | None = None, peer: str = "", thread: str = "", count: int | None = None
) -> list[LoggedAction]:
    """Rows from ``since`` on, of one peer, of one thread, the last ``count``, in the order they were written.

    Only the days needed are read.
    """
    wanted = _filter(view, since, peer, thread)
    machine: dict[str, list[LoggedAction]] = {}
    for happened in _read_machine(view.hub.root, since):
        machine.setdefault(format_day(happened.row.at), []).append(happened)
    names = [e.path.removesuffix(".md") for e in view.snapshot.folder(FOLDER) if e.path.endswith(".md")]
    first = format_day(since) if since else ""
    days = sorted({d for d in (*names, *machine) if d.isdigit() and d >= first}, reverse=True)
    found: list[LoggedAction] = []
    for start in range(0, len(days), _DAYS):
        batch = days[start : start + _DAYS]
        view.snapshot.read_many(f"{FOLDER}/{day}.md" for day in batch)
        for day in batch:
            rows = parse_rows(view.snapshot.text(f"{FOLDER}/{day}.md"), day)
            found = [h for h in merge_logs(rows, machine.get(day, ())) if wanted(h)] + found
            if count is not None and len(found) >= count:
                return found[len(found) - count :]
    return found


def machine_events(machine: Iterable[LoggedAction]) -> Callable[[Row], LoggedAction | None]:
    """What the machine log has for a row, or None. A row found twice takes two events."""
    known: dict[str, list[LoggedAction]] = {}
    for happened in machine:
        known.setdefault(format_row(happened.row), []).append(happened)

    def take(row: Row) -> LoggedAction | None:
        same = known.get(format_row(row))
        return same.pop(0) if same else None

    return take


def merge_logs(rows: Sequence[Row], machine: Sequence[LoggedAction]) -> list[LoggedAction]:
    """The rows of one day; each takes seconds, head and commit from its machine event.

    Machine events that are no rows are put in by time.
    """
    take = machine_events(happened for happened in machine if happened.event == "inbox")
    found: list[tuple[datetime, LoggedAction]] = []
    used: set[int] = set()
    latest = datetime.min.replace(tzinfo=UTC)
    for row in rows:
        match = take(row)
        used.add(id(match))
        happened = replace(match, audited=True) if match else LoggedAction(row)
        latest = max(latest, happened.row.at)
        found.append((latest, happened))
    found += [(h.row.at, h) for h in machine if id(h) not in used]
    return [happened for _, happened in sorted(found, key=lambda pair: pair[0])]


def _filter(view: View, since: datetime | None, peer: str, text: str) -> Callable[[LoggedAction], bool]:
    """Which rows are wanted; a thread's are those of its branch while it was the branch's thread."""
    start = since.replace(second=0, microsecond=0) if since else None
    source, thread, begin, end = "", "", None, None
    if text:
        source, thread, begin, end = _of_thread(view, text)

    def wanted(happened: LoggedAction) -> bool:
        row = happened.row
        if start is not None and row.at < start:
            return False
        if peer and not row.source.startswith(f"{peer}/") and row.source != peer:
            return False
        if not source:
            return True
        if thread and row.thread:
            return row.thread == thread
        later = end is not None and row.at >= end
        return row.source == source and not later and (begin is None or row.at >= begin)

    return wanted


def _of_thread(view: View, text: str) -> tuple[str, str, datetime | None, datetime | None]:
    """Source, name, and the span of a thread; any ``peer/topic`` stands for all its rows, and so does what we sent by
    any of its names.
    """
    if text.partition("/")[0] in {*view.settings.peers, *view.snapshot.open_items}:
        return text, "", None, None
    try:
        found = show_document(view, text).thread
    except Refused:
        if (ours := find_ours(view.snapshot, view.settings, text)) is None:
            raise
        return "/".join(ours), "", None, None
    after = next((link.at for link in found.chain if link.step == CONTINUED), None)
    return found.source, found.thread, found.received.replace(second=0), after


def _read_machine(root: Path, since: datetime | None) -> list[LoggedAction]:
    """This clone's own events, at most the last 16 MiB; lines that are none are skipped."""
    found = [happened for line in log_lines(root / MACHINE_LOG) if (happened := _parse_machine(line)) is not None]
    return [h for h in found if since is None or h.row.at >= since - timedelta(minutes=1)]


def _parse_machine(line: bytes) -> LoggedAction | None:
    try:
        data = json.loads(line)
        if data.get("event") == MODEL:
            return None  # what it led to is logged; 'cn usage' shows what it used
        at = parse_stamp(data["time"])
        texts = {k: str(v) for k, v in data.items() if k in _KEYS}
    except (ValueError, KeyError, TypeError, AttributeError, StampRefused):
        return None
    row = Row(at, **{"source": "", "decision": "", "executed": NOTHING, **texts})
    return LoggedAction(row, str(data.get("event", "inbox")), audited=False)
