"""The state machines of thread, agent, sender and receiver, as ``docs/protocol/state-machines.md`` explains them.

A row is an event, a column the state before it, a cell the state after it. A dash is a pair that cannot be. A state
without a column is final. States and events of thread and sender are the words of the ledger.
"""

from __future__ import annotations

from enum import StrEnum

from cn.values.errors import CnError


class InvalidTransition(CnError):
    """An event that cannot happen in this state: a bug of ours, nothing a user did."""

    def __init__(self, machine: str, state: str, event: str, what: str = "") -> None:
        prefix = f"{what}: " if what else ""
        super().__init__(
            f"{prefix}{event!r} is no step of the {machine} machine from {state!r}",
            "this is a bug in cn; nothing was committed. 'cn doctor' checks the hub",
        )


class Machine:
    """One table: ``states`` that something leads out of, the first one the initial, ``events``, ``finals``.

    ``after`` a state and an event comes which state; a pair that it does not have is invalid.
    """

    def __init__(self, name: str, table: str, finals: str = "") -> None:
        self.name, self.table = name, table
        head, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines())
        self.states, self.events, self.finals = head[1:], [row[0] for row in rows], finals.split()
        self.after = {
            (state, event): after
            for event, *cells in rows
            for state, after in zip(self.states, cells, strict=True)
            if after != "—"
        }
        if {self.states[0], *self.after.values()} != {*self.states, *self.finals}:
            raise ValueError(f"{name}: a cell is no state, or nothing leads to a state")

    def step(self, state: str, event: str, what: str = "") -> str:
        """The state after an event of ours; an invalid pair raises. ``what`` names the thing."""
        if (state, event) not in self.after:
            raise InvalidTransition(self.name, state, event, what)
        return self.after[state, event]


NONE = "none"
"""The state of a thread or of a branch of ours that is not open."""

THREAD = Machine(
    "thread",
    """\
| event     | none     | received | deferred | assigned | queued   | claimed  | dead     |
| --------- | -------- | -------- | -------- | -------- | -------- | -------- | -------- |
| received  | received | received | received | received | received | received | received |
| refreshed | —        | received | received | received | received | received | received |
| repeated  | none     | received | deferred | assigned | queued   | claimed  | dead     |
| refused   | none     | received | deferred | assigned | queued   | claimed  | dead     |
| gone      | none     | received | deferred | assigned | queued   | claimed  | dead     |
| noticed   | none     | —        | —        | —        | —        | —        | —        |
| deferred  | —        | deferred | deferred | deferred | deferred | deferred | deferred |
| returned  | —        | —        | received | received | —        | —        | —        |
| assigned  | —        | assigned | assigned | assigned | assigned | assigned | assigned |
| decided   | —        | done     | done     | done     | done     | done     | done     |
| enqueued  | —        | queued   | —        | —        | queued   | queued   | queued   |
| claimed   | —        | —        | —        | —        | claimed  | claimed  | —        |
| shown     | —        | —        | —        | —        | —        | claimed  | —        |
| timed-out | —        | —        | —        | —        | —        | queued   | —        |
| dead      | —        | —        | —        | —        | dead     | dead     | —        |
""",
    finals="done",
)
"""The state is that of the open item in ``state/ledger/<peer>/open``, the events are the ``in`` kinds of the ledger.

The states of the queue stand beside deferred and assigned, not across them: a thread that waits for a date or for a
reviewer does not wait for the agent. Triage works in both interfaces, so every open thread can be decided. Nothing else
ends a thread: a notice, which becomes none, has a branch of its own.
"""
IN_QUEUE = frozenset({"queued", "claimed", "dead"})
"""The states in which the item names its queue item (the field ``input``)."""

SENDER = Machine(
    "sender",
    """\
| event     | none    | queued    | adopted   | delivered | answered | deleting |
| --------- | ------- | --------- | --------- | --------- | -------- | -------- |
| queued    | queued  | queued    | queued    | queued    | queued   | —        |
| adopted   | adopted | adopted   | adopted   | adopted   | adopted  | adopted  |
| delivered | none    | delivered | delivered | delivered | answered | deleting |
| answered  | none    | answered  | answered  | answered  | answered | deleting |
| deleting  | —       | deleting  | deleting  | deleting  | deleting | deleting |
| deleted   | none    | deleted   | deleted   | deleted   | deleted  | deleted  |
| gone      | —       | —         | gone      | gone      | gone     | gone     |
""",
    finals="deleted gone",
)
"""The state is that of the open item on the ``out`` side of the ledger, the events are its ``out`` kinds.

The topic of a message is used once for ever (own_topic), so it is queued from nothing, or as the very same message once
more; a proposal is queued again each time it moves, and either where its peer has another URL. An answer to what is
over, or about to be, is kept with it and opens nothing. What we decide (queue, take an answer, delete) must fit what we
know; what waits in the outbox is taken back by a deletion too, since it may have been delivered unconfirmed, and a
deletion that somebody took out of the outbox is queued again. What a
remote confirmed (``delivered``, ``deleted``) has happened in the world already: it fits everywhere, since refusing to
write it down would make the outbox do it again.
"""


class Actor(StrEnum):
    """What the agent is at."""

    IDLE = "idle"
    INPUT_READY = "input-ready"
    PROCESSING = "processing"
    OUTPUT_READY = "output-ready"
    TIMED_OUT = "timed-out"


ACTOR = Machine(
    "actor",
    """\
| event     | idle        | input-ready  | processing   | output-ready | timed-out    |
| --------- | ----------- | ------------ | ------------ | ------------ | ------------ |
| promoted  | input-ready | —            | —            | —            | —            |
| shown     | —           | processing   | processing   | output-ready | timed-out    |
| answered  | —           | output-ready | output-ready | output-ready | output-ready |
| rejected  | —           | —            | —            | input-ready  | —            |
| expired   | —           | timed-out    | timed-out    | —            | —            |
| archived  | —           | —            | —            | idle         | idle         |
| withdrawn | —           | idle         | idle         | idle         | idle         |
""",
)
"""The state is nowhere written down: it derives from the files, which the events change.

So a crash between any two of them leaves a state to go on from. An output that is there counts before the clock.
"""


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


RECEIVER = Machine(
    "receiver",
    """\
| event     | unseen  | refused | present   | withdrawn | settled | gone    |
| --------- | ------- | ------- | --------- | --------- | ------- | ------- |
| new head  | present | present | present   | present   | present | present |
| same head | —       | —       | present   | present   | settled | settled |
| old head  | —       | —       | present   | present   | settled | settled |
| refused   | refused | refused | present   | withdrawn | settled | settled |
| settled   | —       | —       | settled   | gone      | —       | —       |
| vanished  | unseen  | unseen  | withdrawn | —         | gone    | —       |
""",
)
"""The state is read from the ledger; an event is a look at the head of a peer's branch, or what we made of it.

A head that was ever seen after its thread was done never comes back as a thread. The head that was let in is still
what is pending while its later heads are refused.
"""


class Step(StrEnum):
    """What a listed head means, given what the ledger knows of its topic."""

    NEW = "new"
    KNOWN = "known"
    MOVED = "moved"
    REOPENED = "reopened"
    REPEATED = "repeated"


_LOOKS = {
    "unseen": {"new head": Step.NEW},
    "refused": {"new head": Step.NEW},
    "present": {"new head": Step.MOVED, "same head": Step.KNOWN, "old head": Step.MOVED},
    "withdrawn": {"new head": Step.MOVED, "same head": Step.REPEATED, "old head": Step.MOVED},
    "settled": {"new head": Step.REOPENED, "same head": Step.KNOWN, "old head": Step.REPEATED},
    "gone": {"new head": Step.REOPENED, "same head": Step.REPEATED, "old head": Step.REPEATED},
}


def read_step(state: str, look: str) -> Step:
    """What a look at the head means; a look that cannot be had in this state raises."""
    if look not in _LOOKS[state]:
        raise InvalidTransition(RECEIVER.name, state, look)
    return _LOOKS[state][look]
