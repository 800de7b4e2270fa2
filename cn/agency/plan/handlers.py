"""Handlers: delegation, stop, layers, another boss, and the agents that work for them."""

from __future__ import annotations

from cn.agency.events import (
    REMOVED,
    STOPPED,
    AgentEnded,
    AgentLeased,
    Delegated,
    Founded,
    GrantsPassed,
    HandlerMoved,
    OutcomeLinked,
    OutcomesPassed,
    OutcomeUnlinked,
)
from cn.agency.names import NOT_USERS, OPEN, Uuid, is_user, parse_resource
from cn.agency.operations import (
    ByHandler,
    BySystem,
    ByUser,
    Delegate,
    EndAgent,
    FoundAgency,
    LeaseAgent,
    Moment,
    MoveHandler,
    Principal,
    RemoveHandler,
    StopHandler,
    party_of,
)
from cn.agency.pages import outcome_page
from cn.agency.plan.access import ACCESS, KNOWN, boss_of, reason_for, stands
from cn.agency.plan.checks import (
    BOUNDARY,
    NOTHING,
    first,
    fit_line,
    fit_text,
    named,
    not_delegated,
    open_outcome,
    works_on,
)
from cn.agency.plan.ending import Draft, end_handlers
from cn.agency.plan.grants import grant_to
from cn.agency.plan.mail import send_text, tell_boss
from cn.agency.plan.outcomes import NO_CIRCLE, ONE_HANDLER, PERPETUAL
from cn.agency.plan.result import Planned, Refused
from cn.agency.plan.structure import above, active, below, depth, height, open_children, walk
from cn.agency.rows import Facts, Grant, Handler, Outcome
from cn.values.text import counted

OWN_ROOT = "own-root"
LIMIT_DEPTH = "limit-depth"
LIMIT_UNDERLINGS = "limit-underlings"
LIMIT_AGENTS = "limit-agents"
ONE_AGENT = "one-agent"
FOUNDED_ONCE = "founded-once"


def plan_found(operation: FoundAgency, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    """Agency begins, by a user."""
    if facts.head() is not None:
        return Refused(FOUNDED_ONCE, "Agency is founded already", "look at its status")
    if not isinstance(principal, ByUser):
        return Refused(ACCESS, "a user founds it", "run it as yourself")
    if refused := first(fit_line(operation.title, "the title"), fit_text(operation.text, "the text")):
        return refused
    root, draft = moment.uuid("outcome"), Draft()
    outcome = Outcome(root, operation.title, operation.text, OPEN, root, 1, "", "", None, False, 0)
    stored = draft.store(root, outcome_page(outcome, (), ()))
    files = moment.uuid("state"), moment.uuid("audit")
    user = party_of(principal)[0]
    draft.add(Founded(root, operation.title, operation.text, user, operation.runner, *files, *stored))
    return Planned(tuple(draft.changes), tuple(draft.contents))


def plan_delegate(operation: Delegate, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    """Give an outcome a handler of its own: its responsible handler's underling, with all below it that was that one's.

    Below it are reached only through outcomes of the same handler: what is reached through another's work has a
    parent of its own with its handler, and stays there.
    """
    outcome = open_outcome(operation.outcome, facts)
    if isinstance(outcome, Refused):
        return outcome
    refused = first(
        not_delegated(outcome, facts) if outcome.responsible != outcome.id else _own_root(outcome),
        works_on(principal, outcome, facts),
        fit_text(operation.message, "the message"),
    )
    if refused:
        return refused
    outcomes, underlings = _territory(outcome, facts)
    boss = outcome.responsible
    if refused := first(
        _fits_in(boss, 1 + max((height(id, facts) for id in underlings), default=0), facts, moment),
        _has_room(boss, 1 - len(underlings), facts, moment),
    ):
        return refused
    draft = Draft()
    handler = _new_tenure(outcome, boss, operation.runner, facts, moment)
    named_fields = (handler.id, handler.tenure, boss, handler.boss, handler.runner, handler.state, handler.audit)
    draft.add(Delegated(*named_fields))
    if outcomes:
        draft.add(OutcomesPassed(handler.id, tuple(outcomes)))
    draft.add(*(_moved_below(id, boss, handler, facts) for id in underlings))
    grant = None
    for number, wanted in enumerate(operation.grants):
        granted = grant_to(handler, wanted, principal, facts, moment, moment.uuid("grant", number))
        if isinstance(granted, Refused):
            return granted
        draft.add(granted[0])
        grant = grant or granted[1]
    if operation.message:
        send_text(draft, principal, handler.id, handler.tenure, "Delegated", operation.message, facts, moment)
    return Planned(tuple(draft.changes), tuple(draft.contents), grant)


def _own_root(outcome: Outcome) -> Refused:
    why = f"{named([outcome])} is the root of its handler already"
    return Refused(OWN_ROOT, why, "create outcomes below it, and delegate those")


def _territory(outcome: Outcome, facts: Facts) -> tuple[list[Uuid], list[Uuid]]:
    """The open outcomes below it in the same hands, and the roots of underlings among them."""
    boss = outcome.responsible

    def inside(id: Uuid) -> list[Uuid]:
        found = facts.outcome(id)
        return open_children(id, facts) if found and found.responsible == boss else []

    outcomes: list[Uuid] = []
    underlings: list[Uuid] = []
    for id in walk([outcome.id], inside):
        found, handler = facts.outcome(id), active(id, facts)
        if handler and handler.parent == boss:
            underlings.append(id)
        elif found and found.responsible == boss:
            outcomes.append(id)
    return outcomes, underlings


def _new_tenure(outcome: Outcome, boss: Uuid, runner: str, facts: Facts, moment: Moment) -> Handler:
    """The handler as it will be; of one that has been before, state document and audit log stay."""
    old = facts.handler(outcome.id)
    number = old.tenure + 1 if old else 1
    state, audit = (old.state, old.audit) if old else (moment.uuid("state"), moment.uuid("audit"))
    return Handler(outcome.id, number, True, boss, boss, runner, state, audit)


def _moved_below(id: Uuid, boss: Uuid, handler: Handler, facts: Facts) -> HandlerMoved:
    """An underling whose root is part of the delegated work; a user who is its boss stays that."""
    old = facts.handler(id)
    return HandlerMoved(id, handler.id, old.boss if old and old.boss != boss else handler.id)


def _fits_in(boss: Uuid, layers: int, facts: Facts, moment: Moment) -> Refused | None:
    most = moment.limits.depth
    if depth(boss, facts) + layers <= most:
        return None
    return Refused(LIMIT_DEPTH, f"handlers would stand more than {most} deep", "remove a layer, or delegate from above")


def _has_room(boss: Uuid, more: int, facts: Facts, moment: Moment) -> Refused | None:
    most = moment.limits.underlings
    if more <= 0 or len(facts.underlings(boss)) + more <= most:
        return None
    why = f"{boss} has {counted(len(facts.underlings(boss)), 'underling')}, and may have {most}"
    return Refused(LIMIT_UNDERLINGS, why, "group outcomes below one, and delegate that: a layer in between")


def _commanded(id: Uuid, principal: Principal, facts: Facts) -> Handler | Refused:
    """An active handler that the principal may end: its boss, or a user."""
    handler = active(id, facts)
    if handler is None:
        return Refused(KNOWN, f"{id} is no active handler", "look at your underlings")
    if isinstance(principal, ByHandler) and handler.boss != principal.handler:
        if principal.handler in above(id, facts):
            why = f"{id} is not your direct underling"
            return Refused(BOUNDARY, why, f"send mail to its line, or ask {handler.boss}, its boss", handler.boss)
        return Refused(ACCESS, f"{id} is not your underling", f"ask {handler.boss}, its boss", handler.boss)
    if handler.parent is None:
        remedy = "end what stands below it instead; 'cn agency stop root' ends its agent alone"
        return Refused(PERPETUAL, "the root handler never ends", remedy)
    return handler


def plan_stop(operation: StopHandler, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    """End a handler and all below it; the handler above has all their open outcomes."""
    handler = _commanded(operation.handler, principal, facts)
    if isinstance(handler, Refused):
        return handler
    ending = [handler, *(one for id in below(handler.id, facts) if (one := facts.handler(id)))]
    draft = Draft()
    outcomes = tuple(id for one in ending for id in facts.open_outcomes(one.id))
    draft.add(OutcomesPassed(handler.parent or handler.id, outcomes))
    end_handlers(draft, [(one, STOPPED) for one in ending[::-1]], facts, moment)
    return Planned((*draft.changes,), tuple(draft.contents), more={"stopped": [one.id for one in ending]})


def plan_remove(operation: RemoveHandler, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    """Take a layer out: outcomes, underlings and capabilities that stand are the next one's above."""
    handler = _commanded(operation.handler, principal, facts)
    if isinstance(handler, Refused):
        return handler
    draft, heir = Draft(), handler.parent or handler.id
    draft.add(OutcomesPassed(heir, tuple(facts.open_outcomes(handler.id))))
    for id in facts.underlings(handler.id):
        one = facts.handler(id)
        boss = one.boss if one and one.boss != handler.id else handler.boss
        draft.add(HandlerMoved(id, heir, boss))
    grants = [one.id for one in facts.grants_by(handler.id, handler.tenure) if stands(one, facts)]
    if grants:
        draft.add(GrantsPassed(heir, tuple(grants)))
    end_handlers(draft, [(handler, REMOVED)], facts, moment)
    return Planned(tuple(draft.changes), tuple(draft.contents))


def lost_by_removal(handler: Handler, facts: Facts) -> list[Grant]:
    """Capabilities by a handler that stand now, and do not once it is removed: its heir has not what they stand on.

    What it has from structure is its heir's then; what was granted to it alone is nobody's.
    """
    me, heir = ByHandler(handler.id, handler.tenure, ""), facts.handler(handler.parent or handler.id)
    lost = []
    for one in facts.grants_by(handler.id, handler.tenure):
        resource = parse_resource(one.resource)
        reason = reason_for(me, resource, one.level, facts)
        if heir and reason and reason.grant and stands(one, facts):
            above_it = ByHandler(heir.id, heir.tenure, "")
            lost += [] if reason_for(above_it, resource, one.level, facts) else [one]
    return lost


def plan_move(operation: MoveHandler, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    """Another boss: a user as the boss where it stands, or another handler, whose work its root then serves."""
    handler = active(operation.handler, facts)
    if handler is None:
        return Refused(KNOWN, f"{operation.handler} is no active handler", "look at your handlers")
    if handler.parent is None and not is_user(operation.boss):
        remedy = "name a user as its boss, or move what stands below it instead"
        return Refused(PERPETUAL, "the root handler stays where it is", remedy)
    if is_user(operation.boss):
        if not isinstance(principal, ByUser):
            return Refused(ACCESS, "a user becomes boss by a user's word", "ask the user", boss_of(principal, facts))
        if operation.boss.removeprefix("user:") in NOT_USERS:
            return Refused(KNOWN, f"{operation.boss} passes for another than a user", "name a user")
        if handler.boss == operation.boss:
            return Refused(NOTHING, f"{operation.boss} is its boss", "name another one")
        return Planned((HandlerMoved(handler.id, handler.parent, operation.boss),))
    boss = active(operation.boss, facts)
    if boss is None:
        return Refused(KNOWN, f"{operation.boss} is no active handler", "look at your handlers")
    return _move_below(handler, boss, operation.below or boss.id, principal, facts, moment)


def _move_below(
    handler: Handler, boss: Handler, below_id: Uuid, principal: Principal, facts: Facts, moment: Moment
) -> Planned | Refused:
    serves = open_outcome(below_id, facts)
    if isinstance(serves, Refused):
        return serves
    is_new = boss.id != handler.parent
    refused = first(
        _above_both(handler, boss, principal, facts),
        None if serves.responsible == boss.id else _not_the_boss_s(serves, boss),
        _no_circle(handler, boss, below_id, facts),
        _fits_in(boss.id, height(handler.id, facts), facts, moment) if is_new else None,
        _has_room(boss.id, 1, facts, moment) if is_new else None,
    )
    if refused:
        return refused
    draft = Draft()
    parents = [(id, facts.outcome(id)) for id in facts.parents(handler.id)]
    if below_id not in (id for id, _ in parents):
        draft.add(OutcomeLinked(handler.id, below_id))
    others = (id for id, row in parents if row and row.responsible != boss.id)
    draft.add(*(OutcomeUnlinked(handler.id, id) for id in others))
    if is_new or handler.boss != boss.id:
        draft.add(HandlerMoved(handler.id, boss.id, boss.id))
    if not draft.changes:
        return Refused(NOTHING, f"{boss.id} is its boss", "name another one, or another outcome of its")
    return Planned(tuple(draft.changes))


def _above_both(handler: Handler, boss: Handler, principal: Principal, facts: Facts) -> Refused | None:
    """Who moves a handler is above it, and above its new boss or that one itself, with no person in between."""
    if not isinstance(principal, ByHandler):
        return None
    me = principal.handler
    if me in above(handler.id, facts) and me in (boss.id, *above(boss.id, facts)):
        return _a_person_s(me, handler, facts) or _a_person_s(me, boss, facts)
    asked = boss_of(principal, facts)
    line = {boss.id, *above(boss.id, facts)}
    both = next((id for id in above(handler.id, facts) if id in line), None)
    who = f"; {both} is above both" if both and both != asked else ""
    return Refused(ACCESS, f"you are not above both {handler.id} and {boss.id}", f"ask {asked}, your boss{who}", asked)


def _a_person_s(me: Uuid, handler: Handler, facts: Facts) -> Refused | None:
    """Whose boss a person is, or who stands below such a one, is that person's to decide, and no handler's above."""
    for id in (handler.id, *above(handler.id, facts)):
        if id == me:
            return None
        found = facts.handler(id)
        if found is not None and is_user(found.boss):
            return Refused(ACCESS, f"{handler.id} is {found.boss}'s to decide", f"ask {found.boss}", found.boss)
    return None


def _not_the_boss_s(serves: Outcome, boss: Handler) -> Refused:
    return Refused(ONE_HANDLER, f"{named([serves])} is not {boss.id}'s", "name an open outcome of the new boss")


def _no_circle(handler: Handler, boss: Handler, below_id: Uuid, facts: Facts) -> Refused | None:
    if boss.id == handler.id:
        return Refused(NO_CIRCLE, f"{boss.id} cannot be its own boss", "name another boss")
    if handler.id in above(boss.id, facts):
        return Refused(NO_CIRCLE, f"{boss.id} stands below {handler.id}", "name another boss")
    if handler.id in walk([below_id], facts.parents):
        return Refused(NO_CIRCLE, f"{below_id} is itself a part of {handler.id}", "name another outcome")
    return None


def plan_lease(operation: LeaseAgent, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    """An instance for a handler that has none."""
    handler = active(operation.handler, facts)
    if not isinstance(principal, BySystem):
        return Refused(ACCESS, "Agency itself starts agents", "leave something workable, and one will be started")
    if handler is None:
        return Refused(KNOWN, f"{operation.handler} is no active handler", "look at the handlers")
    if facts.agent(operation.agent):
        return Refused(ONE_AGENT, f"there was an agent {operation.agent} before", "take a new id")
    if live := facts.live_agent(handler.id):
        return Refused(ONE_AGENT, f"{handler.id} has a live agent, {live.id}", "wait until it ends")
    if facts.count_live() >= moment.limits.agents:
        return Refused(
            LIMIT_AGENTS,
            f"{counted(facts.count_live(), 'agent')} at work, and {moment.limits.agents} may be",
            "wait until one ends",
        )
    return Planned((AgentLeased(operation.agent, handler.id, handler.tenure, operation.token),))


def plan_agent_end(operation: EndAgent, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    """An instance is no more: told by Agency itself, or by a user; its handler's boss may have to know."""
    agent = facts.agent(operation.agent)
    if isinstance(principal, ByHandler):
        return Refused(ACCESS, "Agency itself ends agents", "end your own work, or stop the handler")
    if agent is None or not agent.live:
        return Refused(KNOWN, f"{operation.agent} is no live agent", "look at the agents")
    subject = operation.subject or operation.why
    if refused := first(
        fit_line(operation.why, "the reason"),
        fit_line(subject, "the subject"),
        fit_text(operation.message, "the message"),
    ):
        return refused
    draft = Draft()
    draft.add(AgentEnded(agent.id, operation.why))
    handler = active(agent.handler, facts)
    if operation.message and handler and handler.tenure == agent.tenure:
        tell_boss(draft, handler, subject, operation.message, facts, moment)
    return Planned(tuple(draft.changes), tuple(draft.contents))
