"""Files of the knowledge base: created, written by who saw the latest version, read, and every reading told."""

from __future__ import annotations

from cn.agency.events import AuditSubmitted, FileCreated, FileRead, FileWritten
from cn.agency.names import AUDIT, FILE, MESSAGE, OUTCOME, Resource, Uuid, links_in
from cn.agency.operations import ByHandler, CreateFile, Moment, Principal, ReadFile, SubmitAudit, WriteFile, party_of
from cn.agency.plan.access import ACCESS, KNOWN, no_access, reason_for
from cn.agency.plan.checks import NOTHING, first, fit_line, fit_text, fresh, needs_party
from cn.agency.plan.result import Planned, Refused, content
from cn.agency.rows import Facts, File

OWN_TOOL = "own-tool"
NOT_WRITTEN = "not-written"
NOT_WRITTEN_OVER = {
    OUTCOME: ("an outcome", "update the outcome"),
    AUDIT: ("an audit log", "submit what you did as an entry"),
    MESSAGE: ("a message, which stays as it was sent", "send another one; take back one that waits for its time"),
}
"""Kinds of files that nobody writes over, what they are, and what to do instead."""


def plan_create_file(operation: CreateFile, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    """A new file of the caller's."""
    if refused := first(needs_party(principal), fit_line(operation.description, "the description")):
        return refused
    id = moment.uuid("file")
    stored = content(id, operation.content)
    owner, tenure = party_of(principal)
    made = (id, FILE, operation.description, owner, tenure, stored.hash, len(stored.data))
    return Planned((FileCreated(*made, _links(operation.content)),), (stored,))


def _links(data: bytes) -> tuple[Uuid, ...]:
    return links_in(data.decode("utf-8", "replace"))


def plan_write(operation: WriteFile, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    """A new version in place of the latest, which the caller has seen."""
    file = _known(operation.file, facts)
    if isinstance(file, Refused):
        return file
    if file.kind in NOT_WRITTEN_OVER:
        what, how = NOT_WRITTEN_OVER[file.kind]
        return Refused(OWN_TOOL, f"{file.id} is {what}", how)
    resource = Resource("kb", file.id)
    reason = reason_for(principal, resource, "write", facts)
    if reason is None:
        return no_access(principal, resource, "write", facts)
    if refused := fresh(file, operation.seen):
        return refused
    stored = content(file.id, operation.content)
    if stored.hash == file.hash:
        remedy = "go on: it is written; where it cannot be read, 'cn doctor --full' says what brings it back"
        return Refused(NOTHING, f"version {file.version} of {file.id} says the very same", remedy)
    change = FileWritten(file.id, file.version + 1, stored.hash, len(stored.data), _links(operation.content))
    return Planned((change,), (stored,), reason.grant.id if reason.grant else None)


def plan_read(operation: ReadFile, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    """The version that is read, and the links of the latest that lead nowhere, or where the reader may not read."""
    file = _known(operation.file, facts)
    if isinstance(file, Refused):
        return file
    resource = Resource("kb", file.id)
    reason = reason_for(principal, resource, "read", facts)
    if reason is None:
        return no_access(principal, resource, "read", facts)
    number = file.version if operation.version is None else operation.version
    version = facts.version(file.id, number)
    if version is None:
        why = f"{file.id} has no version {number}" if file.version else f"nothing has been written to {file.id} yet"
        return Refused(NOT_WRITTEN, why, "look at its history")
    targets = facts.references(file.id)
    broken = [id for id in targets if facts.file(id) is None]
    may_read = (bool(reason_for(principal, Resource("kb", id), "read", facts)) for id in targets)
    unreadable = [id for id, may in zip(targets, may_read, strict=True) if not may and id not in broken]
    more = {"hash": version.hash, "size": version.size, "broken": broken, "unreadable": unreadable}
    return Planned((FileRead(file.id, number),), (), reason.grant.id if reason.grant else None, more)


def _known(id: Uuid, facts: Facts) -> File | Refused:
    file = facts.file(id)
    return file or Refused(KNOWN, f"there is no file {id}", "browse the knowledge base")


def plan_audit(operation: SubmitAudit, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    """What an agent did, appended to its handler's log."""
    if not isinstance(principal, ByHandler):
        return Refused(ACCESS, "an audit log is a handler's", "act as the handler whose log it is")
    refused = fit_text(operation.text, "the entry", needed=True)
    return refused or Planned((AuditSubmitted(principal.handler, operation.text),))
