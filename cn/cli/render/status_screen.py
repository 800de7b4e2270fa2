"""``cn status`` on a terminal: columns that fit, colours, ages that stand out where somebody is needed.

The same facts as :func:`cn.cli.render.status.status_lines`, which is for files, pipes and programs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from cn.cli.render import has_colours
from cn.cli.render.queue import queue_lines
from cn.cli.render.status import (
    MOST,
    STATES,
    TO_MEND,
    answer_text,
    last_run_text,
    left_out,
    notice_lines,
    pending_line,
    pick_fairly,
    place_text,
)
from cn.cli.render.text import age, clean, columns, next_step
from cn.protocol.layout import BRANCH_LEFT, IN_MAIN
from cn.values.text import counted
from cn.values.timestamps import format_age, format_stamp
from cn.views.outbox import Entry, Unreachable
from cn.views.status import Status, Waiting
from cn.views.threads import ThreadView
from cn.views.words import assigned_text

_DAY = timedelta(days=1)
_AGE, _TITLE = 5, 24
"""Columns of an age, and the fewest that a title gets beside a name."""
_STYLES = {
    "pending": "yellow",
    "refused": "red",
    "decided": "cyan",
    "answered": "blue",
    "withdrawn": "dim",
    "deferred": "dim",
    "assigned": "blue",
}
_NEEDED = ("pending", "refused")


class Row(NamedTuple):
    """A line of a section: how old, what it is called, what is said of it and below it, and the next step."""

    age: str
    style: str
    name: str
    text: str
    below: Sequence[str] = ()
    remedy: str = ""


def screen_lines(status: Status, warn_after: int, *, everything: bool = False) -> list[str]:
    """One screen, the most urgent things first. ``warn_after``: after so many days an age is alarming."""
    most = sys.maxsize if everything else MOST
    console = Console(width=columns(), no_color=not has_colours(), highlight=False, emoji=False, markup=False)
    with console.capture() as captured:
        console.print(_head(status))
        for line in notice_lines(status, most):
            console.print(Text.from_ansi(line), soft_wrap=True)
        console.print(_proportion(status, console.width))
        for part in _sections(status, warn_after, most):
            console.print(part, soft_wrap=isinstance(part, Text))  # what is to be typed is never broken
    return [line.rstrip() for line in captured.get().rstrip("\n").split("\n")]


def _head(status: Status) -> Table:
    head = Table.grid(expand=True, padding=(0, 2))
    head.add_column(no_wrap=True)
    head.add_column(justify="right", ratio=1)
    head.add_row(Text(status.hub, "bold"), Text(f"{place_text(status)}; {last_run_text(status)}", "dim"))
    return head


def _proportion(status: Status, width: int) -> Table:
    """What waits, and a bar of how much of it is in which state."""
    threads = status.inbox.threads
    line = Table.grid(expand=True, padding=(0, 2))
    line.add_column(no_wrap=True)
    line.add_column(justify="right", ratio=1, no_wrap=True)
    counts = {state: sum(one.state == state for one in threads) for state in STATES}
    counts["the agent"] = len(threads) - sum(counts.values())
    shares = [(state, count) for state, count in counts.items() if count]
    room = min(24, max(0, width - 40))
    bar = Text()
    for state, count in shares if room else ():
        bar.append(_mark() * max(1, round(room * count / len(threads))), _STYLES.get(state, "magenta"))
    line.add_row(Text(pending_line(status), "bold" if threads else ""), bar)
    return line


def _mark() -> str:
    """What a bar is made of, where the terminal's encoding has it."""
    return "━" if sys.stdout.encoding.lower().startswith("utf") else "="


def _sections(status: Status, warn_after: int, most: int) -> Iterator[RenderableType]:
    now, threads = status.now, status.inbox.threads
    ours = [_waiting(one, now) for one in status.to_mend]  # nobody else can do anything about it: none is left out
    yield from _section(TO_MEND, len(ours), ours, (), "red")
    for state, title in STATES.items():
        some = [thread for thread in threads if thread.state == state]
        found, left = pick_fairly(some, most)
        rows = [_thread(thread, now, warn_after) for thread in found]
        yield from _section(title, len(some), rows, left_out(left, "  ", "-v shows all"), _STYLES[state])
    stray = [Row("", "", clean(name), "") for name in status.inbox.unknown]
    yield from _section(
        "no thread, not executed; 'cn doctor' tells what takes it out", len(stray), stray[:most], (), "yellow"
    )
    if status.queue is not None:
        yield Text("\nthe agent", "bold magenta")
        for line in queue_lines(status.queue, most, margin="  "):
            yield Text.from_ansi(line)
    others = [_waiting(one, now) for one in status.abroad]
    yield from _section("waiting on others", len(others), others[:most], _more(others, most), "")
    outbox = [_entry(one, now) for one in status.outbox]
    yield from _section("outbox", len(outbox), outbox[:most], _more(outbox, most), "")
    gone = [_unreachable(one, now) for one in status.unreachable]
    yield from _section("unreachable", len(gone), gone[:most], _more(gone, most), "red")


def _more(rows: Sequence[Row], most: int) -> list[str]:
    return [f"  and {len(rows) - most} more; -v shows all"] if len(rows) > most else []


def _section(title: str, count: int, rows: Sequence[Row], more: Iterable[str], style: str) -> Iterator[RenderableType]:
    if not rows:
        return
    yield Text.assemble(("\n" + title, f"bold {style}".strip()), (f"  {count}", "dim"))
    longest = max(len(row.name) for row in rows)
    beside = longest + _AGE + _TITLE + 8 <= columns()
    for row in rows:
        yield _line(row, longest if beside else 0)
        deep = _AGE + 2 + (longest + 2) * beside
        indent = deep if deep + len(row.remedy) + 2 <= columns() else _AGE - 2
        for line in next_step(row.remedy, indent):
            yield Text(line)
    for line in more:
        yield Text(line, "dim")


def _line(row: Row, beside: int) -> Table:
    """The age to the right; what is said stands behind the name, in so many columns, or (0) below it."""
    table = Table.grid(expand=True, padding=(0, 2, 0, 0))
    table.add_column(justify="right", width=_AGE, no_wrap=True)
    if beside:
        table.add_column(no_wrap=True, width=beside)
    table.add_column(ratio=1, overflow="fold")
    said = Text("\n").join([Text(row.text)] * bool(row.text) + [Text(line, "dim") for line in row.below])
    name, old = Text(row.name, "bold"), Text(row.age, row.style)
    if beside:
        table.add_row(old, name, said)
    else:
        table.add_row(old, Text("\n").join([name, said]) if said.plain else name)
    return table


def _old(at: datetime, now: datetime, warn_after: int) -> str:
    """How an age looks that needs somebody."""
    span = now - at
    return "bold red" if span >= warn_after * _DAY else "yellow" if span >= _DAY else "green"


def _thread(thread: ThreadView, now: datetime, warn_after: int) -> Row:
    decided, refused = thread.decided, thread.refused
    title = clean(thread.subject, 120) or thread.kind
    below = list[str]()
    if refused is not None:
        below = [f"{refused.rule}: {clean(refused.reason)}"]
    elif thread.state == "decided":
        below = [f"{clean(decided.text, 120)} by {decided.actor}"]
    elif thread.state == "deferred":
        until = f"until {format_stamp(decided.until)}" if decided.until else "until decided again"
        below = [until + (f": {clean(decided.reason, 120)}" if decided.reason else "")]
    elif thread.state == "assigned":
        below = [f"to {assigned_text(thread)}"]
    if thread.withdrawn:
        below.append(BRANCH_LEFT)
    if thread.caution:
        below.append(thread.caution)
    if thread.in_main:
        below.append(IN_MAIN)
    needed = thread.state in _NEEDED
    style = _old(thread.received, now, warn_after) if needed else "dim"
    remedy = refused.remedy if refused is not None else thread.step_in_main
    return Row(age(thread.received, now), style, thread.thread.removesuffix(".md"), title, below, remedy)


def _waiting(waiting: Waiting, now: datetime) -> Row:
    get = waiting.item.get
    told, remedy = answer_text(waiting)
    style = "bold red" if waiting.old else "dim"
    name = f"{clean(get('branch'), 120)} at {waiting.peer}"
    subject = clean(get("subject"))
    text, below = (subject, (told,)) if subject else (told, ())
    return Row(age(waiting.item.since, now), style, name, text, below, remedy)


def _entry(entry: Entry, now: datetime) -> Row:
    old = age(entry.queued, now) if entry.queued else ""
    if entry.effect == "damaged":
        return Row(old, "red", clean(entry.file), clean(entry.reason))
    what = {"delete": "deletion of ", "draft": "waits for origin: "}.get(entry.effect, "")
    name = f"{what}{clean(entry.branch or entry.kind, 120)} for {clean(entry.to, 120)}"
    tries = f"{counted(entry.attempts, 'attempt')}: " if entry.attempts else ""
    told = [f"{tries}{clean(entry.reason)}"] if entry.attempts or entry.owed else []
    return Row(old, "yellow" if entry.attempts else "dim", name, clean(entry.subject), told)


def _unreachable(gone: Unreachable, now: datetime) -> Row:
    later = ""
    if gone.next:
        wait = gone.next - now
        later = f"next try in {format_age(wait)}" if wait.total_seconds() > 0 else "next try at the next run"
    old = age(gone.since, now) if gone.since else ""
    return Row(old, "bold red", gone.name, clean(gone.reason), [later] if later else [])
