"""One thread as people see it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from cn.values.names import Name, ThreadName

if TYPE_CHECKING:  # imported where a history is asked for
    from cn.protocol.thread_life import Link

PENDING, DECIDED, REFUSED, DONE = "pending", "decided", "refused", "done"


class ThreadView(NamedTuple):
    """One thread as people see it; texts are empty where there is nothing to say.

    ``state`` is pending, decided (waiting for process), refused, deferred, assigned, queued,
    claimed (the agent has it), dead (given up by the agent), or done; ``status`` what a done one
    came to. ``note`` is a problem with what is written in the working copy. ``chain`` is filled
    only where the history was asked for.
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
    decision: str = ""
    actor: str = ""
    executed: str = ""
    until: datetime | None = None
    assigned_to: str = ""
    reason: str = ""
    rule: str = ""
    remedy: str = ""
    withdrawn: datetime | None = None
    status: str = ""
    merge: str = ""
    earlier: str = ""
    note: str = ""
    chain: tuple[Link, ...] = ()

    @property
    def source(self) -> str:
        """``peer/topic``."""
        return f"{self.peer}/{self.topic}"
