"""Agency without a repository: operations planned and applied in memory, as if each were one commit."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from cn.agency.apply import apply
from cn.agency.events import Event, format_message, parse_message
from cn.agency.names import NO_ID, Party, Resource, Uuid, parse_resource
from cn.agency.operations import (
    TOLD,
    ByHandler,
    BySystem,
    ByUser,
    CreateFile,
    CreateOutcome,
    Delegate,
    FoundAgency,
    Limits,
    Moment,
    Operation,
    Principal,
    Wanted,
    actor_of,
    tenure_of,
)
from cn.agency.plan.access import access
from cn.agency.plan.plan import digest_of, done_before, plan
from cn.agency.plan.result import Planned, Refused
from cn.agency.plan.views import View
from cn.agency.rows import Handler, Outcome, Request
from tests.support.agency_memory import Memory

ADA = ByUser("ada")
SYSTEM = BySystem()
BEGIN = datetime(2026, 2, 5, 14, 0, tzinfo=UTC)


class Records:
    """The state, and all that happened; ``contents`` are the versions stored, by their hash."""

    def __init__(self, seed: int = 0, limits: Limits | None = None) -> None:
        self.rows = Memory()
        self.events: list[Event] = []
        self.messages: list[str] = []
        self.contents: dict[str, bytes] = {}
        self.now = BEGIN
        self.limits = limits or Limits()
        self.room: int | None = None
        self._random = random.Random(seed)

    def ask(self, operation: Operation, principal: Principal, request_id: str = "") -> Planned | Refused | Request:
        """Plan it, and apply what comes of it."""
        before = done_before(operation, principal, request_id, self.rows)
        if isinstance(before, Refused) or (before and not isinstance(operation, TOLD)):
            return before
        request_id = "" if before else request_id
        planned = plan(operation, principal, self.rows, self._moment())
        if isinstance(planned, Planned):
            self.contents |= {one.hash: one.data for one in planned.contents}
            self._write(planned, principal, request_id, digest_of(operation) if request_id else "")
        return planned

    def _moment(self) -> Moment:
        return Moment(self.now, self._random.randbytes(16), self.limits, self.room)

    def _write(self, planned: Planned, principal: Principal, request_id: str, digest: str) -> None:
        head = self.rows.head()
        start = head.seq + 1 if head else 1
        who = (tenure_of(principal), planned.grant, request_id, digest)
        events = [
            Event(seq, self.now, actor_of(principal), change, *who) for seq, change in enumerate(planned.changes, start)
        ]
        message = format_message("subject", events)
        assert parse_message(message) == tuple(events)
        self.messages.append(message)
        for event in events:
            apply(self.rows, event)
        self.events += events

    def do(self, operation: Operation, principal: Principal = ADA, request_id: str = "") -> dict[str, object]:
        """What is expected to be done; the answer."""
        done = self.ask(operation, principal, request_id)
        assert isinstance(done, Planned), done
        return done.answer

    def no(self, operation: Operation, principal: Principal = ADA, request_id: str = "") -> Refused:
        """What is expected to be refused."""
        refused = self.ask(operation, principal, request_id)
        assert isinstance(refused, Refused), refused
        assert refused.reason
        return refused

    def found(self, title: str = "Help Ada with all her work") -> Uuid:
        """Begin; the root."""
        return _id(self.do(FoundAgency(title))["outcome"])

    def outcome(self, title: str, *parents: Uuid, by: Principal = ADA, text: str = "") -> Uuid:
        """A new outcome."""
        return _id(self.do(CreateOutcome(title, text, parents), by)["outcome"])

    def delegate(self, outcome: Uuid, by: Principal = ADA, grants: Iterable[Wanted] = (), message: str = "") -> Uuid:
        """A new tenure for it; the handler."""
        return _id(self.do(Delegate(outcome, grants=tuple(grants), message=message), by)["handler"])

    def handler_for(self, title: str, boss: Uuid) -> Uuid:
        """A new outcome below the root of a handler, delegated by that one."""
        by = self.agent(boss)
        return self.delegate(self.outcome(title, boss, by=by), by)

    def file(self, by: Principal, content: bytes = b"x", description: str = "A file") -> Uuid:
        """A new file."""
        return _id(self.do(CreateFile(description, content), by)["file"])

    def agent(self, handler: Uuid) -> ByHandler:
        """Somebody who works for a handler in its latest tenure."""
        return ByHandler(handler, self.handler(handler).tenure, "user:ada")

    def handler(self, id: Uuid) -> Handler:
        """Its row."""
        found = self.rows.handler(id)
        assert found
        return found

    def row(self, id: Uuid) -> Outcome:
        """An outcome's row."""
        found = self.rows.outcome(id)
        assert found
        return found

    def level(self, handler: Uuid, resource: str) -> str:
        """What a handler may do with a resource."""
        return access(self.agent(handler), parse_resource(resource), self.rows)

    def pass_time(self, **span: float) -> None:
        """Later."""
        self.now += timedelta(**span)

    def replayed(self) -> Memory:
        """A fresh memory after the same messages."""
        fresh = Memory()
        for message in self.messages:
            for event in parse_message(message):
                apply(fresh, event)
        return fresh


def outcome_resource(id: Uuid) -> Resource:
    """``outcome:<uuid>``."""
    return Resource("outcome", id)


def listed(view: View | Refused, name: str) -> list[dict[str, object]]:
    """The objects of a list in an answer."""
    assert not isinstance(view, Refused)
    found = view[name]
    assert isinstance(found, list)
    return found


def _id(value: object) -> Uuid:
    assert isinstance(value, str)
    return Uuid(Party(value)) if value else NO_ID
