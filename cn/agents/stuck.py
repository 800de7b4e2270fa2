"""Is a handler stuck? Decided from what its last agents did (``docs/agency.md``, "When an agent gets nowhere").

Agents that change no outcome, deal with no mail and write no file, one after the other, cost money and get nowhere: so
each pause is longer than the one before, and the boss is told once. What an agent only sends or says is no step, or one
that complains would never pause; nor is to block what one has, which only says that there is no step. A new message to
the handler ends the pause (:func:`wakes`): somebody had something to say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from cn.agency.events import (
    AuditSubmitted,
    Change,
    FileCreated,
    FileRead,
    FileWritten,
    MailDeferred,
    MailDelivered,
    MailDone,
    MailTakenBack,
    OutcomeBlocked,
    OutcomeCompleted,
    OutcomeCreated,
    OutcomeUnblocked,
    ResourceUsed,
)
from cn.agency.names import FILE, Party, Uuid, is_user
from cn.agency.rows import Mail

IN_A_ROW: Final = 3
"""So many agents that changed nothing make a handler stuck."""
LONGEST: Final = timedelta(days=1)
BY_HAND: Final = "it was stopped by hand"
"""Why an agent ended whose handler gets no other one until a person writes to it (:func:`goes_on`)."""
_NOTHING: Final = (
    FileRead,
    AuditSubmitted,
    ResourceUsed,
    MailDelivered,
    MailDeferred,
    MailTakenBack,
    OutcomeBlocked,
    OutcomeUnblocked,
)


class Past(NamedTuple):
    """An agent that is no more: when it ended, and whether it got anywhere."""

    ended: datetime
    moved: bool


def has_moved(changes: Iterable[Change], own: Collection[Uuid]) -> bool:
    """Did an agent get anywhere? ``own`` are its handler's state document and audit log, which tell only itself,
    the messages that it wrote to itself, and Agency's own outcomes for its inbox.
    """
    return any(_is_step(change, own) for change in changes)


def _is_step(change: Change, own: Collection[Uuid]) -> bool:
    match change:
        case FileCreated(kind=kind):
            return kind == FILE
        case FileWritten(file=file):
            return file not in own
        case MailDone(mail=mail):
            return any(one not in own for one in mail)
        case OutcomeCompleted(outcome=outcome):
            return outcome not in own
        case OutcomeCreated(inbox=inbox):  # somebody's "Process inbox", by what was sent
            return not inbox
        case _:
            return not isinstance(change, _NOTHING)


def wakes(pending: Iterable[Mail], handler: Uuid, ended: int) -> bool:
    """Does a message end the pause of a handler whose last agent ended with event ``ended``? A person's does; another
    handler's once: where none of its messages was left undone before, or a flood of them would be a start each.
    """
    oldest: dict[Party, int] = {}
    for mail in pending:
        if is_user(mail.sender) and mail.seq > ended:
            return True
        oldest[mail.sender] = min(mail.seq, oldest.get(mail.sender, mail.seq))
    return any(seq > ended for sender, seq in oldest.items() if sender != handler)


def goes_on(pending: Iterable[Mail], ended: int) -> bool:
    """May a handler have another agent after the last one was stopped by hand, with event ``ended``? Once a person has
    written to it since; what others send waits with it.
    """
    return any(is_user(mail.sender) and mail.seq > ended for mail in pending)


def idle_in_a_row(past: Sequence[Past]) -> int:
    """How many of the last agents changed nothing; the last one comes first."""
    return next((number for number, one in enumerate(past) if one.moved), len(past))


def pause_until(past: Sequence[Past], first: float) -> datetime | None:
    """Until when a handler's next agent has to wait; None: it need not. ``first`` is the first pause in seconds."""
    idle = idle_in_a_row(past)
    if idle < IN_A_ROW:
        return None
    doubled = first * float(1 << min(idle - IN_A_ROW, 20))
    return past[0].ended + min(timedelta(seconds=doubled), LONGEST)
