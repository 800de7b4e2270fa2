"""The JSON shapes of what is shown (docs/protocol/json.md): plain dicts, times as text, null for nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from cn.values.text import redact
from cn.values.timestamps import format_second
from cn.views.thread_view import ThreadView

if TYPE_CHECKING:  # nothing is loaded for a shape that is not asked for
    from cn.git.history import PastCommit
    from cn.llm.usage import Call, Sum, UsageView
    from cn.protocol.own_thread import Own
    from cn.protocol.queue_item import Input
    from cn.threads.store import OwnDocument
    from cn.values.report import Report
    from cn.views.attempts import Attempt, Ended
    from cn.views.log import LoggedAction
    from cn.views.outbox import Entry, PeerView, Unreachable
    from cn.views.queue import QueueView
    from cn.views.status import ShownCondition, Status, Waiting
    from cn.views.thread_page import Document
    from cn.views.why import Why


def shape(of: object, keys: str, **made: Any) -> dict[str, Any]:
    """The attributes of a value as a JSON object with these ``keys``, in their order.

    ``key=attribute.of.attribute`` says where the value stands if not in the attribute ``key`` (null as soon as
    one on the way is None); ``made`` are those that stand nowhere. ``key?`` shows an empty text as null. Times
    become text, members of an enum their values, tuples lists.
    """
    found: dict[str, Any] = {}
    for word in keys.split():
        key, _, path = word.partition("=")
        name = key.rstrip("?")
        value: Any = made.get(name, of)
        for attribute in () if name in made else (path or name).split("."):
            value = None if value is None else getattr(value, attribute)
        if isinstance(value, datetime):
            value = format_second(value)
        elif isinstance(value, Enum):
            value = value.value
        elif isinstance(value, tuple):
            value = list(value)
        found[name] = None if value == "" and key != name else value
    return found


def brief_json(thread: ThreadView) -> dict[str, Any]:
    """A thread without its chain."""
    keys = (
        "thread peer topic branch head kind subject? signature state received decision?=decided.text "
        "actor?=decided.actor executed?=result.executed status?=result.status merge?=result.merge "
        "until=decided.until assigned_to?=decided.assigned_to reason? rule?=refused.rule remedy?=refused.remedy "
        "withdrawn earlier? note?=decided.problem"
    )
    return shape(thread, keys)


def thread_json(thread: ThreadView) -> dict[str, Any]:
    """A thread."""
    chain = [shape(link, "step at waiting_since=since text head? commit?") for link in thread.chain]
    return {**brief_json(thread), "chain": chain}


def document_json(document: Document) -> dict[str, Any]:
    """A thread with its text."""
    return {**thread_json(document.thread), **shape(document, "path text")}


def any_json(thread: OwnDocument | ThreadView) -> dict[str, Any]:
    """A thread among all threads, of our own or a peer's."""
    if not isinstance(thread, ThreadView):
        return {**own_thread_json(thread.own), "committed": thread.committed}
    keys = "thread source kind cadence title?=subject state opened=received by=peer until=decided.until reason?"
    none = dict.fromkeys(("input", "path", "committed"))
    return {**shape(thread, keys, kind="inbox", cadence="inbox"), **none}


def own_thread_json(own: Own) -> dict[str, Any]:
    """What the head of a thread of our own says."""
    told = {key: own.get(key.title()) for key in ("by", "reason", "input")}
    keys = "thread source kind cadence title state opened by? until reason? input? path"
    return shape(own, keys, thread=own.path.rpartition("/")[2], **told)


def own_document_json(document: OwnDocument) -> dict[str, Any]:
    """A thread of our own with its text."""
    return {**any_json(document), "text": document.text}


def entry_json(entry: Entry) -> dict[str, Any]:
    """A file of the outbox."""
    keys = (
        "file effect to? branch? head? kind? subject? queued attempts=tried.attempts reason? "
        "last_attempt=tried.last thread? source?"
    )
    return shape(entry, keys, reason=redact(entry.tried.reason))


def unreachable_json(unreachable: Unreachable) -> dict[str, Any]:
    """A peer or mailbox that does not answer."""
    return shape(unreachable, "name reason since next_try=next attempts", reason=redact(unreachable.reason))


def peer_json(view: PeerView) -> dict[str, Any]:
    """A peer."""
    gone = unreachable_json(view.unreachable) if view.unreachable else None
    keys = "name hub kind peered? deliver key? community unreachable"
    return shape(view.peer, keys, hub=redact(view.peer.hub), key=view.fingerprint, unreachable=gone)


def status_json(status: Status) -> dict[str, Any]:
    """The whole hub."""
    threads, stopped = status.inbox.threads, status.stopped
    return {
        "hub": status.hub,
        "main": shape(status.main, "branch commit checked_out has_origin origin ahead behind"),
        "pending": len(threads),
        "oldest": format_second(threads[0].received) if threads else None,
        "threads": [brief_json(thread) for thread in threads],
        "unknown_files": list(status.inbox.unknown),
        "damaged": [{"peer": peer, "reason": reason} for peer, reason in status.inbox.damaged],
        "not_in_effect": [draft.source for draft in status.not_in_effect],
        "waiting": [_waiting_json(waiting) for waiting in status.waiting],
        "outbox": [entry_json(e) for e in status.outbox],
        "unreachable": [unreachable_json(u) for u in status.unreachable],
        "stopped": _condition_json(stopped, "reason") if stopped else None,
        "standing": [_condition_json(one, "text") for one in status.standing],
        "queue": queue_json(status.queue) if status.queue else None,
        **shape(status, "last_run now"),
    }


def _waiting_json(waiting: Waiting) -> dict[str, Any]:
    told = {key: waiting.item.get(key) for key in ("branch", "status", "reason", "unproven")}
    keys = "peer branch head=item.head kind since=item.since status? reason? unproven? warning=old"
    return shape(waiting, keys, kind=waiting.item.get("kind") or "proposal", **told)


def _condition_json(shown: ShownCondition, key: str) -> dict[str, Any]:
    return {key: redact(shown.text), **shape(shown, "remedy since", remedy=redact(shown.remedy))}


def input_json(text: str | None) -> dict[str, Any]:
    """The agent's input; all null where nothing waits."""
    from cn.protocol.queue_item import parse_input

    return shape(None if text is None else parse_input(text), "id from=sender content cadence")


def queue_json(view: QueueView) -> dict[str, Any]:
    """What waits for the agent."""
    turn, flying = view.turn, None
    if turn:
        given = shape(turn, "attempt machine here since until", here=view.here, until=turn.since + view.limit)
        flying = {**queued_json(turn.input), **given}
    return {
        "actor": view.actor.value,
        "in_flight": flying,
        "waiting": [queued_json(item) for item in view.waiting],
        "dead": [queued_json(item) for item in view.dead],
        "damaged": list(view.damaged),
    }


def queued_json(item: Input) -> dict[str, Any]:
    """One item of the queue."""
    from cn.agent.plan.turns import source_of

    keys = "id from=sender cadence queued source path? head? attempts reason?"
    return shape(item, keys, source=source_of(item), reason=redact(item.reason))


def happened_json(happened: LoggedAction) -> dict[str, Any]:
    """One row of the log."""
    from cn.protocol.log import NOTHING

    row = happened.row
    keys = "time=at event source? decision? executed thread? branch? head? outcome? commit? input? note? audited"
    executed = None if row.executed == NOTHING else row.executed
    return shape(row, keys, event=happened.event, executed=executed, audited=happened.audited)


def usage_json(view: UsageView) -> dict[str, Any]:
    """What calls to the model used and cost."""
    from cn.llm.prices import LOOKED_UP

    rows = [sum_json(row) for row in view.rows]
    return shape(view, "since by rows total prices_of", rows=rows, total=sum_json(view.total), prices_of=LOOKED_UP)


_TOKENS = " ".join(f"{kind}_tokens=usage.{kind}_tokens" for kind in ("input", "output", "cache_read", "cache_write"))


def sum_json(row: Sum) -> dict[str, Any]:
    """One sum."""
    rate = row.cache_hit_rate
    keys = f"key? calls failed {_TOKENS} cache_hit_rate cost_usd=cost unpriced unknown seconds replays"
    return shape(row, keys, cache_hit_rate=None if rate is None else round(rate, 4))


def report_json(report: Report) -> dict[str, Any]:
    """What a run has to tell."""
    notes = [
        shape(
            note, "mark text hint source known=told_before paths rows", text=redact(note.text), hint=redact(note.hint),
            paths=[redact(path) for path in note.paths], rows=[[redact(text) for text in row] for row in note.rows],
        )
        for note in report.notes
    ]  # fmt: skip
    return {"exit_code": report.exit_code, "notes": notes}


def why_json(why: Why) -> dict[str, Any]:
    """All that is known of one action (:mod:`cn.views.why`)."""
    thread = why.thread
    item = "id source from=sender cadence? thread? queued shown where reason?"
    return {
        "name": why.name,
        "item": shape(why.item, item) if why.item else None,
        "attempts": [_attempt_json(attempt, why.calls) for attempt in why.attempts],
        "replays": why.replays,
        "thread": thread_json(thread) if isinstance(thread, ThreadView) else None,
        "own_thread": None if thread is None or isinstance(thread, ThreadView) else own_thread_json(thread),
        "decided": _ended_json(why.decided) if why.decided else None,
        "merge": _past_json(why.merge) if why.merge else None,
        "rows": [happened_json(row) for row in why.rows],
        "others": list(why.others),
        "notes": list(why.notes),
    }


def _attempt_json(attempt: Attempt, calls: Iterable[Call]) -> dict[str, Any]:
    from cn.protocol.ops import format_whole

    output = attempt.output
    call = f"at model main? parts {_TOKENS} cost_usd=cost seconds stop attempts unknown"
    made = {
        "trigger": str(attempt.trigger),
        "calls": [
            shape(one, call, parts=[{"part": name, "bytes": size} for name, size in one.parts])
            for one in calls
            if (one.trigger or one.input) == str(attempt.trigger)
        ],
        "answer": attempt.answer.decode("utf-8", "replace") if attempt.answer is not None else None,
        "ops": [": ".join(format_whole(op)) for op in output.ops] if output else None,
        "errors": list(output.errors) if output else [],
        "rules": list(attempt.rejected.rules) if attempt.rejected else [],
        "ended": _ended_json(attempt.ended) if attempt.ended else None,
    }
    keys = "trigger attempt=trigger.attempt outcome machine=turn.machine given=turn.since calls answer ops errors rules"
    return shape(attempt, f"{keys} refused=rejected.why ended", **made)


def _ended_json(ended: Ended) -> dict[str, Any]:
    message = "file kind to subject? branch? queued delivered executed?"
    return {
        **_past_json(ended.past),
        "files": [{"change": status, "path": path} for status, path in ended.files],
        "rows": [happened_json(row) for row in ended.rows],
        "messages": [shape(one, message) for one in ended.messages],
        "concerns": list(ended.concerns),
    }


def _past_json(past: PastCommit) -> dict[str, Any]:
    return shape(past, "commit parents at subject")
