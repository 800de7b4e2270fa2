"""Outcomes: made, changed, linked, blocked and ended by those who may."""

from __future__ import annotations

from cn.agency.events import (
    ABANDONED,
    FULFILLED,
    HandlerMoved,
    OutcomeBlocked,
    OutcomeCreated,
    OutcomeLinked,
    OutcomesPassed,
    OutcomeUnblocked,
    OutcomeUnlinked,
    OutcomeUpdated,
)
from cn.agency.names import CLOSED, COMPLETED, OPEN, Resource, Uuid
from cn.agency.operations import (
    BlockOutcome,
    CloseOutcome,
    CompleteOutcome,
    CreateOutcome,
    Moment,
    Principal,
    UpdateOutcome,
)
from cn.agency.pages import outcome_page
from cn.agency.plan.access import no_access, reason_for
from cn.agency.plan.checks import (
    NOTHING,
    decides,
    first,
    fit_line,
    fit_text,
    fresh,
    named,
    open_outcome,
    to_come,
    works_on,
)
from cn.agency.plan.ending import Draft, end_handlers, end_outcome
from cn.agency.plan.result import Planned, Refused
from cn.agency.plan.structure import active, delegated, in_order, open_descendants, owning_handler, walk, writer
from cn.agency.rows import Facts, Outcome
from cn.values.text import counted

ONE_HANDLER = "one-handler"
NO_CIRCLE = "no-circle"
OPEN_PARENT = "open-parent"
OPEN_DESCENDANTS = "open-descendants"
PERPETUAL = "perpetual-root"
LIMIT_OPEN = "limit-open-outcomes"


def plan_create(operation: CreateOutcome, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    """A new outcome; the handler that is responsible for its parents is responsible for it."""
    parents = _work_of(operation.parents, principal, facts)
    if isinstance(parents, Refused):
        return parents
    if refused := first(fit_line(operation.title, "the title"), fit_text(operation.text, "the text")):
        return refused
    responsible = parents[0].responsible
    if facts.count_open(responsible) >= moment.limits.open_outcomes:
        why = f"{responsible} has {counted(facts.count_open(responsible), 'open outcome')}"
        return Refused(LIMIT_OPEN, why, "complete or close some, or delegate a part of them")
    handler = facts.handler(responsible)
    id, ids = moment.uuid("outcome"), tuple(parent.id for parent in parents)
    tenure = handler.tenure if handler else 1
    outcome = Outcome(id, operation.title, operation.text, OPEN, responsible, tenure, "", "", None, False, 0)
    draft = Draft()
    stored = draft.store(id, outcome_page(outcome, ids, ()))
    draft.add(OutcomeCreated(id, operation.title, operation.text, responsible, ids, *stored))
    return Planned(tuple(draft.changes), tuple(draft.contents))


def _work_of(ids: tuple[Uuid, ...], principal: Principal, facts: Facts) -> list[Outcome] | Refused:
    """Open outcomes of one handler, on which the principal works."""
    found: list[Outcome] = []
    for id in dict.fromkeys(ids):
        outcome = open_outcome(id, facts)
        if isinstance(outcome, Refused):
            return outcome
        if refused := works_on(principal, outcome, facts):
            return refused
        found.append(outcome)
    if not found:
        return Refused(OPEN_PARENT, "it says not what it is good for", "name an open outcome of yours as its parent")
    if len({outcome.responsible for outcome in found}) > 1:
        return Refused(ONE_HANDLER, "its parents are of different handlers", "name parents of one handler")
    return found


def plan_update(operation: UpdateOutcome, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    """Other words for whoever may write it; other parents for whoever decides about it."""
    outcome = open_outcome(operation.outcome, facts)
    if isinstance(outcome, Refused):
        return outcome
    draft, grant = Draft(), None
    if operation.title is not None or operation.text is not None:
        granted = _write_words(draft, operation, outcome, principal, facts)
        if isinstance(granted, Refused):
            return granted
        grant = granted or None
    if back := [id for id in operation.link if id in operation.unlink]:
        return Refused(NOTHING, f"{back[0]} is to be linked and unlinked", "say one of both")
    if operation.link or operation.unlink:
        refused = decides(principal, outcome, facts) or _relink(draft, operation, outcome, principal, facts)
        if refused:
            return refused
    if not draft.changes:
        return Refused(NOTHING, "nothing would change", "say what is to be different")
    return Planned(tuple(draft.changes), tuple(draft.contents), grant)


def _write_words(
    draft: Draft, operation: UpdateOutcome, outcome: Outcome, principal: Principal, facts: Facts
) -> Uuid | Refused | None:
    """The version with other words; the capability that allows it."""
    resource = Resource("outcome", outcome.id)
    reason = reason_for(principal, resource, "write", facts)
    if reason is None:
        return decides(principal, outcome, facts) or no_access(principal, resource, "write", facts)
    title = outcome.title if operation.title is None else operation.title
    text = outcome.text if operation.text is None else operation.text
    file = facts.file(outcome.id)
    refused = first(fit_line(title, "the title"), fit_text(text, "the text"), file and fresh(file, operation.seen))
    if refused:
        return refused
    if (title, text) != (outcome.title, outcome.text):
        changed = outcome._replace(title=title, text=text)
        page = outcome_page(changed, facts.parents(outcome.id), facts.children(outcome.id))
        version = (file.version if file else 0) + 1
        draft.add(OutcomeUpdated(outcome.id, title, text, version, *draft.store(outcome.id, page)))
    return reason.grant.id if reason.grant else None


def _relink(
    draft: Draft, operation: UpdateOutcome, outcome: Outcome, principal: Principal, facts: Facts
) -> Refused | None:
    """Other parents: all of the handler in whose hands the outcome is, without a circle, one of them left open."""
    hands, parents = owning_handler(outcome, facts), list(facts.parents(outcome.id))
    for id in operation.link:
        parent = open_outcome(id, facts)
        if isinstance(parent, Refused):
            return parent
        if refused := works_on(principal, parent, facts) or _same_hands(outcome, parent, hands):
            return refused
        if id == outcome.id or outcome.id in walk([id], facts.parents):
            why = f"{named([parent])} is itself a part of {named([outcome])}"
            return Refused(NO_CIRCLE, why, "link it the other way round, or not at all")
        if id not in parents:
            parents.append(id)
            draft.add(OutcomeLinked(outcome.id, id))
    for id in operation.unlink:
        old = facts.outcome(id)
        if old is None or id not in parents:
            return Refused(NOTHING, f"{id} is no parent of {named([outcome])}", "look at its parents")
        if refused := works_on(principal, old, facts) or _same_hands(outcome, old, hands):
            return refused
        parents.remove(id)
        draft.add(OutcomeUnlinked(outcome.id, id))
    left = (facts.outcome(id) for id in parents)
    if operation.unlink and not any(one and one.responsible == hands for one in left):
        why = f"{named([outcome])} would have no parent of its handler left"
        return Refused(OPEN_PARENT, why, "link it to another one first, or close it")
    return None


def _same_hands(outcome: Outcome, parent: Outcome, hands: Uuid | None) -> Refused | None:
    if parent.responsible == hands:
        return None
    why = f"{named([outcome])} and {named([parent])} are not in the hands of one handler"
    return Refused(ONE_HANDLER, why, "links are within one handler's work; delegate, or move the handler")


def plan_block(operation: BlockOutcome, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    """Nothing can be done about it now, or something can again: what its responsible handler says."""
    outcome = open_outcome(operation.outcome, facts)
    if isinstance(outcome, Refused):
        return outcome
    refused = first(works_on(principal, outcome, facts), to_come(operation.until, moment.now))
    if refused:
        return refused
    if operation.reason:
        same = (operation.reason, operation.until) == (outcome.blocked, outcome.until)
        refused = first(
            fit_line(operation.reason, "the reason"),
            Refused(NOTHING, f"{named([outcome])} is blocked so already", "go on, or end") if same else None,
        )
        return refused or Planned((OutcomeBlocked(outcome.id, operation.reason, operation.until),))
    if not outcome.blocked:
        return Refused(NOTHING, f"{named([outcome])} is not blocked", "give a reason to block it")
    return Planned((OutcomeUnblocked(outcome.id),))


def plan_end(
    operation: CompleteOutcome | CloseOutcome, principal: Principal, facts: Facts, moment: Moment
) -> Planned | Refused:
    """Complete or close it; with ``cascade`` also what was only for it. Their handlers end with them.

    What stays open is no part of what ended any more: the parents of an open outcome are all open.
    """
    outcome = open_outcome(operation.outcome, facts)
    if isinstance(outcome, Refused):
        return outcome
    closes = isinstance(operation, CloseOutcome)
    refused = first(
        _perpetual(outcome, facts),
        decides(principal, outcome, facts),
        fit_text(operation.rationale, "the rationale", needed=closes),
        None if operation.cascade else _nothing_left(outcome, facts),
    )
    if refused:
        return refused
    draft = Draft()
    order = in_order([outcome.id, *open_descendants(outcome.id, facts)], facts)
    ended = _ended_with(order, facts)
    end_outcome(draft, outcome, CLOSED if closes else COMPLETED, operation.rationale, facts)
    for id in order[1:]:
        if id in ended and (found := facts.outcome(id)):
            end_outcome(draft, found, CLOSED, f"closed with its parent: {operation.rationale or outcome.title}", facts)
    survivors = [id for id in order if id not in ended]
    links = ((id, parent) for id in survivors for parent in facts.parents(id) if parent in ended)
    draft.add(*(OutcomeUnlinked(id, parent) for id, parent in links))
    _pass_survivors(draft, survivors, ended, facts)
    how = {outcome.id: ABANDONED if closes else FULFILLED}
    handlers = [(handler, how.get(id, ABANDONED)) for id in order if id in ended and (handler := active(id, facts))]
    end_handlers(draft, handlers[::-1], facts, moment)
    return Planned(tuple(draft.changes), tuple(draft.contents))


def _perpetual(outcome: Outcome, facts: Facts) -> Refused | None:
    head = facts.head()
    if not head or outcome.id != head.root:
        return None
    return Refused(PERPETUAL, f"{named([outcome])} is the root of everything", "end what stands below it instead")


def _nothing_left(outcome: Outcome, facts: Facts) -> Refused | None:
    """Nothing open is left below it."""
    left = [one for id in open_descendants(outcome.id, facts) if (one := facts.outcome(id))]
    if not left:
        return None
    why = f"open below {named([outcome])}: {named(left)}"
    return Refused(
        OPEN_DESCENDANTS, why, "end these first, or let what is only for it be closed with its parent (cascade)"
    )


def _ended_with(order: list[Uuid], facts: Facts) -> set[Uuid]:
    """The first, and of those below it each that has no open parent left; ``order`` has parents first."""
    ended = {order[0]}
    for id in order[1:]:
        if all(parent in ended for parent in facts.parents(id)):
            ended.add(id)
    return ended


def _pass_survivors(draft: Draft, survivors: list[Uuid], ended: set[Uuid], facts: Facts) -> None:
    """What stays open goes to the handler responsible for an open parent, unless it is that one's already."""
    responsible: dict[Uuid, Uuid] = {}
    passed: dict[Uuid, list[Uuid]] = {}
    for id in survivors:
        outcome = facts.outcome(id)
        parents = [facts.outcome(parent) for parent in facts.parents(id) if parent not in ended]
        hands = [responsible.get(parent.id, parent.responsible) for parent in parents if parent]
        if not outcome or owning_handler(outcome, facts) in hands:
            continue
        if handler := delegated(outcome, facts):
            boss = writer(outcome, facts) if handler.boss != handler.parent else hands[0]
            draft.add(HandlerMoved(handler.id, hands[0], boss))
        else:
            responsible[id] = hands[0]
            passed.setdefault(hands[0], []).append(id)
    draft.add(*(OutcomesPassed(to, tuple(ids)) for to, ids in passed.items()))
