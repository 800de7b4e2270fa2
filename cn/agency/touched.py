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
from cn.agency.names import Uuid, links_in
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


def links_of(change: Change) -> tuple[Uuid, ...]:
    """The files that the version names which a change makes; none where it says again what the one before did."""
    match change:
        case FileCreated(links=links) | FileWritten(links=links):
            return links
        case Founded(text=text) | OutcomeCreated(text=text) | OutcomeUpdated(text=text):
            return links_in(text)
        case _:
            return ()


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
