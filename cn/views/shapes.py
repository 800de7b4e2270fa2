"""The JSON shapes of what is shown (docs/protocol/json.md): plain dicts, times as text, null for nothing."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from cn.values.text import redact
from cn.values.timestamps import format_second
from cn.views.thread_view import ThreadView

if TYPE_CHECKING:  # nothing is loaded for a shape that is not asked for
    from cn.llm.usage import Sum, UsageView
    from cn.protocol.own_thread import Own
    from cn.protocol.queue_item import Input
    from cn.protocol.thread_life import Link
    from cn.threads.read import OwnDocument
    from cn.values.report import Report
    from cn.views.log import LoggedAction
    from cn.views.outbox import Entry
    from cn.views.peers import PeerView, Unreachable
    from cn.views.queue import QueueView
    from cn.views.status import Status, Waiting
    from cn.views.thread_page import Document


def time_json(at: datetime | None) -> str | None:
    """A time as ``2026-02-05T14:00:07Z``."""
    return format_second(at) if at else None


def link_json(link: Link) -> dict[str, Any]:
    """One step of a chain."""
    return {
        "step": link.step,
        "at": time_json(link.at),
        "waiting_since": time_json(link.since),
        "text": link.text,
        "head": link.head or None,
        "commit": link.commit or None,
    }


def brief_json(thread: ThreadView) -> dict[str, Any]:
    """A thread without its chain."""
    decided, result, refused = thread.decided, thread.result, thread.refused
    return {
        "thread": thread.thread,
        "peer": thread.peer,
        "topic": thread.topic,
        "branch": thread.branch,
        "head": thread.head,
        "kind": thread.kind,
        "subject": thread.subject or None,
        "signature": thread.signature,
        "state": thread.state,
        "received": time_json(thread.received),
        "decision": decided.text or None,
        "actor": decided.actor or None,
        "executed": result.executed or None,
        "status": result.status or None,
        "merge": result.merge or None,
        "until": time_json(decided.until),
        "assigned_to": decided.assigned_to or None,
        "reason": thread.reason or None,
        "rule": (refused.rule if refused else "") or None,
        "remedy": (refused.remedy if refused else "") or None,
        "withdrawn": time_json(thread.withdrawn),
        "earlier": thread.earlier or None,
        "note": decided.problem or None,
    }


def thread_json(thread: ThreadView) -> dict[str, Any]:
    """A thread."""
    return {**brief_json(thread), "chain": [link_json(link) for link in thread.chain]}


def document_json(document: Document) -> dict[str, Any]:
    """A thread with its text."""
    return {**thread_json(document.thread), "path": document.path, "text": document.text}


def any_json(thread: OwnDocument | ThreadView) -> dict[str, Any]:
    """A thread among all threads, of our own or a peer's."""
    if not isinstance(thread, ThreadView):
        return own_json(thread)
    return {
        "thread": thread.thread,
        "source": thread.source,
        "kind": "inbox",
        "cadence": "inbox",
        "title": thread.subject or None,
        "state": thread.state,
        "opened": time_json(thread.received),
        "by": thread.peer,
        "until": time_json(thread.decided.until),
        "reason": thread.reason or None,
        "input": None,
        "path": None,
        "committed": None,
    }


def own_json(document: OwnDocument) -> dict[str, Any]:
    """A thread of our own, without its text."""
    return {**own_thread_json(document.own), "committed": document.committed}


def own_thread_json(own: Own) -> dict[str, Any]:
    """What its head says."""
    return {
        "thread": own.path.rpartition("/")[2],
        "source": own.source,
        "kind": own.kind,
        "cadence": own.cadence.value,
        "title": own.title,
        "state": own.state,
        "opened": time_json(own.opened),
        "by": own.get("By") or None,
        "until": time_json(own.until),
        "reason": own.get("Reason") or None,
        "input": own.get("Input") or None,
        "path": own.path,
    }


def own_document_json(document: OwnDocument) -> dict[str, Any]:
    """A thread of our own with its text."""
    return {**own_json(document), "text": document.text}


def waiting_json(waiting: Waiting) -> dict[str, Any]:
    """A branch of ours that waits for a final answer."""
    return {
        "peer": waiting.peer,
        "branch": waiting.branch,
        "head": waiting.head,
        "kind": waiting.kind,
        "since": time_json(waiting.since),
        "status": waiting.status or None,
        "reason": waiting.reason or None,
        "unproven": waiting.unproven or None,
        "warning": waiting.old,
    }


def entry_json(entry: Entry) -> dict[str, Any]:
    """A file of the outbox."""
    return {
        "file": entry.file,
        "effect": entry.effect,
        "to": entry.to or None,
        "branch": entry.branch or None,
        "head": entry.head or None,
        "kind": entry.kind or None,
        "subject": entry.subject or None,
        "queued": time_json(entry.queued),
        "attempts": entry.tried.attempts,
        "reason": redact(entry.tried.reason) or None,
        "last_attempt": time_json(entry.tried.last),
        "thread": entry.thread or None,
        "source": entry.source or None,
    }


def unreachable_json(unreachable: Unreachable) -> dict[str, Any]:
    """A peer or mailbox that does not answer."""
    return {
        "name": unreachable.name,
        "reason": redact(unreachable.reason),
        "since": time_json(unreachable.since),
        "next_try": time_json(unreachable.next),
        "attempts": unreachable.attempts,
    }


def peer_json(view: PeerView) -> dict[str, Any]:
    """A peer."""
    peer = view.peer
    return {
        "name": peer.name,
        "hub": redact(peer.hub),
        "kind": peer.kind,
        "peered": peer.peered or None,
        "deliver": peer.deliver,
        "key": view.fingerprint or None,
        "community": peer.community,
        "unreachable": unreachable_json(view.unreachable) if view.unreachable else None,
    }


def status_json(status: Status) -> dict[str, Any]:
    """The whole hub."""
    main = status.main
    threads = status.inbox.threads
    return {
        "hub": status.hub,
        "main": {
            "branch": main.branch,
            "commit": main.commit,
            "checked_out": main.checked_out,
            "has_origin": main.has_origin,
            "origin": main.origin,
            "ahead": main.ahead,
            "behind": main.behind,
        },
        "pending": len(threads),
        "oldest": time_json(threads[0].received) if threads else None,
        "threads": [brief_json(thread) for thread in threads],
        "unknown_files": list(status.inbox.unknown),
        "damaged": [{"peer": peer, "reason": reason} for peer, reason in status.inbox.damaged],
        "not_in_effect": [draft.path for draft in status.not_in_effect],
        "waiting": [waiting_json(w) for w in status.waiting],
        "outbox": [entry_json(e) for e in status.outbox],
        "unreachable": [unreachable_json(u) for u in status.unreachable],
        "stopped": {
            "reason": redact(status.stopped.reason),
            "remedy": redact(status.stopped.remedy),
            "since": time_json(status.stopped.since),
        }
        if status.stopped
        else None,
        "standing": [
            {"text": redact(one.text), "remedy": redact(one.remedy), "since": time_json(one.since)}
            for one in status.standing
        ],
        "queue": queue_json(status.queue) if status.queue else None,
        "last_run": time_json(status.last_run),
        "now": time_json(status.now),
    }


def input_json(text: str | None) -> dict[str, Any]:
    """The agent's input; all null where nothing waits."""
    from cn.protocol.queue_item import parse_input

    item = parse_input(text) if text is not None else None
    return {
        "id": item.id if item else None,
        "from": item.sender if item else None,
        "content": item.content if item else None,
        "cadence": item.cadence if item else None,
    }


def queue_json(view: QueueView) -> dict[str, Any]:
    """What waits for the agent."""
    turn = view.turn
    return {
        "actor": view.actor.value,
        "in_flight": {
            **queued_json(turn.input),
            "attempt": turn.attempt,
            "machine": turn.machine,
            "here": view.here,
            "since": time_json(turn.since),
            "until": time_json(turn.since + view.limit),
        }
        if turn
        else None,
        "waiting": [queued_json(item) for item in view.waiting],
        "dead": [queued_json(item) for item in view.dead],
        "damaged": list(view.damaged),
    }


def queued_json(item: Input) -> dict[str, Any]:
    """One item of the queue."""
    from cn.agent.plan.turns import source_of

    return {
        "id": item.id,
        "from": item.sender,
        "cadence": item.cadence.value,
        "queued": time_json(item.queued),
        "source": source_of(item),
        "path": item.path or None,
        "head": item.head or None,
        "attempts": item.attempts,
        "reason": redact(item.reason) or None,
    }


def happened_json(happened: LoggedAction) -> dict[str, Any]:
    """One row of the log."""
    from cn.protocol.log import NOTHING

    row = happened.row
    return {
        "time": time_json(row.at),
        "event": happened.event,
        "source": row.source or None,
        "decision": row.decision or None,
        "executed": None if row.executed == NOTHING else row.executed,
        "thread": row.thread or None,
        "branch": row.branch or None,
        "head": row.head or None,
        "outcome": row.outcome or None,
        "commit": row.commit or None,
        "input": row.input or None,
        "note": row.note or None,
        "audited": happened.audited,
    }


def usage_json(view: UsageView) -> dict[str, Any]:
    """What calls to the model used and cost."""
    from cn.llm.prices import LOOKED_UP

    return {
        "since": time_json(view.since),
        "by": view.by,
        "rows": [sum_json(row) for row in view.rows],
        "total": sum_json(view.total),
        "prices_of": LOOKED_UP,
    }


def sum_json(row: Sum) -> dict[str, Any]:
    """One sum."""
    rate = row.cache_hit_rate
    return {
        "key": row.key or None,
        "calls": row.calls,
        "failed": row.failed,
        "input_tokens": row.usage.input_tokens,
        "output_tokens": row.usage.output_tokens,
        "cache_read_tokens": row.usage.cache_read_tokens,
        "cache_write_tokens": row.usage.cache_write_tokens,
        "cache_hit_rate": None if rate is None else round(rate, 4),
        "cost_usd": row.cost,
        "unpriced": row.unpriced,
        "unknown": row.unknown,
        "seconds": row.seconds,
        "replays": row.replays,
    }


def report_json(report: Report) -> dict[str, Any]:
    """What a run has to tell."""
    notes = [
        {
            "mark": note.mark.value,
            "text": redact(note.text),
            "hint": redact(note.hint),
            "source": note.source,
            "known": note.told_before,
            "paths": [redact(path) for path in note.paths],
            "rows": [[redact(text) for text in row] for row in note.rows],
        }
        for note in report.notes
    ]
    return {"exit_code": report.exit_code, "notes": notes}
