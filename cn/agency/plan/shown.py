"""What a principal is shown of what stands beside that for which it asks: names in lists, trees and the log, why an
outcome is blocked, events.

Whatever shows the records to somebody asks here. Titles of outcomes and files are open to all; the subject of a
message, and what belongs to a handler or to who may read an outcome, are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from cn.agency.events import AuditSubmitted, Change, Event, Granted, GrantsPassed, subjects_of
from cn.agency.names import Party, Resource, Uuid, is_uuid
from cn.agency.operations import ByHandler, Principal
from cn.agency.plan.access import reason_for
from cn.agency.plan.titles import OPEN_TO_ALL
from cn.agency.rows import Facts, Outcome

NOT_SHOWN: Final = "why is for who may read it"
"""In the place of a reason that somebody may not know: that the outcome is blocked is no secret."""
_WHOSE: Mapping[type[Change], str] = MappingProxyType(
    {Granted: "holder", GrantsPassed: "to", AuditSubmitted: "handler"}
)
"""What tells of a handler's own: its capabilities, what its agents say. By the field that names that handler."""


class Shown:
    """The records as ``principal`` may see them, as of one moment."""

    def __init__(self, principal: Principal, facts: Facts) -> None:
        self.principal, self.facts = principal, facts
        self._readable: dict[str, bool] = {}

    def may_read(self, id: str) -> bool:
        """May it read the file, or outcome, with this UUID?"""
        if id not in self._readable:
            resource = Resource("kb", id)
            self._readable[id] = reason_for(self.principal, resource, "read", self.facts) is not None
        return self._readable[id]

    def is_above(self, handler: Uuid) -> bool:
        """Is it this handler, one above it, or a user? They see what is the handler's own."""
        row = self.facts.handler(handler)
        return row is not None and self.may_read(row.audit)

    def title(self, id: str) -> str:
        """What a file, an outcome or a handler is called; empty where there is none, or it may not know."""
        row = self.facts.file(Uuid(Party(id))) if is_uuid(id) else None
        return row.description if row and (row.kind in OPEN_TO_ALL or self.may_read(id)) else ""

    def blocked(self, outcome: Outcome) -> str:
        """Why nothing can be done about an outcome; empty where something can."""
        return outcome.blocked if not outcome.blocked or self.may_read(outcome.id) else NOT_SHOWN

    def sees(self, event: Event) -> bool:
        """A user sees all; a handler what it did in this tenure, and what is only about what it may read. Of
        capabilities and audit entries it sees its own, and those of who stands below it.
        """
        if not isinstance(self.principal, ByHandler):
            return True
        if event.actor.startswith(f"{self.principal.handler}/") and event.tenure == self.principal.tenure:
            return True
        if whose := _WHOSE.get(type(event.change)):
            return self.is_above(getattr(event.change, whose))
        subjects = [id for id in subjects_of(event.change) if self.facts.file(Uuid(Party(id)))]
        return bool(subjects) and all(map(self.may_read, subjects))
