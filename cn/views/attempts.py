"""The attempts at one item, as main's history tells them (for ``cn why``).

Main has all of it: ``state/turn.md`` says who took the item and when, the commit that ended the turn
holds the archived pair, the rows of the log, the outbox and the threads. Nothing is inferred from
times; what no commit says is left empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cn.agent.archive import Rejected, archived_names, read_archived
from cn.agent.plan.output import Output, parse_output
from cn.agent.plan.turns import source_of
from cn.git.history import PastCommit, added_by, changes_of, commits_of
from cn.git.objects import read_object, read_objects
from cn.protocol.chat_reply import Say, parse_say
from cn.protocol.layout import OUTBOX, SAY, SENT
from cn.protocol.log import FOLDER, Row, parse_rows
from cn.protocol.outbox_entry import Deliver, entry_source, parse_entry
from cn.protocol.own_thread import CONCERNS
from cn.protocol.queue_item import TURN, Trigger, Turn, parse_trigger, parse_turn
from cn.run.view import View
from cn.values.names import Oid, is_owned
from cn.values.record_header import RecordRefused
from cn.values.timestamps import format_day
from cn.views.log import LoggedAction, machine_events

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Message:
    """A file of the outbox: what was to be sent, and what became of it.

    ``kind`` is that of the message, ``delete`` for the deletion of a branch, ``say`` for a text in a chat.
    ``delivered`` is when it moved to ``sent/``, ``executed`` what the log says of that; None: it waits.
    """

    file: str
    kind: str
    to: str
    subject: str
    branch: str
    queued: datetime
    delivered: datetime | None = None
    executed: str = ""


@dataclass(frozen=True)
class Ended:
    """The commit in which an attempt ended: rows of its source, files of cn's folders, messages."""

    past: PastCommit
    rows: tuple[LoggedAction, ...]
    files: tuple[tuple[str, str], ...]
    messages: tuple[Message, ...]

    @property
    def concerns(self) -> tuple[str, ...]:
        """Concerns that it opened."""
        return tuple(path for status, path in self.files if status == "A" and path.startswith(f"{CONCERNS}/"))


@dataclass(frozen=True)
class Attempt:
    """One attempt. ``turn`` is the claim, None where main's history does not hold it (any more).

    ``asked`` and ``answer`` are the archived pair. ``outcome`` is ``in flight``, ``executed``,
    ``rejected``, ``no answer``, ``taken back`` (decided otherwise, or nobody could be asked) or ``unknown``.
    """

    trigger: Trigger
    turn: Turn | None
    asked: bytes | None
    answer: bytes | None
    ended: Ended | None
    outcome: str
    rejected: Rejected | None = None

    @property
    def output(self) -> Output | None:
        """The answer as it was parsed."""
        return parse_output(self.answer) if self.answer is not None else None


def read_attempts(view: View, id: str, queued: datetime, machine: Sequence[LoggedAction]) -> list[Attempt]:
    """All attempts at the item ``id``, in order; ``machine`` are this clone's events, which say more."""
    turns, ends = _turns(view, id, queued)
    names = [n for n in archived_names(view, "input") if (t := parse_trigger(n)) and t.id == id]
    triggers = {t for name in (*names, *turns) if (t := parse_trigger(name))}
    asked = read_archived(view, "input", map(str, triggers))
    answers = read_archived(view, "output", map(str, triggers))
    found = []
    for trigger in sorted(triggers):
        name = str(trigger)
        turn = turns.get(name)
        past = added_by(view.hub.git, view.snapshot.commit, f"logs/input/{name}.md") or ends.get(name)
        sources = {source_of(turn.input)} if turn else set()
        ended = read_ended(view, past, sources, id, machine) if past and name in asked else None
        outcome, rejected = _outcome(name, ended, answered=name in answers)
        if ended is None and turn is not None:
            outcome = "taken back" if name in ends else "in flight"
        found.append(Attempt(trigger, turn, asked.get(name), answers.get(name), ended, outcome, rejected))
    return found


def _turns(view: View, id: str, queued: datetime) -> tuple[dict[str, Turn], dict[str, PastCommit]]:
    """Trigger → its claim, and the commit after the last one that held it."""
    git = view.hub.git
    commits = commits_of(git, view.snapshot.commit, TURN, since=queued - _DAY)
    texts = read_objects(git, [f"{past.commit}:{TURN}" for past in commits])
    turns: dict[str, Turn] = {}
    ends: dict[str, PastCommit] = {}
    newer: PastCommit | None = None
    for past, text in zip(commits, texts, strict=True):
        turn = _parse(text)
        if turn is not None and turn.input.id == id:
            if turn.trigger not in turns and newer is not None:
                ends[turn.trigger] = newer
            turns[turn.trigger] = turn
        newer = past
    return turns, ends


def _parse(text: bytes | None) -> Turn | None:
    try:
        return parse_turn(text) if text is not None else None
    except RecordRefused:
        return None


def _outcome(name: str, ended: Ended | None, *, answered: bool) -> tuple[str, Rejected | None]:
    if ended is None:
        return "unknown", None
    for happened in ended.rows:
        row = happened.row
        if row.decision == f"output:{name}" and row.executed.startswith("refused: "):
            return "rejected", Rejected(row.executed.removeprefix("refused: "))
    return ("executed" if answered else "no answer"), None


def read_ended(view: View, past: PastCommit, sources: Iterable[str], id: str, machine: Sequence[LoggedAction]) -> Ended:
    """What one commit did for the sources named, or for the item ``id``."""
    files = [(status, path) for status, path in changes_of(view.hub.git, past) if is_owned(path)]
    wanted = frozenset(sources)
    rows = tuple(
        h
        for h in _rows(view, past, files, machine)
        if h.row.source in wanted or (id and (h.row.input == id or h.row.decision.startswith(f"output:{id}")))
    )
    queued = [path for status, path in files if status == "A" and path.startswith(f"{OUTBOX}/")]
    messages = tuple(m for path in queued if (m := _message(view, past, path, wanted, id)))
    return Ended(past, rows, tuple(files), messages)


def _rows(
    view: View, past: PastCommit, files: Sequence[tuple[str, str]], machine: Sequence[LoggedAction]
) -> list[LoggedAction]:
    """The rows that a commit added to the days' logs, with what the machine log knows of them."""
    found: list[LoggedAction] = []
    for path in (path for _, path in files if path.startswith(f"{FOLDER}/")):
        day = path.rpartition("/")[2].removesuffix(".md")
        new = _parsed(view, past.commit, path, day)
        old = _parsed(view, past.parents[0], path, day) if past.parents else []
        take = machine_events(happened for happened in machine if format_day(happened.row.at) == day)
        found += [take(row) or LoggedAction(row) for row in new][len(old) :]
    return found


def _parsed(view: View, commit: Oid, path: str, day: str) -> list[Row]:
    return parse_rows((read_object(view.hub.git, f"{commit}:{path}") or b"").decode("utf-8", "replace"), day)


def _message(view: View, past: PastCommit, path: str, sources: frozenset[str], id: str) -> Message | None:
    """A file that the commit queued, if it belongs to the sources or the item, and its delivery."""
    data, name = read_object(view.hub.git, f"{past.commit}:{path}") or b"", path.rpartition("/")[2]
    made = _say(data, name, id) if path.endswith(SAY) else _entry(view, data, name, sources)
    if made is None:
        return None
    message, source = made
    sent = added_by(view.hub.git, view.snapshot.commit, f"{SENT}/{name}")
    if sent is None:
        return message
    files = [(s, p) for s, p in changes_of(view.hub.git, sent) if is_owned(p)]
    told = [h.row for h in _rows(view, sent, files, ()) if h.row.source == source]
    executed = told[0].executed if len(told) == 1 else next((r.executed for r in told if "✓" in r.executed), "")
    return replace(message, delivered=sent.at, executed=executed)


def _say(data: bytes, name: str, id: str) -> tuple[Message, str] | None:
    try:
        say: Say = parse_say(data)
    except RecordRefused:
        return None
    if id and say.id != id and not say.id.startswith(f"{id}-"):
        return None
    return Message(name, "say", say.chat, say.text, "", say.queued), say.chat


def _entry(view: View, data: bytes, name: str, sources: frozenset[str]) -> tuple[Message, str] | None:
    try:
        entry = parse_entry(data, view.snapshot.algorithm)
    except RecordRefused:
        return None
    source = entry_source(entry)
    if source not in sources and entry.source not in sources:
        return None
    kind, subject = (entry.kind, entry.subject) if isinstance(entry, Deliver) else ("delete", entry.reason)
    return Message(name, kind, entry.to, subject, entry.branch, entry.queued), source
