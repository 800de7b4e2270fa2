"""Capabilities are granted, to an underling at most what one has oneself, used, and taken back."""

from __future__ import annotations

from cn.agency.events import Granted, ResourceUsed, Revoked
from cn.agency.names import GRANTABLE, NameRefused, Uuid, parse_resource, rank
from cn.agency.operations import ByHandler, GrantAccess, Moment, Principal, RevokeAccess, UseResource, Wanted, party_of
from cn.agency.plan.access import ACCESS, KNOWN, canonical, granted, no_access, reason_for, stands
from cn.agency.plan.checks import NOTHING, fit_line
from cn.agency.plan.result import Planned, Refused
from cn.agency.plan.structure import above, active
from cn.agency.rows import Facts, Handler, Outcome

GRANTABLE_RULE = "grantable"
DIRECT_UNDERLING = "direct-underling"
SCOPE = "scope"


def plan_grant(operation: GrantAccess, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    """Let an underling do what the caller may do itself, at most as much, while an outcome is open."""
    underling = active(operation.holder, facts)
    if not underling:
        return Refused(KNOWN, f"{operation.holder} is no active handler", "look at your underlings")
    if isinstance(principal, ByHandler) and underling.boss != principal.handler:
        why_not = f"{underling.id} is not your direct underling"
        return Refused(DIRECT_UNDERLING, why_not, "its own boss grants it what it needs", underling.boss)
    granted = grant_to(underling, operation.wanted, principal, facts, moment, moment.uuid("grant"))
    if isinstance(granted, Refused):
        return granted
    return _granted_already(granted[0], facts) or Planned((granted[0],), grant=granted[1])


def _granted_already(change: Granted, facts: Facts) -> Refused | None:
    """The same capability, by the same grantor, that still stands."""
    wanted = (change.grantor, change.grantor_tenure, change.level, change.scope)
    held = granted(change.holder, change.holder_tenure, change.resource, facts)
    same = (one for one in held if (one.grantor, one.grantor_tenure, one.level, one.scope) == wanted)
    if not (found := next((one for one in same if stands(one, facts)), None)):
        return None
    return Refused(NOTHING, f"capability {found.id} gives that already", "go on: it may do so")


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
    if resource.kind == "repo" and "://" in resource.name and "@" in resource.name:
        why_not = "a URL with a user or a password is never cloned or pushed to"
        return Refused(GRANTABLE_RULE, why_not, "name it in [repos] of agency.toml, and grant repo:NAME")
    repository, sign, branches = resource.name.partition("#")
    if resource.kind == "repo" and sign and not (repository and branches):
        missing = "a pattern of branches is missing behind the '#'" if repository else "a repository is missing"
        remedy = "write repo:NAME for the handler's own branches, or repo:NAME#PATTERN, as in 'repo:site#release/*'"
        return Refused(GRANTABLE_RULE, f"{resource} names no branch: {missing}", remedy)
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


def plan_use(operation: UseResource, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    """Something is to be done beyond Agency, by who may."""
    if refused := fit_line(operation.what, "what is done"):
        return refused
    try:
        resource = parse_resource(operation.resource)
        rank(resource, operation.level)
    except NameRefused as error:
        return Refused(KNOWN, error.text, error.hint)
    reason = reason_for(principal, resource, operation.level, facts)
    if reason is None:
        return no_access(principal, resource, operation.level, facts)
    used = ResourceUsed(str(resource), operation.level, operation.what)
    return Planned((used,), grant=reason.grant.id if reason.grant else None)
