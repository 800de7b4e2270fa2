"""Who may do what: what follows from structure, together with what was granted.

:func:`access` and :func:`why` walk the same reasons, so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

from cn.agency.names import GRANTABLE, LEVELS, NO_ID, Party, Resource, Uuid, is_user, is_uuid, parse_resource, rank
from cn.agency.operations import ByHandler, BySystem, ByUser, Principal
from cn.agency.plan.result import Refused
from cn.agency.plan.structure import above, active, below, delegated, holder, open_children, owner, walk, writer
from cn.agency.rows import Capability, Facts, File, Grant, Mail, Outcome

ACCESS = "access"
ACTIVE = "active-handler"
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
                yield from _reasons_of(id, tenure, _About(canonical(resource, facts), facts), _EVERYTHING)
            else:
                yield Reason(0, False, "its tenure is over")


def canonical(resource: Resource, facts: Facts) -> Resource:
    """An outcome is a file too: access to both is one."""
    is_outcome = resource.kind == "kb" and facts.outcome(resource.uuid) is not None
    return Resource("outcome", resource.name) if is_outcome else resource


class _About:
    """What is asked of a resource at every link of a chain, and found once; and which capabilities were judged."""

    def __init__(self, resource: Resource, facts: Facts) -> None:
        self.resource, self.facts, self.judged = resource, facts, dict[Uuid, Reason]()
        self._granted: dict[tuple[Uuid, int], list[Capability]] | None = None

    def granted(self, holder: Uuid, tenure: int) -> list[Capability]:
        """What it was granted on it, oldest first: with the first question come all links above."""
        if self._granted is None:
            self._granted = {}
            found = self.facts.capabilities(holder, tenure, str(self.resource))
            for one in sorted(found, key=attrgetter("grant.seq")):
                self._granted.setdefault((one.grant.holder, one.grant.holder_tenure), []).append(one)
        return self._granted.get((holder, tenure), [])

    @cached_property
    def file(self) -> File | None:
        """The file that it is."""
        return self.facts.file(self.resource.uuid)

    @cached_property
    def outcome(self) -> Outcome | None:
        """The outcome that it is."""
        return self.facts.outcome(self.resource.uuid)

    @cached_property
    def owner(self) -> Party:
        """Who has the file, or is responsible for the outcome."""
        if self.resource.kind == "outcome" and self.outcome:
            return holder(self.outcome, self.facts)
        return owner(self.file.owner, self.file.owner_tenure, self.facts) if self.file else NO_ID

    @cached_property
    def above_owner(self) -> tuple[Uuid, ...]:
        """The handlers above that one."""
        return () if is_user(self.owner) else tuple(above(Uuid(self.owner), self.facts))

    @cached_property
    def mail(self) -> Sequence[Mail]:
        """The messages by which the file was delivered."""
        return self.facts.mail_with(self.resource.uuid)


def _reasons_of(handler: Uuid, tenure: int, about: _About, before: int) -> Iterator[Reason]:
    yield from _from_structure(handler, tenure, about)
    for one in about.granted(handler, tenure):
        if one.grant.seq < before:
            if one.grant.id not in about.judged:
                about.judged[one.grant.id] = _judge(one, about)
            yield about.judged[one.grant.id]


def _judge(one: Capability, about: _About) -> Reason:
    """Does a capability still hold?

    It stands on what its grantor had before it, so that two of them can never hold up each other.
    """
    grant, level = one.grant, rank(about.resource, one.grant.level)
    if not one.in_scope:
        return Reason(level, False, f"its outcome {grant.scope} has ended", grant)
    if is_user(grant.grantor):
        return Reason(level, True, f"granted by {grant.grantor}", grant)
    if not one.current:
        return Reason(level, False, f"the tenure of {grant.grantor}, who granted it, is over", grant)
    tried = []
    for reason in _reasons_of(Uuid(grant.grantor), grant.grantor_tenure, about, grant.seq):
        tried.append(reason)
        if reason.holds and reason.level >= level:
            return Reason(level, True, f"granted by {grant.grantor}", grant, (reason,))
    return Reason(level, False, f"{grant.grantor}, who granted it, has that level no more", grant, tuple(tried))


def granted(holder: Uuid, tenure: int, resource: str, facts: Facts) -> list[Grant]:
    """What it was granted on one resource, oldest first."""
    return [one.grant for one in _About(parse_resource(resource), facts).granted(holder, tenure)]


def stands(grant: Grant, facts: Facts) -> bool:
    """Is a capability effective now?"""
    handler = active(grant.holder, facts)
    if handler is None or handler.tenure != grant.holder_tenure:
        return False
    about = _About(parse_resource(grant.resource), facts)
    return any(
        one.grant.id == grant.id and _judge(one, about).holds for one in about.granted(handler.id, handler.tenure)
    )


def _from_structure(handler: Uuid, tenure: int, about: _About) -> Iterator[Reason]:
    resource, facts = about.resource, about.facts
    match resource.kind:
        case "outcome":
            return _on_outcome(handler, about.outcome, about, facts) if about.outcome else iter(())
        case "kb":
            return _on_file(handler, tenure, about.file, about) if about.file else iter(())
        case "mail":
            return _on_mail(handler, Party(resource.name), facts)
        case "handler":
            other = active(resource.uuid, facts)
            holds = other is not None and other.boss == handler
            return iter([Reason(1, True, "it is the boss")] if holds else [])
        case _:
            return iter(())


_READ, _WRITE = 1, 2


def _on_outcome(handler: Uuid, outcome: Outcome, about: _About, facts: Facts) -> Iterator[Reason]:
    """The cheap reasons first; the others walk the graph."""
    if writer(outcome, facts) == handler:
        root = delegated(outcome, facts) is not None
        yield Reason(_WRITE, True, "it is the boss of the outcome's handler" if root else "it is responsible")
        return
    if outcome.id == handler:
        yield Reason(_READ, True, "it is its own root")
        return
    if handler in about.above_owner:
        yield Reason(_READ, True, "it is above the responsible handler")
        return
    if _serves(outcome, handler, facts):
        yield Reason(_READ, True, "it is why something is to be done that it is, or is above who is, responsible for")
    elif _is_part(outcome, handler, facts):
        yield Reason(_READ, True, "it is part of an outcome that it is, or is above who is, responsible for")


def _serves(outcome: Outcome, handler: Uuid, facts: Facts) -> bool:
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


def _team(handler: Uuid, facts: Facts) -> Iterator[Uuid]:
    yield handler
    yield from below(handler, facts)


def _is_part(outcome: Outcome, handler: Uuid, facts: Facts) -> bool:
    """Does it stand below an outcome of the handler, or of one below it?"""
    found = (facts.outcome(id) for id in walk([outcome.id], facts.parents))
    return any(one is not None and _is_at_or_below(holder(one, facts), handler, facts) for one in found)


def _is_at_or_below(id: Party, handler: Uuid, facts: Facts) -> bool:
    return id == handler or handler in above(Uuid(id), facts)


def _on_file(handler: Uuid, tenure: int, file: File, about: _About) -> Iterator[Reason]:
    if about.owner == handler:
        yield _own_file(file)
    elif handler in about.above_owner:
        yield Reason(_READ, True, "it is above the owner")
    for mail in about.mail:
        if mail.to == handler and mail.to_tenure == tenure:
            yield Reason(_READ, True, f"it was sent to it by {mail.sender}")
            break


def _own_file(file: File) -> Reason:
    match file.kind:
        case "audit":
            return Reason(_READ, True, "it is its audit log")
        case "message":  # what was sent stays as it was sent
            return Reason(_READ, True, "it is its message, or one about it")
        case _:
            return Reason(_WRITE, True, "it owns it")


def _on_mail(handler: Uuid, to: Party, facts: Facts) -> Iterator[Reason]:
    me, other = facts.handler(handler), active(to, facts)
    if to == handler:
        yield Reason(1, True, "it is itself")
    elif me and to == me.boss:
        yield Reason(1, True, "it is its boss")
    elif other and other.boss == handler:
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


def not_below(handler: str, principal: Principal, facts: Facts, boss_s: str = "") -> Refused:
    """The refusal of what a handler has, to who does not stand above it: it tells nothing of that. ``handler`` and
    ``boss_s`` are how it and the boss to ask are called.
    """
    boss = boss_of(principal, facts)
    asked = f", {boss_s or boss}" if boss else ""
    why = f"{handler} is not below the handler for whom you act"
    return Refused(ACCESS, why, f"a handler sees itself and those below it; ask your boss{asked}", boss)


def is_current(principal: Principal, facts: Facts) -> Refused | None:
    """Who is no more asks for nothing."""
    if not isinstance(principal, ByHandler):
        return None
    handler = active(principal.handler, facts)
    agent = facts.agent(Uuid(Party(principal.agent))) if is_uuid(principal.agent) else None
    if handler and handler.tenure == principal.tenure and (agent is None or agent.live):
        return None
    if agent is not None and not agent.live:
        why_not = f"agent {agent.id} has ended"
        return Refused(ACTIVE, why_not, "end; another agent goes on where you were", boss_of(principal, facts))
    why_not = f"tenure {principal.tenure} of handler {principal.handler} is over"
    return Refused(ACTIVE, why_not, "end; what is to be done is somebody else's now", boss_of(principal, facts))
