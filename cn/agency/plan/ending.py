"""How tenures end: what a handler leaves behind, and who has it then."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cn.agency.events import (
    AgentEnded,
    Change,
    HandlerEnded,
    MailPassed,
    OutcomeClosed,
    OutcomeCompleted,
    OutcomeCreated,
)
from cn.agency.names import CLOSED, COMPLETED, NO_ID, OPEN, Uuid, is_user
from cn.agency.operations import Moment
from cn.agency.pages import outcome_page
from cn.agency.plan.result import Content, content
from cn.agency.plan.structure import above, active
from cn.agency.rows import Facts, Handler, Outcome

PROCESS_INBOX = "Process inbox"


class Draft:
    """A plan in the making: changes in order, and the contents they name."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.contents: list[Content] = []

    def add(self, *changes: Change) -> None:
        """Append changes."""
        self.changes += changes

    def store(self, file: Uuid, text: str) -> tuple[str, int]:
        """Append a content; its hash and size."""
        stored = content(file, text.encode())
        self.contents.append(stored)
        return stored.hash, len(stored.data)


def end_outcome(draft: Draft, outcome: Outcome, status: str, rationale: str, facts: Facts) -> None:
    """Complete or close it, with the version of its file that says so."""
    ended = outcome._replace(status=status, rationale=rationale, blocked="", until=None)
    page = outcome_page(ended, facts.parents(outcome.id), facts.children(outcome.id))
    file = facts.file(outcome.id)
    version = (file.version if file else 0) + 1
    change = OutcomeCompleted if status == COMPLETED else OutcomeClosed
    draft.add(change(outcome.id, rationale, version, *draft.store(outcome.id, page)))


def open_inbox(draft: Draft, handler: Uuid, facts: Facts, moment: Moment) -> None:
    """Something workable for a handler that has mail, unless there is."""
    id = moment.uuid("inbox", handler)
    if facts.open_inbox(handler) or any(isinstance(c, OutcomeCreated) and c.outcome == id for c in draft.changes):
        return
    found = facts.handler(handler)
    outcome = Outcome(id, PROCESS_INBOX, "", OPEN, handler, found.tenure if found else 1, "", "", None, True, 0)
    draft.add(OutcomeCreated(id, PROCESS_INBOX, "", handler, (), *draft.store(id, outcome_page(outcome, (), ())), True))


def end_handlers(draft: Draft, ending: Sequence[tuple[Handler, str]], facts: Facts, moment: Moment) -> None:
    """End these tenures: agents, inboxes and mail; who has what they leave is the nearest handler above that stays.

    Their outcomes and underlings have to be passed on before.
    """
    gone = {handler.id for handler, _ in ending}
    for handler, how in ending:
        heir = heir_of(handler.id, gone, facts)
        if agent := facts.live_agent(handler.id):
            draft.add(AgentEnded(agent.id, f"its handler was {how}"))
        inbox = facts.outcome(facts.open_inbox(handler.id) or NO_ID)
        if inbox:
            end_outcome(draft, inbox, CLOSED, f"its handler was {how}", facts)
        if mail := tuple(one.id for one in facts.pending(handler.id)):
            boss = handler.boss if is_user(handler.boss) else heir
            draft.add(MailPassed(boss, mail))
            if not is_user(boss):
                open_inbox(draft, Uuid(boss), facts, moment)
        draft.add(HandlerEnded(handler.id, handler.tenure, how, heir))


def heir_of(handler: Uuid, gone: Collection[Uuid], facts: Facts) -> Uuid:
    """The nearest handler above it that is not among those who end; the root handler never ends."""
    return next(one for one in above(handler, facts) if one not in gone and active(one, facts))
