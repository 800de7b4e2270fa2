"""Who stands where: asked of facts, never stored, so never stale."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from cn.agency.names import Party, Uuid, is_user
from cn.agency.rows import Facts, Handler, Outcome


def active(id: Party, facts: Facts) -> Handler | None:
    """The handler, if it is in a tenure now."""
    handler = None if is_user(id) else facts.handler(Uuid(id))
    return handler if handler and handler.active else None


def above(handler: Uuid, facts: Facts) -> Iterator[Uuid]:
    """The handlers above it, the nearest first."""
    found = facts.handler(handler)
    while found and found.parent:
        yield found.parent
        found = facts.handler(found.parent)


def below(handler: Uuid, facts: Facts) -> list[Uuid]:
    """The active handlers below it, at any depth, those above first."""
    found = list(facts.underlings(handler))
    for one in found:
        found += facts.underlings(one)
    return found


def depth(handler: Uuid, facts: Facts) -> int:
    """1 for the root handler."""
    return 1 + sum(1 for _ in above(handler, facts))


def height(handler: Uuid, facts: Facts) -> int:
    """How many layers it and those below it are."""
    return 1 + max((height(one, facts) for one in facts.underlings(handler)), default=0)


def owner(party: Party, tenure: int, facts: Facts) -> Party:
    """Who has now what a party came to have in a tenure: itself, or after its end its heir, or that one's."""
    while not is_user(party):
        found = facts.tenure(Uuid(party), tenure)
        if not found or not found.heir:
            break
        party, tenure = Party(found.heir), found.heir_tenure
    return party


def holder(outcome: Outcome, facts: Facts) -> Party:
    """Who is responsible for it, or for an ended one, who has what that handler left."""
    return owner(outcome.responsible, outcome.tenure, facts)


def delegated(outcome: Outcome, facts: Facts) -> Handler | None:
    """The handler to which it was delegated as its root."""
    return active(outcome.id, facts)


def writer(outcome: Outcome, facts: Facts) -> Party:
    """Who decides about it: the responsible handler, of a delegated one that handler's boss."""
    handler = delegated(outcome, facts)
    return handler.boss if handler else holder(outcome, facts)


def owning_handler(outcome: Outcome, facts: Facts) -> Uuid | None:
    """In whose hands it is among handlers: as :func:`writer`, but of a user's, the handler above. None for the root."""
    handler = delegated(outcome, facts)
    return handler.parent if handler else outcome.responsible


def is_workable(outcome: Outcome, facts: Facts, now: object) -> bool:
    """Could its responsible handler do something about it now?

    Blocked, with open children, or delegated it is not; a handler's own root without open children counts.
    """
    if not outcome.is_open or facts.has_open_child(outcome.id):
        return False
    if outcome.blocked and (outcome.until is None or outcome.until > now):  # type: ignore[operator]
        return False
    handler = delegated(outcome, facts)
    return handler is None or outcome.responsible == handler.id


def walk(start: Iterable[Uuid], next_of: Callable[[Uuid], Sequence[Uuid]]) -> Iterator[Uuid]:
    """Each outcome that is reached from others, once; not those at which it starts, unless they are reached."""
    seen: set[Uuid] = set()
    for first in start:
        todo = [*reversed(next_of(first))]
        while todo:
            if (id := todo.pop()) not in seen:
                seen.add(id)
                yield id
                todo += reversed(next_of(id))


def open_children(outcome: Uuid, facts: Facts) -> list[Uuid]:
    """Its children with something to do."""
    return [id for id in facts.children(outcome) if (found := facts.outcome(id)) and found.is_open]


def open_descendants(outcome: Uuid, facts: Facts) -> list[Uuid]:
    """What is still to be done for it, through outcomes that are open."""
    return list(walk([outcome], lambda id: open_children(id, facts)))


def in_order(outcomes: Sequence[Uuid], facts: Facts) -> list[Uuid]:
    """The same outcomes, each behind its parents among them."""
    left = set(outcomes)
    waiting = {id: sum(parent in left for parent in facts.parents(id)) for id in outcomes}
    ready = [id for id in outcomes if not waiting[id]]
    for id in ready:
        for child in facts.children(id):
            if child in waiting:
                waiting[child] -= 1
                if not waiting[child]:
                    ready.append(child)
    return ready
