"""The JSON shape of :mod:`cn.views.why` (``docs/protocol/json.md``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cn.git.history import PastCommit
from cn.llm.usage import Call
from cn.protocol.ops import format_whole
from cn.views.attempts import Attempt, Ended
from cn.views.shapes import happened_json, own_thread_json, thread_json, time_json
from cn.views.thread_view import ThreadView
from cn.views.why import Why


def why_json(why: Why) -> dict[str, Any]:
    """All that is known of one action."""
    thread, item = why.thread, why.item
    return {
        "name": why.name,
        "item": {
            "id": item.id,
            "source": item.source,
            "from": item.sender,
            "cadence": item.cadence or None,
            "thread": item.thread or None,
            "queued": time_json(item.queued),
            "shown": time_json(item.shown),
            "where": item.where,
            "reason": item.reason or None,
        }
        if item
        else None,
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
    turn, output = attempt.turn, attempt.output
    return {
        "trigger": str(attempt.trigger),
        "attempt": attempt.trigger.attempt,
        "outcome": attempt.outcome,
        "machine": turn.machine if turn else None,
        "given": time_json(turn.since if turn else None),
        "calls": [_call_json(c) for c in calls if (c.trigger or c.input) == str(attempt.trigger)],
        "answer": attempt.answer.decode("utf-8", "replace") if attempt.answer is not None else None,
        "ops": [": ".join(format_whole(op)) for op in output.ops] if output else None,
        "errors": list(output.errors) if output else [],
        "rules": list(attempt.rejected.rules) if attempt.rejected else [],
        "refused": attempt.rejected.why if attempt.rejected else None,
        "ended": _ended_json(attempt.ended) if attempt.ended else None,
    }


def _call_json(call: Call) -> dict[str, Any]:
    return {
        "at": time_json(call.at),
        "model": call.model,
        "main": call.main or None,
        "parts": [{"part": name, "bytes": size} for name, size in call.parts],
        "input_tokens": call.usage.input_tokens,
        "output_tokens": call.usage.output_tokens,
        "cache_read_tokens": call.usage.cache_read_tokens,
        "cache_write_tokens": call.usage.cache_write_tokens,
        "cost_usd": call.cost,
        "seconds": call.seconds,
        "stop": call.stop,
        "attempts": call.attempts,
        "unknown": call.unknown,
    }


def _ended_json(ended: Ended) -> dict[str, Any]:
    return {
        **_past_json(ended.past),
        "files": [{"change": status, "path": path} for status, path in ended.files],
        "rows": [happened_json(row) for row in ended.rows],
        "messages": [
            {
                "file": message.file,
                "kind": message.kind,
                "to": message.to,
                "subject": message.subject or None,
                "branch": message.branch or None,
                "queued": time_json(message.queued),
                "delivered": time_json(message.delivered),
                "executed": message.executed or None,
            }
            for message in ended.messages
        ],
        "concerns": list(ended.concerns),
    }


def _past_json(past: PastCommit) -> dict[str, Any]:
    return {"commit": past.commit, "parents": list(past.parents), "at": time_json(past.at), "subject": past.subject}
