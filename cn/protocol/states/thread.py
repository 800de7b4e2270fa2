"""The state machine of one inbound thread: what is to be done about it.

The state is that of the open item in ``state/ledger/<peer>/open``; the events are the ``in``
kinds of the ledger. :mod:`cn.protocol.ledger` folds histories through this table, and
:class:`cn.run.executor.Executor` records no event of ours that it does not have.

The states of the queue stand beside deferred and assigned, not across them: a thread that
waits for a date or for a reviewer does not wait for the agent.
"""

from __future__ import annotations

from enum import StrEnum

from cn.values.state_machine import Machine


class Thread(StrEnum):
    """Who moves next. The values are the ``state`` words of the open file."""

    NONE = "none"
    PENDING = "received"
    DEFERRED = "deferred"
    ASSIGNED = "assigned"
    QUEUED = "queued"
    CLAIMED = "claimed"
    DEAD = "dead"
    DONE = "done"


class ThreadEvent(StrEnum):
    """What became of it: the ``in`` kinds of the ledger."""

    RECEIVED = "received"
    REFRESHED = "refreshed"
    REPEATED = "repeated"
    REFUSED = "refused"
    GONE = "gone"
    NOTICED = "noticed"
    DEFERRED = "deferred"
    RETURNED = "returned"
    ASSIGNED = "assigned"
    DECIDED = "decided"
    ENQUEUED = "enqueued"
    CLAIMED = "claimed"
    SHOWN = "shown"
    TIMED_OUT = "timed-out"
    DEAD = "dead"


IN_QUEUE = frozenset({Thread.QUEUED, Thread.CLAIMED, Thread.DEAD})
"""The states in which the item names its queue item (the field ``input``)."""

_E = ThreadEvent


_OPEN = {
    # Received over an open item: the damaged record of the earlier one named no thread.
    _E.RECEIVED: Thread.PENDING,
    # Moved: what was decided, claimed or said of the earlier head is void.
    _E.REFRESHED: Thread.PENDING,
    _E.DEFERRED: Thread.DEFERRED,
    _E.ASSIGNED: Thread.ASSIGNED,
    _E.DECIDED: Thread.DONE,
    # The branch became a notice: there is nothing left to decide on.
    _E.NOTICED: Thread.DONE,
}
"""What can happen to every open thread: triage works in both interfaces."""
_NOTED = (_E.REFUSED, _E.GONE, _E.REPEATED)
"""A refusal, a branch withdrawn or there again: noted, the same actor moves next."""

THREAD = Machine(
    "thread",
    Thread,
    ThreadEvent,
    Thread.NONE,
    {
        Thread.NONE: {
            _E.RECEIVED: Thread.PENDING,
            # Of a branch without an open thread: not let in, a notice, done and still moving.
            _E.REFUSED: Thread.NONE,
            _E.NOTICED: Thread.NONE,
            _E.REPEATED: Thread.NONE,
            _E.GONE: Thread.NONE,
        },
        Thread.PENDING: {**_OPEN, **dict.fromkeys(_NOTED, Thread.PENDING), _E.ENQUEUED: Thread.QUEUED},
        Thread.DEFERRED: {**_OPEN, **dict.fromkeys(_NOTED, Thread.DEFERRED), _E.RETURNED: Thread.PENDING},
        Thread.ASSIGNED: {**_OPEN, **dict.fromkeys(_NOTED, Thread.ASSIGNED)},
        Thread.QUEUED: {
            **_OPEN,
            **dict.fromkeys(_NOTED, Thread.QUEUED),
            _E.ENQUEUED: Thread.QUEUED,  # its item was lost from state/queue, and is made again
            _E.CLAIMED: Thread.CLAIMED,
            _E.DEAD: Thread.DEAD,  # after a time-out that was the last
        },
        Thread.CLAIMED: {
            **_OPEN,
            **dict.fromkeys(_NOTED, Thread.CLAIMED),
            _E.CLAIMED: Thread.CLAIMED,  # another attempt after an output that was rejected
            _E.SHOWN: Thread.CLAIMED,
            _E.TIMED_OUT: Thread.QUEUED,
            _E.ENQUEUED: Thread.QUEUED,  # put back: its claim was lost
            _E.DEAD: Thread.DEAD,
        },
        Thread.DEAD: {**_OPEN, **dict.fromkeys(_NOTED, Thread.DEAD), _E.ENQUEUED: Thread.QUEUED},  # cn queue retry
    },
)
