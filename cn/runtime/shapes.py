"""The JSON shapes of what only the runtime knows (``docs/protocol/json.md``)."""

from __future__ import annotations

from typing import Any

from cn.agent.plan.prompt import NO_MODEL, Packed
from cn.agent.plan.replay import AnswerDecision
from cn.runtime.gather_prompt import Measured
from cn.runtime.replay import Pair, Replayed
from cn.views.shapes import shape


def context_json(packed: Packed, measured: Measured) -> dict[str, Any]:
    """What a model would be sent."""
    request = packed.request
    return shape(
        packed,
        "id from=sender bytes=size tokens tokens_are why? parts missing notes request",
        tokens=measured.tokens,
        tokens_are=measured.how,
        why=measured.why,
        parts=[shape(part, "part=name place path? bytes=size tokens left_out") for part in packed.parts],
        request=shape(
            request,
            "model max_tokens system messages",
            model=None if request.model == NO_MODEL else request.model,
            system=[shape(block, "text cached") for block in request.system],
            messages=[shape(message, "role text") for message in request.messages],
        ),
    )


def planned_json(pair: Pair, packed: Packed) -> dict[str, Any]:
    """What a replay would send."""
    planned = {"model": packed.request.model, "bytes": packed.size, "tokens": packed.tokens}
    return shape(pair, "id=name source model bytes tokens", **planned)


def replayed_json(one: Replayed) -> dict[str, Any]:
    """What became of one pair."""
    return shape(
        one,
        "id=pair.name source=pair.source from=pair.shown.sender model before now changed=change error? "
        "tokens=call.usage.tokens cost_usd=call.cost seconds=call.seconds",
        model=one.call.model if one.call else one.packed.request.model,
        before=typed_json(one.pair.before),
        now=typed_json(one.now) if one.now else None,
    )


def typed_json(typed: AnswerDecision) -> dict[str, Any]:
    """What one answer decides."""
    return shape(typed, "ending? decides=aims ops body? rejected")
