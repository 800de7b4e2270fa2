"""The state machine of one branch of a peer: what we saw, and what each look at it means.

:mod:`cn.inbox.plan.arrivals` reads the state from the ledger through this table, and asks it what a
listed head means and whether a branch that is not listed any more is news.
"""

from __future__ import annotations

from enum import Enum, StrEnum

from cn.values.state_machine import InvalidTransition, Machine


class Receiver(StrEnum):
    """Is the branch there, and is its thread still open?"""

    UNSEEN = "unseen"
    REFUSED = "refused"
    PRESENT = "present"
    WITHDRAWN = "withdrawn"
    SETTLED = "settled"
    GONE = "gone"


class ReceiverEvent(StrEnum):
    """A look at its head, or what we made of it."""

    NEW_HEAD = "new head"
    SAME_HEAD = "same head"
    OLD_HEAD = "old head"
    REFUSED = "refused"
    SETTLED = "settled"
    VANISHED = "vanished"


class Step(Enum):
    """What a listed head means, given what the ledger knows of its topic."""

    NEW = "new"
    KNOWN = "known"
    MOVED = "moved"
    REOPENED = "reopened"
    REPEATED = "repeated"


_E, _R = ReceiverEvent, Receiver

_LOOKS = {
    _R.UNSEEN: {_E.NEW_HEAD: (Step.NEW, _R.PRESENT)},
    _R.REFUSED: {_E.NEW_HEAD: (Step.NEW, _R.PRESENT)},
    _R.PRESENT: {
        _E.NEW_HEAD: (Step.MOVED, _R.PRESENT),
        _E.SAME_HEAD: (Step.KNOWN, _R.PRESENT),
        _E.OLD_HEAD: (Step.MOVED, _R.PRESENT),
    },
    _R.WITHDRAWN: {
        _E.NEW_HEAD: (Step.MOVED, _R.PRESENT),
        _E.SAME_HEAD: (Step.REPEATED, _R.PRESENT),
        _E.OLD_HEAD: (Step.MOVED, _R.PRESENT),
    },
    # A head that was ever seen after its thread was done never comes back as a thread.
    _R.SETTLED: {
        _E.NEW_HEAD: (Step.REOPENED, _R.PRESENT),
        _E.SAME_HEAD: (Step.KNOWN, _R.SETTLED),
        _E.OLD_HEAD: (Step.REPEATED, _R.SETTLED),
    },
    _R.GONE: {
        _E.NEW_HEAD: (Step.REOPENED, _R.PRESENT),
        _E.SAME_HEAD: (Step.REPEATED, _R.SETTLED),
        _E.OLD_HEAD: (Step.REPEATED, _R.SETTLED),
    },
}

_ACTS = {
    # A pin whose ledger is lost: the branch is gone, and still nothing is known of it.
    _R.UNSEEN: {_E.REFUSED: _R.REFUSED, _E.VANISHED: _R.UNSEEN},
    _R.REFUSED: {_E.REFUSED: _R.REFUSED, _E.VANISHED: _R.UNSEEN},
    # The head that was let in is still what is pending; its later heads wait outside.
    _R.PRESENT: {_E.REFUSED: _R.PRESENT, _E.SETTLED: _R.SETTLED, _E.VANISHED: _R.WITHDRAWN},
    _R.WITHDRAWN: {_E.REFUSED: _R.WITHDRAWN, _E.SETTLED: _R.GONE},
    _R.SETTLED: {_E.REFUSED: _R.SETTLED, _E.VANISHED: _R.GONE},
    _R.GONE: {_E.REFUSED: _R.SETTLED},  # there again, and not let in
}

RECEIVER = Machine(
    "receiver",
    Receiver,
    ReceiverEvent,
    Receiver.UNSEEN,
    {state: {**{event: after for event, (_, after) in _LOOKS[state].items()}, **_ACTS[state]} for state in Receiver},
)


def read_step(state: Receiver, look: ReceiverEvent) -> Step:
    """What a look at the head means; a look that cannot be had in this state raises."""
    if look not in _LOOKS[state]:
        raise InvalidTransition(RECEIVER.name, state.value, look.value)
    return _LOOKS[state][look][0]
