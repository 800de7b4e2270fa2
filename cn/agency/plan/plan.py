"""The one door: an operation, who asks, what is known and when → what happens, or which rule says no."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from typing import assert_never

from cn.agency import operations as ops
from cn.agency.events import MOST_REQUEST, is_request_id
from cn.agency.operations import BySystem, Moment, Operation, Principal, actor_of, tenure_of
from cn.agency.plan.access import ACCESS, KNOWN, is_current
from cn.agency.plan.bounds import fit_lists
from cn.agency.plan.files import plan_audit, plan_create_file, plan_read, plan_write
from cn.agency.plan.grants import plan_grant, plan_revoke, plan_use
from cn.agency.plan.handlers import (
    plan_agent_end,
    plan_delegate,
    plan_found,
    plan_lease,
    plan_move,
    plan_remove,
    plan_stop,
)
from cn.agency.plan.mail import plan_due, plan_finish, plan_send, plan_take_back
from cn.agency.plan.outcomes import plan_block, plan_create, plan_end, plan_update
from cn.agency.plan.result import Planned, Refused
from cn.agency.plan.room import no_room, too_much
from cn.agency.rows import Facts, Request
from cn.values.text import one_line

SAME_REQUEST = "same-request"


def plan(operation: Operation, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    """What the operation comes to now."""
    if facts.head() is None and not isinstance(operation, ops.FoundAgency):
        return Refused(KNOWN, "Agency is not founded", "found it first")
    if isinstance(principal, BySystem) and not isinstance(operation, _OF_SYSTEM):
        return Refused(ACCESS, "Agency itself does no such thing", "ask as a handler or a user")
    refused = is_current(principal, facts) or fit_lists(operation) or no_room(operation, principal, moment)
    planned = refused or _plan(operation, principal, facts, moment)
    return (
        planned if isinstance(planned, Refused) else too_much(operation, planned, principal, facts, moment) or planned
    )


_OF_SYSTEM = (ops.DeliverDue, ops.LeaseAgent, ops.EndAgent, ops.UseResource)


def _plan(operation: Operation, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    match operation:
        case ops.FoundAgency():
            return plan_found(operation, principal, facts, moment)
        case ops.CreateOutcome():
            return plan_create(operation, principal, facts, moment)
        case ops.UpdateOutcome():
            return plan_update(operation, principal, facts, moment)
        case ops.BlockOutcome():
            return plan_block(operation, principal, facts, moment)
        case ops.CompleteOutcome() | ops.CloseOutcome():
            return plan_end(operation, principal, facts, moment)
        case ops.Delegate():
            return plan_delegate(operation, principal, facts, moment)
        case ops.StopHandler():
            return plan_stop(operation, principal, facts, moment)
        case ops.RemoveHandler():
            return plan_remove(operation, principal, facts, moment)
        case ops.MoveHandler():
            return plan_move(operation, principal, facts, moment)
        case ops.GrantAccess():
            return plan_grant(operation, principal, facts, moment)
        case ops.RevokeAccess():
            return plan_revoke(operation, principal, facts, moment)
        case ops.CreateFile():
            return plan_create_file(operation, principal, facts, moment)
        case ops.WriteFile():
            return plan_write(operation, principal, facts, moment)
        case ops.ReadFile():
            return plan_read(operation, principal, facts, moment)
        case ops.SendMail():
            return plan_send(operation, principal, facts, moment)
        case ops.FinishMail():
            return plan_finish(operation, principal, facts, moment)
        case ops.TakeBackMail():
            return plan_take_back(operation, principal, facts, moment)
        case ops.DeliverDue():
            return plan_due(operation, principal, facts, moment)
        case ops.SubmitAudit():
            return plan_audit(operation, principal, facts, moment)
        case ops.UseResource():
            return plan_use(operation, principal, facts, moment)
        case ops.LeaseAgent():
            return plan_lease(operation, principal, facts, moment)
        case ops.EndAgent():
            return plan_agent_end(operation, principal, facts, moment)
        case _:
            assert_never(operation)


def digest_of(operation: Operation, said: str = "") -> str:
    """16 hexadecimal digits that differ where the arguments do: the operation's, or as the caller ``said`` them."""
    values: object = said or {part.name: getattr(operation, part.name) for part in fields(operation)}
    text = json.dumps([type(operation).__name__, values], default=repr, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def done_before(
    operation: Operation, principal: Principal, request_id: str, facts: Facts, said: str = ""
) -> Request | Refused | None:
    """What was done under this name before; for something else, or in another tenure, the name is refused."""
    if not request_id:
        return None
    if not is_request_id(request_id):
        why = f"{one_line(request_id, 40)!r} is no name for a request"
        return Refused(SAME_REQUEST, why, f"take at most {MOST_REQUEST} visible characters")
    found = facts.request(actor_of(principal), request_id)
    if found and found.tenure != tenure_of(principal):
        why = f"request {request_id!r} was asked in tenure {found.tenure}, which is over"
        return Refused(SAME_REQUEST, why, "take a new id: another tenure gets no answer of that one")
    if found is None or found.digest == digest_of(operation, said):
        return found
    why = f"request {request_id!r} was for something else"
    return Refused(SAME_REQUEST, why, "take a new id for a new operation")
