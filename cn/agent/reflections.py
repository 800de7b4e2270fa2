"""Put into the queue what time alone makes due: reflections, concerns, deferred threads of our own."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from cn.agent.plan.reflections import TITLES, due_reflections, is_due, is_worth_reflecting, level_below, period_above
from cn.agent.plan.turns import plan_own_input
from cn.protocol.cadence import PERIODIC, REFLECTIONS, Cadence, period, reflection_path
from cn.protocol.log import FOLDER as LOGS
from cn.protocol.log import Row, format_row, parse_rows
from cn.protocol.own_thread import ADHOC, CONCERNS, DEFERRED, OPEN, Own, new_own, parse_own
from cn.protocol.queue_item import DEAD, QUEUE, new_input_id, parse_queue_name
from cn.run.executor import Executor
from cn.run.memory import Memory
from cn.run.run import Run
from cn.system.random import nonce
from cn.values.names import HubPath
from cn.values.text import quote
from cn.values.timestamps import StampRefused, format_second, parse_stamp


def enqueue_own(executor: Executor, own: Own) -> None:
    """Put a thread of our own into the queue."""
    names = executor.names(QUEUE) | executor.names(DEAD)
    taken = {place.id for name in names if (place := parse_queue_name(name))}
    id = new_input_id(executor.now, (own.path, nonce()), taken)
    executor.perform(plan_own_input(own, executor.settings.us, id, executor.now))


_FOLDERS = (f"{CONCERNS}/", f"{ADHOC}/")
_LOOK_BACK = timedelta(days=8)
_AN_HOUR = timedelta(hours=1)


def queue_due(run: Run, executor: Executor, waiting: Collection[int]) -> None:
    """Queue what is due. Looked at once an hour, and when what is put off has a time before that.

    ``waiting`` are the priorities of what is queued or in flight: a reflection waits for
    those it draws on.
    """
    if next_look(run.memory) is not None:
        _note_times(run, [_own(executor, path) for path in executor.changed if path.startswith(_FOLDERS)])
        return
    threads = []
    _reflections(executor, waiting)
    for folder in (CONCERNS, ADHOC):
        paths = [HubPath(f"{folder}/{e.path}") for e in executor.snapshot.folder(folder) if e.kind == "blob"]
        paths = [path for path in paths if path.endswith(".md")]
        executor.snapshot.read_many(paths)
        for path in paths:
            own = _own(executor, path)
            if is_due(own, executor.now):
                enqueue_own(executor, own)
            threads.append(own)
    _note_times(run, threads)


def _own(executor: Executor, path: HubPath) -> Own:
    return parse_own(path, (executor.read(path) or b"").decode("utf-8", "replace"))


def _note_times(run: Run, threads: Iterable[Own]) -> None:
    """Look again when one of them comes back, if that is before the next full hour."""
    times = [own.until for own in threads if own.state == DEFERRED and own.until]
    hour = run.now.replace(minute=0, second=0, microsecond=0) + _AN_HOUR
    at = min(hour, next_look(run.memory) or hour, *(at for at in times if at > run.now))
    run.memory.section("looks")["agenda"] = format_second(at)


def next_look(memory: Memory) -> datetime | None:
    """When the agenda is looked at again; None: now. A clock that went backwards asks at once."""
    try:
        at = parse_stamp(str(memory.section("looks")["agenda"]))
    except (KeyError, StampRefused):
        return None
    return at if memory.at < at <= memory.at + _AN_HOUR else None


def _reflections(executor: Executor, waiting: Collection[int]) -> None:
    lowest = min((priority for priority in waiting if priority), default=len(Cadence))
    days = _days_with_matter(executor)
    written = {
        cadence: [e.path.removesuffix(".md") for e in executor.snapshot.folder(f"{REFLECTIONS}/{cadence.value}")]
        for cadence in PERIODIC
    }
    for cadence, name in due_reflections(executor.now, days, written):
        if cadence.priority > lowest:
            break
        path = reflection_path(cadence, name)
        data = executor.read(path)
        matter = _matter(executor, cadence, name, written)
        if data is None:
            own = new_own(path, f"{TITLES[cadence]} {name}", executor.now, executor.settings.us)
        else:
            own = parse_own(path, data.decode("utf-8", "replace"))
            if own.state != OPEN or own.get("Input") or own.get("Asked"):
                continue
        enqueue_own(executor, own.with_entry(executor.now, "cn", matter))
        lowest = cadence.priority


def _days_with_matter(executor: Executor) -> list[str]:
    """The last days on which something happened; only those that can be due are read."""
    first, today = (period(Cadence.DAILY, at) for at in (executor.now - _LOOK_BACK, executor.now))
    names = [e.path.removesuffix(".md") for e in executor.snapshot.folder(LOGS)]
    recent = [name for name in names if name.isdigit() and first <= name < today]
    executor.snapshot.read_many(f"{LOGS}/{name}.md" for name in recent)
    return [name for name in recent if is_worth_reflecting(_rows(executor, name))]


def _rows(executor: Executor, day: str) -> list[Row]:
    return parse_rows(executor.snapshot.text(f"{LOGS}/{day}.md"), day)


def _matter(executor: Executor, cadence: Cadence, name: str, written: dict[Cadence, list[str]]) -> str:
    """What the reflection draws on, quoted, within the limit of a thread."""
    level = level_below(cadence)
    room = executor.settings.config.limits.thread_bytes // 2
    if level is None:
        text = "\n".join(format_row(row) for row in _rows(executor, name))
        return f"What happened:\n\n{quote(text.encode()[:room].decode('utf-8', 'ignore'))}"
    parts = []
    for lower in sorted(written[level]):
        if _inside(cadence, lower, name):
            text = executor.snapshot.text(reflection_path(level, lower))[: max(0, room)]
            room -= len(text.encode())
            parts.append(quote(text))
    return "\n\n".join(["What was written:", *parts])


def _inside(cadence: Cadence, lower: str, name: str) -> bool:
    try:
        return period_above(cadence, lower) == name
    except ValueError:
        return False
