"""The JSON shapes of what only the runtime knows (``docs/protocol/json.md``)."""

from __future__ import annotations

from typing import Any

from cn.agent.plan.prompt import NO_MODEL, Packed
from cn.agent.plan.replay import AnswerDecision
from cn.runtime.gather_prompt import Measured
from cn.runtime.replay import Pair, Replayed


def context_json(packed: Packed, measured: Measured) -> dict[str, Any]:
    """What a model would be sent."""
    request = packed.request
    return {
        "id": packed.id,
        "from": packed.sender,
        "bytes": packed.size,
        "tokens": measured.tokens,
        "tokens_are": measured.how,
        "why": measured.why or None,
        "parts": [
            {
                "part": part.name,
                "place": part.place,
                "path": part.path or None,
                "bytes": part.size,
                "tokens": part.tokens,
                "left_out": part.left_out,
            }
            for part in packed.parts
        ],
        "missing": list(packed.missing),
        "notes": list(packed.notes),
        "request": {
            "model": None if request.model == NO_MODEL else request.model,
            "max_tokens": request.max_tokens,
            "system": [{"text": b.text, "cached": b.cached} for b in request.system],
            "messages": [{"role": m.role, "text": m.text} for m in request.messages],
        },
    }


def planned_json(pair: Pair, packed: Packed) -> dict[str, Any]:
    """What a replay would send."""
    return {
        "id": pair.name,
        "source": pair.source,
        "model": packed.request.model,
        "bytes": packed.size,
        "tokens": packed.tokens,
    }


def replayed_json(one: Replayed) -> dict[str, Any]:
    """What became of one pair."""
    call = one.call
    return {
        "id": one.pair.name,
        "source": one.pair.source,
        "from": one.pair.shown.sender,
        "model": call.model if call else one.packed.request.model,
        "before": typed_json(one.pair.before),
        "now": typed_json(one.now) if one.now else None,
        "changed": one.change.value if one.change else None,
        "error": one.error or None,
        "tokens": call.usage.tokens if call else None,
        "cost_usd": call.cost if call else None,
        "seconds": call.seconds if call else None,
    }


def typed_json(typed: AnswerDecision) -> dict[str, Any]:
    """What one answer decides."""
    return {
        "ending": typed.ending or None,
        "decides": list(typed.aims),
        "ops": list(typed.ops),
        "body": typed.body or None,
        "rejected": list(typed.rejected),
    }
