"""How much may be written: no handler fills a disk, and there is always room to end something."""

from __future__ import annotations

from datetime import timedelta

from cn.agency import operations as ops
from cn.agency.events import AuditSubmitted
from cn.agency.names import is_user
from cn.agency.operations import ByHandler, ByUser, Moment, Operation, Principal
from cn.agency.plan.access import boss_of
from cn.agency.plan.bounds import fit_links
from cn.agency.plan.result import Planned, Refused
from cn.agency.rows import LINK_BYTES, Facts
from cn.agency.touched import links_of

ROOM, LIMIT_MEGABYTES = "room", "limit-megabytes"
_MAKE = "the user makes room on that disk"
_HOUR = timedelta(hours=1)
_ENDS = (
    *(ops.StopHandler, ops.RemoveHandler, ops.RevokeAccess, ops.EndAgent),
    *(ops.CompleteOutcome, ops.CloseOutcome, ops.FinishMail, ops.TakeBackMail),
)


def no_room(operation: Operation, principal: Principal, moment: Moment) -> Refused | None:
    """Where little is left on the disk, only what ends something is done; and people read, of which little is kept."""
    if moment.room is None or moment.room > 0 or isinstance(operation, _ENDS):
        return None
    if isinstance(operation, ops.ReadFile) and _is_person(principal):
        return None
    why = "the disk of Agency's records is almost full, and what is left is kept to stop, close and revoke"
    return Refused(ROOM, why, f"{_MAKE}; 'cn handler stop' ends who fills it")


def _is_person(principal: Principal) -> bool:
    """A user, also one who acts for a handler."""
    return isinstance(principal, ByUser) or (isinstance(principal, ByHandler) and is_user(principal.agent))


def too_much(
    operation: Operation, planned: Planned, principal: Principal, facts: Facts, moment: Moment
) -> Refused | None:
    """What a plan would write names few files, has room, and is no more than one handler may write."""
    if isinstance(operation, _ENDS):
        return None
    links = [len(links_of(one)) for one in planned.changes]
    if refused := fit_links(max(links, default=0)):
        return refused
    said = sum(len(one.text.encode()) for one in planned.changes if isinstance(one, AuditSubmitted))
    size = said + sum(len(one.data) for one in planned.contents) + LINK_BYTES * sum(links)
    if not size:
        return None
    if moment.room is not None and size > moment.room:
        why = f"{size} bytes would leave too little on the disk of Agency's records to stop, close and revoke"
        return Refused(ROOM, why, f"write less, or wait: {_MAKE}")
    if not isinstance(principal, ByHandler):
        return None
    most = moment.limits.megabytes << 20
    if facts.written(principal.handler, moment.now - _HOUR) + size <= most:
        return None
    why = f"this handler's agents wrote {moment.limits.megabytes} MB within an hour, and may write no more"
    remedy = "write less, or later; the user allows more: git config agency.megabytes N"
    return Refused(LIMIT_MEGABYTES, why, remedy, boss_of(principal, facts))
