"""The lines of ``cn status``, ``cn outbox``, and of lists of threads."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from cn.cli.render.text import age, at_hub, clean, columns, cut, grid, next_step, paint, since, width, wrap
from cn.protocol.layout import BRANCH_LEFT, DRAFTS, IN_MAIN, KEPT_BY_MAIN, PROPOSAL
from cn.values.errors import Refusal
from cn.values.names import Name
from cn.values.shell_words import command
from cn.values.text import counted, in_quotes
from cn.values.timestamps import format_age, format_stamp
from cn.views.outbox import Entry, Unreachable
from cn.views.status import Main, ShownCondition, Status, Waiting
from cn.views.threads import WITHDRAWN, ThreadView
from cn.views.words import assigned_text, state_text, untold

if TYPE_CHECKING:  # not every screen shows them
    from cn.threads.store import OwnDocument

_STANDING = 10
MOST = 5
"""Rows a section of the one screen may take."""


STATES = {
    "pending": "to decide",
    "refused": "refused",
    "decided": "decided; 'cn inbox process' executes",
    "answered": "answered, waits for its creator",
    "withdrawn": f"{BRANCH_LEFT}; 'cn delete' ends it",
    "deferred": "deferred",
    "assigned": "assigned",
}
"""The sections of pending threads; those that the agent has are in its own."""
TO_MEND = "refused at a peer, waits for you"
"""The section of what we sent that waits for somebody here."""


def status_lines(status: Status, *, everything: bool = False) -> list[str]:
    """One screen, the most urgent things first; with ``everything`` as long as it is."""
    now = status.now
    most, standing = (sys.maxsize, sys.maxsize) if everything else (MOST, _STANDING)
    lines = [_head(status), *notice_lines(status, standing)]
    threads = status.inbox.threads
    lines.append(pending_line(status))
    lines += _section(sys.maxsize, TO_MEND, status.to_mend, lambda w: _waiting(w, now), "red")
    for state, title in STATES.items():
        found, left = pick_fairly([thread for thread in threads if thread.state == state], most)
        lines += _section(most, title, found, lambda t: _thread(t, now), "yellow" if state == "refused" else "")
        lines += left_out(left, "  ", "-v shows all")
    stray = "no thread, not executed; 'cn doctor' tells what takes it out"
    lines += _section(most, stray, status.inbox.unknown, lambda name: [f"  {clean(name)}"], "yellow")
    if status.queue is not None:
        from cn.cli.render.queue import queue_lines

        shown = queue_lines(status.queue, most, margin="  ")
        lines += _section(most, "the agent", [shown], lambda lines: lines)
    lines += _section(most, "waiting on others", status.abroad, lambda w: _waiting(w, now))
    lines += _section(most, "outbox", status.outbox, lambda entry: _outbox(entry, now))
    lines += _section(most, "unreachable", status.unreachable, lambda u: _unreachable(u, now), "red")
    return lines


def notice_lines(status: Status, standing: int = _STANDING) -> list[str]:
    """What is wrong, with the next step; at most so many of what was refused or failed."""
    now = status.now
    lines = list[str]()
    if status.stopped:
        told = f"{clean(status.stopped.text, 300)} ({since(status.stopped.since, now)})"
        lines += wrap("! ", f"no run can work: {told}", colour="red")
        lines += next_step(at_hub(status.stopped.remedy))
    elif away := status.main.away:
        lines += wrap("! ", away.text, colour="yellow")
        lines += next_step(at_hub(away.remedy))
    groups = _grouped(status.standing, standing)
    for one, more in groups[:standing]:
        like = f"; and {more} more like it" if more else ""
        told = f"{clean(one.text, 300)} ({since(one.since, now)}){like}"
        lines += wrap("· " if one.calm else "! ", told, colour="" if one.calm else "yellow")
        lines += next_step(one.remedy)
    if more := sum(1 + more for _, more in groups[standing:]):
        lines.append(f"  and {more} more; -v shows all")
    for draft in status.not_in_effect:
        lines += wrap("! ", draft.text, colour="yellow")
        lines += next_step(draft.remedy)
    for peer, reason in status.inbox.damaged:
        lines += wrap("! ", f"{peer} is left out: {clean(reason)}; see 'cn doctor'", colour="red")
    return lines


def _grouped(standing: Sequence[ShownCondition], most: int) -> list[tuple[ShownCondition, int]]:
    """What stands, with how many like it are not shown: without room for all, one line a peer and kind."""
    if len(standing) <= most:
        return [(one, 0) for one in standing]
    count = Counter(one.group for one in standing)
    first = {one.group: one for one in reversed(standing)}
    return [(first[group], count[group] - 1) for group in count]


def pending_line(status: Status) -> str:
    """How much waits, and since when."""
    threads = status.inbox.threads
    oldest = min((thread.received for thread in threads), default=status.now)
    count = f"{len(threads)} pending, oldest {age(oldest, status.now)}" if threads else "nothing pending"
    return count + untold(peer for peer, _ in status.inbox.damaged)


def outbox_lines(entries: Sequence[Entry], now: datetime) -> list[str]:
    """The outbox, one entry after the other."""
    return [line for entry in entries for line in _outbox(entry, now, "")]


_COLOURS = {"refused": "yellow", "decided": "cyan", "done": "green"}


_TITLE, _LONGEST_TITLE, _SHORT_STATE = 12, 60, 34
"""The least and the most columns of a title on a terminal, and what it leaves to the state."""


def inbox_lines(threads: Sequence[ThreadView], now: datetime, *, signed: bool, room: int = sys.maxsize) -> list[str]:
    """One row a thread, and below it why it was refused or cannot be read, with the next step.

    ``signed``: some peer has a key, so that signatures say something. At most ``room`` threads are shown, fairly.
    """
    if not threads:
        return []
    threads, left = pick_fairly(threads, room)
    signed = signed or any(thread.signature != "unverified" for thread in threads)
    # On a narrow screen a title says more than who stands in the thread's name already.
    fits = {"FROM": columns() >= 88, "KIND": columns() >= 100, "SIGNATURE": signed}
    names = [n for n in ("THREAD", "FROM", "KIND", "AGE", "SIGNATURE", "TITLE", "STATE") if fits.get(n, True)]
    rows = [tuple(names), *(_inbox_row(thread, names, now) for thread in threads)]
    colours = ["", *(_COLOURS.get(thread.state, "") for thread in threads)]
    head, *shown = grid(_with_short_titles(rows), 0, colours, min(_SHORT_STATE, max(width(row[-1]) for row in rows)))
    lines = [paint(line, dim=True) for line in head]
    for thread, row in zip(threads, shown, strict=True):
        lines += row
        if thread.refused is not None:
            lines += wrap("    ", clean(thread.refused.reason)) if thread.refused.reason else []
            lines += next_step(thread.refused.remedy, 4)
        lines += next_step(thread.step_in_main, 4)
    return lines + left_out(left, "", "--all shows them")


def _inbox_row(thread: ThreadView, names: Sequence[str], now: datetime) -> tuple[str, ...]:
    cells = {
        "THREAD": thread.thread.removesuffix(".md"),
        "FROM": thread.peer,
        "KIND": thread.kind,
        "AGE": age(thread.received, now),
        "SIGNATURE": thread.signature.partition(" ")[0],
        "TITLE": clean(thread.subject, 120),
        "STATE": state_text(thread),
    }
    return tuple(cells[name] for name in names)


def _with_short_titles(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The rows with the last column but one no wider than a terminal leaves it."""
    *others, title, state = (max(map(width, column)) for column in zip(*rows, strict=True))
    free = columns() - sum(others) - 2 * len(others) - 2 - min(state, _SHORT_STATE)
    most = min(title, max(_TITLE, min(free, _LONGEST_TITLE))) if sys.stdout.isatty() else title
    return [(*row[:-2], cut(row[-2], most), row[-1]) for row in rows]


def pick_fairly(
    threads: Sequence[ThreadView], room: int = sys.maxsize
) -> tuple[Sequence[ThreadView], Mapping[Name, int]]:
    """At most ``room`` threads in their order, and how many more each peer has.

    Every peer's first comes before anybody's second: who floods us hides nobody else.
    """
    if len(threads) <= room:
        return threads, {}
    seen: Counter[Name] = Counter()
    turns = []
    for index, thread in enumerate(threads):
        turns.append((seen[thread.peer], index))
        seen[thread.peer] += 1
    kept = [threads[index] for _, index in sorted(sorted(turns)[:room], key=itemgetter(1))]
    seen.subtract(thread.peer for thread in kept)
    return kept, +seen


def left_out(left: Mapping[Name, int], margin: str, otherwise: str) -> list[str]:
    """One line for what is not shown: of whom, and how to see it."""
    if not left:
        return []
    if len(left) == 1:
        ((peer, count),) = left.items()
        return wrap(margin, f"and {count} more from {peer}; {command('cn inbox --peer {}', peer)} shows them")
    most = Counter(left).most_common(MOST)
    told = ", ".join(f"{count} from {peer}" for peer, count in most)
    more = f", and from {len(left) - MOST} others" if len(left) > MOST else ""
    return wrap(margin, f"and {sum(left.values())} more: {told}{more}; {otherwise}")


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
    return f"{paint(status.hub, bold=True)}: {place_text(status)}; {last_run_text(status)}"


def place_text(status: Status) -> str:
    """Where main is."""
    main = status.main
    return f"{main.branch} at {main.commit[:7]}, {_origin(main, stopped=status.stopped is not None)}"


def last_run_text(status: Status) -> str:
    """When something was done here last."""
    ago = age(status.last_run, status.now) if status.last_run else ""
    return "no run yet here" if not ago else "last run just now" if ago == "0m" else f"last run {ago} ago"


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
        return f"{main.ahead} ahead of origin, where the next run takes it, and {main.behind} behind"
    if main.ahead and stopped:
        return f"{main.ahead} ahead of origin as of the last good run"
    return f"{main.ahead} ahead of origin; the next run pushes that" if main.ahead else f"{main.behind} behind origin"


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


def _thread(thread: ThreadView, now: datetime) -> list[str]:
    """A pending thread in the section of its state."""
    name, decided = f"  {thread.thread.removesuffix('.md')}", thread.decided
    match thread.state:
        case "refused":
            rule, reason, remedy, *_ = thread.refused or Refusal("", "")
            lines = [name, *wrap("      ", f"{rule}: {clean(reason)}"), *next_step(remedy, 6)]
            lines += wrap("      ", BRANCH_LEFT) if thread.withdrawn and reason != BRANCH_LEFT else []
            return [*lines, *wrap("      ", IN_MAIN), *next_step(thread.step_in_main, 6)] if thread.in_main else lines
        case "decided":
            text = f"{clean(decided.text, 120)} by {decided.actor}"
            text += f", {thread.caution}" if thread.caution else ""
        case "deferred":
            text = f"until {format_stamp(decided.until)}" if decided.until else "until decided again"
            text += f": {clean(decided.reason, 120)}" if decided.reason else ""
        case "assigned":
            text = f"to {assigned_text(thread)}, {age(thread.received, now)}"
        case _:
            text = f"{age(thread.received, now)}, {thread.kind}"
            text += f": {clean(thread.subject, 120)}" if thread.subject else ""
            text += ", of no peer now" if thread.no_peer else ""
            text += f", {thread.caution}" if thread.caution else ""
    text += f"; {BRANCH_LEFT}" if thread.withdrawn and thread.state != WITHDRAWN else ""  # a section of its own
    if thread.in_main:
        return [*_named(name, f"{text}, {IN_MAIN}"), *next_step(thread.step_in_main, 6)]
    return _named(name, text)


def _named(name: str, text: str, colour: str = "") -> list[str]:
    """The text behind the name; indented below a long one."""
    return wrap(f"{name}  ", text, None if width(name) + 2 <= _INDENT else 6, colour)


def _waiting(waiting: Waiting, now: datetime) -> list[str]:
    get = waiting.item.get
    answer, remedy = answer_text(waiting)
    text = f"{age(waiting.item.since, now)}, {answer}{' (!)' if waiting.old else ''}"
    lines = _named(f"  {clean(get('branch'), 120)} at {waiting.peer}", text, "yellow" if waiting.old else "")
    lines += wrap("      ", clean(get("subject"))) if get("subject") else []
    return lines + next_step(remedy, 6)


def answer_text(waiting: Waiting) -> tuple[str, str]:
    """The last answer to something of ours, and the next step (may be empty)."""
    get, answer = waiting.item.get, waiting.item.get("status")
    if waiting.no_peer:
        over = command("cn withdraw {}", f"{waiting.peer}:{waiting.item.topic}")
        asked = f"{answer or 'no answer'}: {waiting.peer} is no peer, and is not asked"
        return asked, f"{over} says that it needs nothing more"
    if get("unproven"):
        answer += f", claimed but unproven: {clean(get('unproven'))}"
    elif get("reason"):
        answer += f": {in_quotes(clean(get('reason')))}"
    if waiting.moved:
        return f"moved to {waiting.moved[:8]} by hand, no answer yet; before that {answer}", ""
    shown = command("cn thread show {}", f"{waiting.peer}:{waiting.item.topic}")
    is_message = waiting.mend and get("kind") not in ("", PROPOSAL)
    none = "no answer about our commit yet" if waiting.replaced else "no answer yet"
    answer = answer or ("answered with words" if waiting.item.get("answer") else none)
    return answer, f"{shown} shows it; {waiting.mend}" if is_message else waiting.mend


def _outbox(entry: Entry, now: datetime, margin: str = "  ") -> list[str]:
    if entry.effect == "damaged":
        return wrap(margin, f"{clean(entry.file)}: {clean(entry.reason)}", colour="red")
    if entry.effect == "draft" and entry.queued:
        to = f" to {clean(entry.to, 120)}" if entry.kind not in ("adhoc", "mca") else ""
        said = f"{entry.kind}{to}, written {age(entry.queued, now)} ago: waits for origin"
        shown = [*wrap(margin, said), *wrap(f"{margin}    ", clean(entry.subject))]
        if entry.reason:
            return [*shown, *wrap(f"{margin}    ", clean(entry.reason), colour="yellow")]
        file = f"{DRAFTS}/{entry.file}"
        takes_back = f"{command('rm -- {}', file)} takes it back ({KEPT_BY_MAIN}); edited, it goes as it is then"
        return [*shown, *next_step(takes_back, len(margin) + 4)]
    what = "deletion of " if entry.effect == "delete" else ""
    queued = f"queued {age(entry.queued, now)} ago" if entry.queued else "queued"
    queued += "" if entry.attempts else ", not tried from this clone yet"
    lines = wrap(margin, f"{what}{clean(entry.branch, 120)} for {entry.to}, {queued}")
    if entry.subject:
        lines += wrap(f"{margin}    ", clean(entry.subject))
    if entry.attempts or entry.owed:
        tried = f"{counted(entry.attempts, 'attempt')}: " if entry.attempts else ""
        lines += wrap(f"{margin}    ", f"{tried}{clean(entry.reason)}", colour="yellow")
    return lines


def _unreachable(unreachable: Unreachable, now: datetime) -> list[str]:
    later = ""
    if unreachable.next:
        wait = unreachable.next - now
        later = f", next try in {format_age(wait)}" if wait.total_seconds() > 0 else ", next try at the next run"
    told = f"{clean(unreachable.reason)} ({since(unreachable.since, now)}{later})"
    return wrap(f"  {unreachable.name}  ", told)
