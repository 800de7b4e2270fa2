"""Who may do what: what follows from structure, together with what was granted.

:func:`access` and :func:`why` walk the same reasons, so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cn.agency.events import Granted, Revoked
from cn.agency.names import AUDIT, GRANTABLE, LEVELS, NameRefused, Party, Resource, Uuid, is_user, parse_resource, rank
from cn.agency.operations import (
    ByHandler,
    BySystem,
    ByUser,
    GrantAccess,
    Moment,
    Principal,
    RevokeAccess,
    Wanted,
    party_of,
)
from cn.agency.plan.result import Planned, Refused
from cn.agency.plan.structure import above, active, below, delegated, holder, open_children, owner, walk, writer
from cn.agency.rows import Facts, File, Grant, Handler, Outcome

ACCESS = "access"
ACTIVE = "active-handler"
GRANTABLE_RULE = "grantable"
DIRECT_UNDERLING = "direct-underling"
SCOPE = "scope"
KNOWN = "known"
_EVERYTHING = 2**62


class Reason(NamedTuple):
    """One thing that gives a level of access, or would: ``holds`` tells, ``text`` says what.

    A capability's reason has its ``grant``, and in ``because`` what its grantor's own access stands on.
    """

    level: int
    holds: bool
    text: str
    grant: Grant | None = None
    because: tuple[Reason, ...] = ()


class Explained(NamedTuple):
    """The level that somebody has on a resource, and every reason that was looked at."""

    level: str
    reasons: tuple[Reason, ...]


def access(principal: Principal, resource: Resource, facts: Facts) -> str:
    """The highest level that the principal has on the resource now."""
    best, most = 0, len(LEVELS[resource.kind]) - 1
    for reason in reasons(principal, resource, facts):
        if reason.holds and reason.level > best:
            best = reason.level
            if best == most:
                break
    return LEVELS[resource.kind][best]


def why(principal: Principal, resource: Resource, facts: Facts) -> Explained:
    """:func:`access` with its reasons, those that hold no more included."""
    found = tuple(reasons(principal, resource, facts))
    best = max((reason.level for reason in found if reason.holds), default=0)
    return Explained(LEVELS[resource.kind][best], found)


def reason_for(principal: Principal, resource: Resource, level: str, facts: Facts) -> Reason | None:
    """The first reason that gives at least this level."""
    wanted = rank(resource, level)
    return next((one for one in reasons(principal, resource, facts) if one.holds and one.level >= wanted), None)


def reasons(principal: Principal, resource: Resource, facts: Facts) -> Iterator[Reason]:
    """What gives the principal access: structure first, then what was granted, oldest first."""
    match principal:
        case ByUser():
            yield Reason(len(LEVELS[resource.kind]) - 1, True, "a user may do everything")
        case BySystem():
            yield Reason(len(LEVELS[resource.kind]) - 1, True, "it is Agency itself")
        case ByHandler(id, tenure):
            handler = active(id, facts)
            if handler and handler.tenure == tenure:
                yield from _handler_reasons(handler, canonical(resource, facts), facts, _EVERYTHING, {})
            else:
                yield Reason(0, False, "its tenure is over")


def canonical(resource: Resource, facts: Facts) -> Resource:
    """An outcome is a file too: access to both is one."""
    is_outcome = resource.kind == "kb" and facts.outcome(resource.uuid) is not None
    return Resource("outcome", resource.name) if is_outcome else resource


def _handler_reasons(
    handler: Handler, resource: Resource, facts: Facts, before: int, judged: dict[Uuid, Reason]
) -> Iterator[Reason]:
    yield from _from_structure(handler, resource, facts)
    for grant in facts.grants_on(handler.id, handler.tenure, str(resource)):
        if grant.seq < before:
            if grant.id not in judged:
                judged[grant.id] = _judge(grant, resource, facts, judged)
            yield judged[grant.id]


def _judge(grant: Grant, resource: Resource, facts: Facts, judged: dict[Uuid, Reason]) -> Reason:
    """Does a capability still hold?

    It stands on what its grantor had before it, so that two of them can never hold up each other.
    """
    level = rank(resource, grant.level)
    scope = facts.outcome(grant.scope)
    if not scope or not scope.is_open:
        return Reason(level, False, f"its outcome {grant.scope} has ended", grant)
    if is_user(grant.grantor):
        return Reason(level, True, f"granted by {grant.grantor}", grant)
    grantor = active(grant.grantor, facts)
    if not grantor or grantor.tenure != grant.grantor_tenure:
        return Reason(level, False, f"the tenure of {grant.grantor}, who granted it, is over", grant)
    tried = []
    for reason in _handler_reasons(grantor, resource, facts, grant.seq, judged):
        tried.append(reason)
        if reason.holds and reason.level >= level:
            return Reason(level, True, f"granted by {grant.grantor}", grant, (reason,))
    return Reason(level, False, f"{grant.grantor}, who granted it, has that level no more", grant, tuple(tried))


def stands(grant: Grant, facts: Facts) -> bool:
    """Is a capability effective now?"""
    handler = active(grant.holder, facts)
    held = handler is not None and handler.tenure == grant.holder_tenure
    return held and _judge(grant, parse_resource(grant.resource), facts, {}).holds


def _from_structure(handler: Handler, resource: Resource, facts: Facts) -> Iterator[Reason]:
    match resource.kind:
        case "outcome":
            outcome = facts.outcome(resource.uuid)
            return _on_outcome(handler, outcome, facts) if outcome else iter(())
        case "kb":
            file = facts.file(resource.uuid)
            return _on_file(handler, file, facts) if file else iter(())
        case "mail":
            return _on_mail(handler, Party(resource.name), facts)
        case "handler":
            other = active(resource.uuid, facts)
            holds = other is not None and other.boss == handler.id
            return iter([Reason(1, True, "it is the boss")] if holds else [])
        case _:
            return iter(())


_READ, _WRITE = 1, 2


def _on_outcome(handler: Handler, outcome: Outcome, facts: Facts) -> Iterator[Reason]:
    """The cheap reasons first; the others walk the graph."""
    if writer(outcome, facts) == handler.id:
        root = delegated(outcome, facts) is not None
        yield Reason(_WRITE, True, "it is the boss of the outcome's handler" if root else "it is responsible")
        return
    if outcome.id == handler.id:
        yield Reason(_READ, True, "it is its own root")
        return
    if handler.id in above(Uuid(holder(outcome, facts)), facts):
        yield Reason(_READ, True, "it is above the responsible handler")
        return
    if _serves(outcome, handler, facts):
        yield Reason(_READ, True, "it is why something is to be done that it is, or is above who is, responsible for")
    elif _is_part(outcome, handler, facts):
        yield Reason(_READ, True, "it is part of an outcome that it is, or is above who is, responsible for")


def _serves(outcome: Outcome, handler: Handler, facts: Facts) -> bool:
    """Is there an open outcome below it for which the handler, or one below it, is responsible?

    Looked for from both ends by turns: either may be large, and seldom both are.
    """
    work = (id for one in _team(handler, facts) for id in facts.open_outcomes(one))
    up, down = walk(work, facts.parents), walk([outcome.id], lambda id: open_children(id, facts))
    for higher, lower in zip(up, down, strict=False):
        found = facts.outcome(lower)
        if higher == outcome.id or (found and _is_at_or_below(found.responsible, handler, facts)):
            return True
    return False


def _team(handler: Handler, facts: Facts) -> Iterator[Uuid]:
    yield handler.id
    yield from below(handler.id, facts)


def _is_part(outcome: Outcome, handler: Handler, facts: Facts) -> bool:
    """Does it stand below an outcome of the handler, or of one below it?"""
    found = (facts.outcome(id) for id in walk([outcome.id], facts.parents))
    return any(one is not None and _is_at_or_below(holder(one, facts), handler, facts) for one in found)


def _is_at_or_below(id: Party, handler: Handler, facts: Facts) -> bool:
    return id == handler.id or handler.id in above(Uuid(id), facts)


def _on_file(handler: Handler, file: File, facts: Facts) -> Iterator[Reason]:
    owns = owner(file.owner, file.owner_tenure, facts)
    if owns == handler.id:
        yield Reason(_READ, True, "it is its audit log") if file.kind == AUDIT else Reason(_WRITE, True, "it owns it")
    elif not is_user(owns) and handler.id in above(Uuid(owns), facts):
        yield Reason(_READ, True, "it is above the owner")
    for mail in facts.mail_with(file.id):
        if mail.to == handler.id and mail.to_tenure == handler.tenure:
            yield Reason(_READ, True, f"it was sent to it by {mail.sender}")
            break


def _on_mail(handler: Handler, to: Party, facts: Facts) -> Iterator[Reason]:
    other = active(to, facts)
    if to == handler.id:
        yield Reason(1, True, "it is itself")
    elif to == handler.boss:
        yield Reason(1, True, "it is its boss")
    elif other and other.boss == handler.id:
        yield Reason(1, True, "it is its underling")


def boss_of(principal: Principal, facts: Facts) -> Party | None:
    """Whom a refusal tells to ask."""
    handler = facts.handler(principal.handler) if isinstance(principal, ByHandler) else None
    return handler.boss if handler else None


def no_access(principal: Principal, resource: Resource, level: str, facts: Facts) -> Refused:
    """The refusal of somebody whose access does not do."""
    has = access(principal, resource, facts)
    boss = boss_of(principal, facts)
    reason = f"it takes {level} on {resource}, and there is {has}"
    remedy = (
        f"ask your boss, {boss}, to grant {level} on {resource}"
        if resource.kind in GRANTABLE
        else (
            f"only your boss, {boss}, your underlings and yourself get mail from you"
            if resource.kind == "mail"
            else "only its boss can; ask your own boss"
        )
    )
    return Refused(ACCESS, reason, remedy, boss)


def is_current(principal: Principal, facts: Facts) -> Refused | None:
    """Who is no more asks for nothing."""
    if not isinstance(principal, ByHandler):
        return None
    handler = active(principal.handler, facts)
    if handler and handler.tenure == principal.tenure:
        return None
    why_not = f"tenure {principal.tenure} of handler {principal.handler} is over"
    return Refused(ACTIVE, why_not, "end; what is to be done is somebody else's now", boss_of(principal, facts))


def plan_grant(operation: GrantAccess, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    """Let an underling do what the caller may do itself, at most as much, while an outcome is open."""
    underling = active(operation.holder, facts)
    if not underling:
        return Refused(KNOWN, f"{operation.holder} is no active handler", "look at your underlings")
    if isinstance(principal, ByHandler) and underling.boss != principal.handler:
        why_not = f"{underling.id} is not your direct underling"
        return Refused(DIRECT_UNDERLING, why_not, "its own boss grants it what it needs", underling.boss)
    granted = grant_to(underling, operation.wanted, principal, facts, moment, moment.uuid("grant"))
    return granted if isinstance(granted, Refused) else Planned((granted[0],), grant=granted[1])


def grant_to(
    underling: Handler, wanted: Wanted, principal: Principal, facts: Facts, moment: Moment, id: Uuid
) -> tuple[Granted, Uuid | None] | Refused:
    """The change that grants it, with the capability on which it stands, if any."""
    try:
        resource = canonical(parse_resource(wanted.resource), facts)
        level = rank(resource, wanted.level)
    except NameRefused as error:
        return Refused(GRANTABLE_RULE, error.text, error.hint)
    if resource.kind not in GRANTABLE or not level:
        return Refused(GRANTABLE_RULE, f"{wanted.level} on {resource} cannot be granted", _GRANTABLE_KINDS)
    if resource.kind in ("kb", "outcome") and not facts.file(resource.uuid):
        return Refused(KNOWN, f"there is no {resource}", "look at what there is by browsing")
    scope = facts.outcome(wanted.scope or underling.id)
    if refused := _fit_scope(scope, wanted.scope, underling, principal):
        return refused
    reason = reason_for(principal, resource, wanted.level, facts)
    if reason is None:
        return no_access(principal, resource, wanted.level, facts)
    grantor, tenure = party_of(principal)
    ending = scope.id if scope else underling.id
    change = Granted(id, underling.id, underling.tenure, grantor, tenure, str(resource), wanted.level, ending)
    return change, reason.grant.id if reason.grant else None


_GRANTABLE_KINDS = "grant read or write on kb and outcome, use on mcp, clone or push on repo"


def _fit_scope(scope: Outcome | None, wanted: Uuid | None, underling: Handler, principal: Principal) -> Refused | None:
    """A capability ends with an open outcome of its holder or of its grantor."""
    if wanted and (not scope or not scope.is_open):
        return Refused(SCOPE, f"{wanted} is no open outcome", "name an open one, or leave it to the holder's root")
    grantors = principal.handler if isinstance(principal, ByHandler) else None
    if scope and scope.id != underling.id and grantors and scope.responsible not in (underling.id, grantors):
        why_not = f"{scope.id} is neither the holder's nor yours"
        return Refused(SCOPE, why_not, "name an outcome of either, or leave it to the holder's root")
    return None


def plan_revoke(operation: RevokeAccess, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    """Take a capability back: by whoever granted it, or anyone above its holder."""
    grant = facts.grant(operation.grant)
    if grant is None:
        return Refused(KNOWN, f"there is no capability {operation.grant}", "list what was granted")
    if isinstance(principal, ByHandler):
        current = (grant.grantor, grant.grantor_tenure) == (principal.handler, principal.tenure)
        if not current and principal.handler not in above(grant.holder, facts):
            why_not = f"you neither granted {grant.id} nor are above {grant.holder}"
            return Refused(ACCESS, why_not, f"ask {grant.grantor}, who granted it", grant.grantor)
    return Planned((Revoked(grant.id),))
