"""The lines of ``cn status`` and ``cn outbox``."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from cn.cli.render.text import age, clean, grid, next_step, paint, since, width, wrap
from cn.values.errors import Refusal
from cn.values.shell_words import command
from cn.values.timestamps import format_age, format_stamp
from cn.views.outbox import Entry
from cn.views.peers import Unreachable
from cn.views.status import Main, Status, Waiting
from cn.views.thread_view import ThreadView

if TYPE_CHECKING:  # not every screen shows them
    from cn.threads.read import OwnDocument

_STANDING = 10
_MOST = 5
"""Rows a section of the one screen may take."""


def state_text(thread: ThreadView) -> str:
    """A thread's state in a few words."""
    decided = thread.decided
    match thread.state:
        case "deferred":
            text = f"deferred until {format_stamp(decided.until)}" if decided.until else "deferred"
        case "assigned":
            text = f"assigned to {decided.assigned_to}"
        case "decided":
            told = f"{clean(decided.text, 80)} by {decided.actor}" if decided.text else "unreadable"
            text = f"decided: {told}"
        case "refused":
            text = f"refused: {thread.refused.rule if thread.refused else ''}"
        case "queued":
            text = "waits for the agent"
        case "claimed":
            text = "with the agent"
        case "dead":
            text = "given up by the agent"
        case "done":
            text = f"done: {thread.result.status}"
        case _:
            text = thread.state
    return f"{text}, withdrawn by its creator" if thread.withdrawn else text


def status_lines(status: Status, *, everything: bool = False) -> list[str]:
    """One screen, the most urgent things first; with ``everything`` as long as it is."""
    now = status.now
    most, standing = (sys.maxsize, sys.maxsize) if everything else (_MOST, _STANDING)
    lines = [_head(status)]
    if status.stopped:
        told = f"{clean(status.stopped.reason, 300)} ({since(status.stopped.since, now)})"
        lines += wrap("! ", f"no run can work: {told}", colour="red")
        lines += next_step(status.stopped.remedy)
    elif not status.main.checked_out:
        lines += wrap("! ", f"HEAD is not {status.main.branch}: runs are refused", colour="yellow")
        lines += next_step(command("git switch {}", status.main.branch))
    for one in status.standing[:standing]:
        lines += wrap("! ", f"{clean(one.text, 300)} ({since(one.since, now)})", colour="yellow")
        lines += next_step(one.remedy)
    if len(status.standing) > standing:
        lines.append(f"  and {len(status.standing) - standing} more; -v shows all")
    for draft in status.not_in_effect:
        lines += wrap("! ", draft.text, colour="yellow")
        lines += next_step(draft.remedy)
    for peer, reason in status.inbox.damaged:
        lines += wrap("! ", f"{peer} is left out: {clean(reason)}; see 'cn doctor'", colour="red")
    threads = status.inbox.threads
    by_state: dict[str, list[ThreadView]] = {}
    for thread in threads:
        by_state.setdefault(thread.state, []).append(thread)
    if threads:
        lines.append(f"{len(threads)} pending, oldest {age(threads[0].received, now)}")
    else:
        lines.append("nothing pending")
    section = functools.partial(_section, most)
    lines += section("to decide", by_state.get("pending", ()), lambda t: _thread(t, _pending_text(t, now)))
    lines += section("refused", by_state.get("refused", ()), _refused, "yellow")
    lines += section(
        "decided; 'cn inbox process' executes", by_state.get("decided", ()), lambda t: _thread(t, _decided_text(t))
    )
    lines += section("deferred", by_state.get("deferred", ()), lambda t: _thread(t, _deferred_text(t)))
    lines += section(
        "assigned",
        by_state.get("assigned", ()),
        lambda t: _thread(t, f"to {t.decided.assigned_to}, {age(t.received, now)}"),
    )
    lines += section(
        "no thread, not executed; move it out of threads/inbox/",
        status.inbox.unknown,
        lambda name: [f"  {clean(name)}"],
        "yellow",
    )
    if status.queue is not None:
        from cn.cli.render.queue import queue_lines

        shown = [f"  {line}" for line in queue_lines(status.queue, most)]
        lines += section("the agent", [shown], lambda lines: lines)
    lines += section("waiting on others", status.waiting, lambda w: _waiting(w, now))
    lines += section("outbox", status.outbox, lambda entry: _outbox(entry, now))
    lines += section("unreachable", status.unreachable, lambda u: _unreachable(u, now), "red")
    return lines


def outbox_lines(entries: Sequence[Entry], now: datetime) -> list[str]:
    """The outbox, one entry after the other."""
    return [line for entry in entries for line in _outbox(entry, now, "")]


def thread_lines(threads: Sequence[OwnDocument | ThreadView], now: datetime) -> list[str]:
    """Threads of our own and of peers, one table."""
    if not threads:
        return []
    rows = [_any_thread(thread, now) for thread in threads]
    head, *shown = grid([("THREAD", "AGE", "STATE", "TITLE"), *rows], 0, [""] * (len(rows) + 1))
    return [*(paint(line, dim=True) for line in head), *(line for lines in shown for line in lines)]


def _any_thread(thread: OwnDocument | ThreadView, now: datetime) -> tuple[str, str, str, str]:
    if isinstance(thread, ThreadView):
        name = thread.thread.removesuffix(".md")
        return name, age(thread.received, now), state_text(thread), clean(thread.subject or thread.kind, 120)
    own = thread.own
    state = clean(own.state, 40)
    if own.until is not None:
        state += f" until {format_stamp(own.until)}"
    if not thread.committed:
        state += ", not committed"
    return clean(own.source, 200), age(own.opened, now) if own.opened else "—", state, clean(own.title, 120)


def _head(status: Status) -> str:
    ago = age(status.last_run, status.now) if status.last_run else ""
    last = "no run yet here" if not ago else "last run just now" if ago == "0m" else f"last run {ago} ago"
    main = status.main
    name = paint(status.hub, bold=True)
    origin = _origin(main, stopped=status.stopped is not None)
    return f"{name}: {main.branch} at {main.commit[:7]}, {origin}; {last}"


def _origin(main: Main, *, stopped: bool) -> str:
    if not main.has_origin:
        return "no origin"
    if main.origin is None:
        return "origin not seen yet"
    if main.ahead is None or main.behind is None:
        return f"origin at {main.origin[:7]}"
    if not main.ahead and not main.behind:
        return "in step with origin as of the last good run" if stopped else "in step with origin"
    if main.ahead and main.behind:
        return f"{main.ahead} ahead of origin and {main.behind} behind"
    return f"{main.ahead} ahead of origin" if main.ahead else f"{main.behind} behind origin"


T = TypeVar("T")


def _section(most: int, title: str, items: Sequence[T], show: Callable[[T], list[str]], colour: str = "") -> list[str]:
    if not items:
        return []
    lines = ["", paint(title, colour, bold=True)]
    lines += [line for item in items[:most] for line in show(item)]
    if len(items) > most:
        lines.append(f"  and {len(items) - most} more; -v shows all")
    return lines


_INDENT = 44


def _thread(thread: ThreadView, text: str) -> list[str]:
    name = f"  {thread.thread.removesuffix('.md')}  "
    return wrap(name, text, None if width(name) <= _INDENT else 6)


def _pending_text(thread: ThreadView, now: datetime) -> str:
    subject = f": {clean(thread.subject, 120)}" if thread.subject else ""
    gone = ", withdrawn by its creator" if thread.withdrawn else ""
    return f"{age(thread.received, now)}, {thread.kind}{subject}{gone}"


def _refused(thread: ThreadView) -> list[str]:
    rule, reason, remedy, *_ = thread.refused or Refusal("", "")
    lines = [f"  {thread.thread.removesuffix('.md')}"]
    lines += wrap("      ", f"{rule}: {clean(reason)}")
    return lines + next_step(remedy, 6)


def _decided_text(thread: ThreadView) -> str:
    decided = thread.decided
    if decided.problem:
        return f"cannot be read: {clean(decided.problem)}"
    return f"{clean(decided.text, 120)} by {decided.actor}"


def _deferred_text(thread: ThreadView) -> str:
    decided = thread.decided
    until = f"until {format_stamp(decided.until)}" if decided.until else "until decided again"
    return f"{until}: {clean(decided.reason, 120)}" if decided.reason else until


def _waiting(waiting: Waiting, now: datetime) -> list[str]:
    name = f"  {clean(waiting.branch, 120)} at {waiting.peer}  "
    answer = f"{waiting.status}: {clean(waiting.reason)}" if waiting.reason else waiting.status
    if waiting.unproven:
        answer = f"{waiting.status}, claimed but unproven: {clean(waiting.unproven)}"
    text = f"{age(waiting.since, now)}, {answer or 'no answer yet'}{' (!)' if waiting.old else ''}"
    colour = "yellow" if waiting.old else ""
    return wrap(name, text, None if width(name) <= _INDENT else 6, colour)


def _outbox(entry: Entry, now: datetime, margin: str = "  ") -> list[str]:
    if entry.effect == "damaged":
        return wrap(margin, f"{clean(entry.file)}: {clean(entry.tried.reason)}", colour="red")
    what = "deletion of " if entry.effect == "delete" else ""
    lines = wrap(margin, f"{what}{clean(entry.branch, 120)} for {entry.to}, {_queued(entry, now)}")
    if entry.subject:
        lines += wrap(f"{margin}    ", clean(entry.subject))
    if entry.tried.attempts:
        tries = "1 attempt" if entry.tried.attempts == 1 else f"{entry.tried.attempts} attempts"
        lines += wrap(f"{margin}    ", f"{tries}: {clean(entry.tried.reason)}", colour="yellow")
    return lines


def _queued(entry: Entry, now: datetime) -> str:
    return f"queued {age(entry.queued, now)} ago" if entry.queued else "queued"


def _unreachable(unreachable: Unreachable, now: datetime) -> list[str]:
    later = ""
    if unreachable.next:
        wait = unreachable.next - now
        later = f", next try in {format_age(wait)}" if wait.total_seconds() > 0 else ", next try at the next run"
    told = f"{clean(unreachable.reason)} ({since(unreachable.since, now)}{later})"
    return wrap(f"  {unreachable.name}  ", told)
