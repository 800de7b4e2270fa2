"""The decision that stands about a pending thread: one that is written and waits, or by which it was put off."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from cn.inbox.working_copies import was_refused
from cn.protocol.ledger import Item
from cn.values.timestamps import parse_stamp

if TYPE_CHECKING:  # imported where somebody decided
    from cn.protocol.thread_life import Written

PUT_OFF = ("deferred", "assigned")
"""The states of a thread that a decision left waiting."""


class Decided(NamedTuple):
    """The decision that stands: one that is written and waits, or by which the thread was put off or ended.

    ``reason`` and ``until`` are those of a deferral; ``problem`` is what is wrong with the text in
    the working copy.
    """

    text: str = ""
    actor: str = ""
    until: datetime | None = None
    assigned_to: str = ""
    reason: str = ""
    problem: str = ""

    @property
    def words(self) -> str:
        """The decision and who took it; of one that cannot be read, why."""
        if self.problem:
            return f"one that cannot be read ({self.problem})"
        return f"{self.text} by {self.actor}" if self.actor else self.text


def decided_of(item: Item, written: Written | None, *, known: bool) -> Decided:
    """What stands about an open thread; what is ``written`` now counts before what was recorded. ``known``: its creator
    is a peer now.
    """
    get, refused = item.get, written is not None and was_refused(item, written, known=known)
    put_off = {"deferred": f"defer:{get('reason')}", "assigned": f"delegate:{get('actor')}"}.get(item.state, "")
    return Decided(
        text=written.decision if written else put_off,
        actor=written.actor if written else get("by"),
        until=parse_stamp(get("until")) if get("until") else None,
        assigned_to=get("actor"),
        reason="" if refused else get("reason"),
        problem=written.problem if written else "",
    )
