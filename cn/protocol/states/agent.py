"""The state machine of the agent, which has one input at a time.

Its state is nowhere written down: it derives from the files, so that a crash between any two
of them leaves a state to go on from. The events are what changes the files.
"""

from __future__ import annotations

from enum import StrEnum

from cn.values.state_machine import Machine


class Actor(StrEnum):
    """What the agent is at."""

    IDLE = "idle"
    INPUT_READY = "input-ready"
    PROCESSING = "processing"
    OUTPUT_READY = "output-ready"
    TIMED_OUT = "timed-out"


class ActorEvent(StrEnum):
    """What happens to it."""

    PROMOTED = "promoted"
    SHOWN = "shown"
    ANSWERED = "answered"
    REJECTED = "rejected"
    EXPIRED = "expired"
    ARCHIVED = "archived"
    WITHDRAWN = "withdrawn"


_E = ActorEvent

ACTOR = Machine(
    "actor",
    Actor,
    ActorEvent,
    Actor.IDLE,
    {
        Actor.IDLE: {_E.PROMOTED: Actor.INPUT_READY},
        Actor.INPUT_READY: {
            _E.SHOWN: Actor.PROCESSING,
            _E.ANSWERED: Actor.OUTPUT_READY,  # it read state/input.md without `cn input`
            _E.EXPIRED: Actor.TIMED_OUT,
            _E.WITHDRAWN: Actor.IDLE,  # the thread was decided another way
        },
        Actor.PROCESSING: {
            _E.SHOWN: Actor.PROCESSING,
            _E.ANSWERED: Actor.OUTPUT_READY,
            _E.EXPIRED: Actor.TIMED_OUT,
            _E.WITHDRAWN: Actor.IDLE,
        },
        Actor.OUTPUT_READY: {
            _E.SHOWN: Actor.OUTPUT_READY,
            _E.ANSWERED: Actor.OUTPUT_READY,  # written again before it was executed
            _E.REJECTED: Actor.INPUT_READY,  # the attempt counts, the input stays
            _E.ARCHIVED: Actor.IDLE,  # executed; or rejected at the last attempt
            _E.WITHDRAWN: Actor.IDLE,
            # Not expired: an output that is there counts before the clock.
        },
        Actor.TIMED_OUT: {
            _E.SHOWN: Actor.TIMED_OUT,
            _E.ANSWERED: Actor.OUTPUT_READY,  # late, and not yet archived as timed out
            _E.ARCHIVED: Actor.IDLE,
            _E.WITHDRAWN: Actor.IDLE,
        },
    },
)


def actor_state(*, turn: bool, shown: bool, output: bool, expired: bool) -> Actor:
    """The state that the files show.

    ``turn``: ``state/turn.md`` names an item that this clone claimed; ``shown``: it was
    printed; ``output``: ``state/output.md`` is there; ``expired``: the turn is too old, which
    counts only as long as there is no output.
    """
    if not turn:
        return Actor.IDLE
    if output:
        return Actor.OUTPUT_READY
    if expired:
        return Actor.TIMED_OUT
    return Actor.PROCESSING if shown else Actor.INPUT_READY
