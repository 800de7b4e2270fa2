"""One thread as people see it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from cn.values.errors import Refusal
from cn.values.names import Name, ThreadName

if TYPE_CHECKING:  # imported where a history is asked for
    from cn.protocol.thread_life import Link

PENDING, DECIDED, REFUSED, DONE = "pending", "decided", "refused", "done"


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


class Result(NamedTuple):
    """What came of it: as the log tells it, the status that the creator reads, the merge commit."""

    executed: str = ""
    status: str = ""
    merge: str = ""


class ThreadView(NamedTuple):
    """One thread as people see it; texts are empty where there is nothing to say.

    ``state`` is pending, decided (waiting for process), refused, deferred, assigned, queued,
    claimed (the agent has it), dead (given up by the agent), or done. ``refused`` is the rule that
    said no to the decision. ``chain`` is filled only where the history was asked for.
    """

    thread: ThreadName
    peer: Name
    topic: str
    branch: str
    head: str
    kind: str
    subject: str
    signature: str
    state: str
    received: datetime
    earlier: str = ""
    withdrawn: datetime | None = None
    decided: Decided = Decided()
    result: Result = Result()
    refused: Refusal | None = None
    chain: tuple[Link, ...] = ()

    @property
    def source(self) -> str:
        """``peer/topic``."""
        return f"{self.peer}/{self.topic}"

    @property
    def reason(self) -> str:
        """Why it was refused, else why it was put off."""
        return self.refused.reason if self.refused else self.decided.reason
