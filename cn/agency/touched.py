"""Which derived pages a change makes others of: those that have to be written with it."""

from __future__ import annotations

from cn.agency.events import (
    AuditSubmitted,
    Change,
    Delegated,
    FileCreated,
    FileWritten,
    Founded,
    OutcomeClosed,
    OutcomeCompleted,
    OutcomeCreated,
    OutcomeUpdated,
)
from cn.agency.names import Uuid
from cn.agency.pages import told_of
from cn.agency.rows import Facts


def written_by(change: Change) -> Uuid | None:
    """The file of which a change makes a version: what it names may be other files then, whose pages say so."""
    match change:
        case Founded(file) | OutcomeCreated(file) | OutcomeUpdated(file):
            return file
        case OutcomeCompleted(file) | OutcomeClosed(file) | FileCreated(file) | FileWritten(file):
            return file
        case _:
            return None


def pages_of(change: Change, facts: Facts) -> tuple[Uuid, ...]:
    """The files whose own pages are others after a change."""
    match change:
        case Founded(state=state, audit=audit) | Delegated(state=state, audit=audit):
            return (*told_of(change), state, audit)
        case FileCreated(file) | FileWritten(file):
            return (file,)
        case AuditSubmitted(handler):
            row = facts.handler(handler)
            return (row.audit,) if row else ()
        case _:
            return told_of(change)
