"""The state machine of one branch of ours at a peer, from the outbox to its deletion.

The state is that of the open item on the ``out`` side of the ledger; the events are its
``out`` kinds. What we decide (queue, take an answer, delete) must fit what we know. What a
remote confirmed (``delivered``, ``deleted``) has happened in the world already: it fits
everywhere, since refusing to write it down would make the outbox do it again.
"""

from __future__ import annotations

from enum import StrEnum

from cn.values.state_machine import Machine


class Sender(StrEnum):
    """What we know of it. The values are the ``state`` words of the open file."""

    NONE = "none"
    QUEUED = "queued"
    ADOPTED = "adopted"
    DELIVERED = "delivered"
    ANSWERED = "answered"
    DELETING = "deleting"
    DELETED = "deleted"
    GONE = "gone"


class SenderEvent(StrEnum):
    """What became of it: the ``out`` kinds of the ledger."""

    QUEUED = "queued"
    ADOPTED = "adopted"
    DELIVERED = "delivered"
    ANSWERED = "answered"
    DELETING = "deleting"
    DELETED = "deleted"
    GONE = "gone"


_E = SenderEvent

# A topic is used once for ever (own_topic), so it is queued from nothing. It is adopted over
# whatever we knew: an authentic notice names the tip that somebody pushed there by hand.
SENDER = Machine(
    "sender",
    Sender,
    SenderEvent,
    Sender.NONE,
    {
        Sender.NONE: {
            _E.QUEUED: Sender.QUEUED,
            _E.ADOPTED: Sender.ADOPTED,
            # Late confirmations for a branch that was adopted at another tip and ended since.
            _E.DELIVERED: Sender.NONE,
            _E.DELETED: Sender.NONE,
        },
        Sender.QUEUED: {
            _E.QUEUED: Sender.QUEUED,  # the very same message once more: one entry, one delivery
            _E.ADOPTED: Sender.ADOPTED,
            _E.DELIVERED: Sender.DELIVERED,
            _E.ANSWERED: Sender.ANSWERED,  # pushed, killed before the confirmation, answered
            _E.DELETED: Sender.DELETED,
            # Not gone: what the outbox still holds is delivered by it.
        },
        Sender.ADOPTED: {
            _E.ADOPTED: Sender.ADOPTED,
            _E.DELIVERED: Sender.DELIVERED,  # ours after all: its record was lost, its entry not
            _E.ANSWERED: Sender.ANSWERED,
            _E.DELETED: Sender.DELETED,
            _E.GONE: Sender.GONE,
            # Not deleting: without an answer its creator alone knows whether it is done.
        },
        Sender.DELIVERED: {
            _E.ADOPTED: Sender.ADOPTED,
            _E.DELIVERED: Sender.DELIVERED,
            _E.ANSWERED: Sender.ANSWERED,
            _E.DELETING: Sender.DELETING,  # our answer to a branch that is gone, or old
            _E.DELETED: Sender.DELETED,
            _E.GONE: Sender.GONE,
        },
        Sender.ANSWERED: {
            _E.ADOPTED: Sender.ADOPTED,
            _E.DELIVERED: Sender.ANSWERED,  # the confirmation comes after the answer
            _E.ANSWERED: Sender.ANSWERED,
            _E.DELETING: Sender.DELETING,
            _E.DELETED: Sender.DELETED,
            _E.GONE: Sender.GONE,
        },
        Sender.DELETING: {
            _E.ADOPTED: Sender.ADOPTED,
            _E.DELIVERED: Sender.DELETING,  # as above, and the answer was final
            _E.DELETED: Sender.DELETED,
            _E.GONE: Sender.GONE,  # somebody was faster
            # Not answered, not deleting: one deletion is enough, more answers are only logged.
        },
    },
)
