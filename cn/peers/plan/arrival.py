"""One inbound branch at one head, after it was read and checked."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from cn.protocol.effects import Log, Record
from cn.protocol.ledger import IN, Event
from cn.protocol.log import Row
from cn.protocol.message import Message
from cn.protocol.thread_file import Header
from cn.values.names import Branch, Name, Oid, ThreadKey, topic_of


class Arrival(NamedTuple):
    """One inbound branch at one head, read and checked.

    ``content`` is the unquoted text of the thread, ``message`` is set for message branches.
    """

    peer: Name
    branch: Branch
    head: Oid
    at: datetime
    signature: str
    content: str
    message: Message | None = None

    @property
    def topic(self) -> str:
        """The branch without its prefix."""
        return topic_of(self.branch)

    @property
    def source(self) -> str:
        """``peer/topic``, as logs name it."""
        return f"{self.peer}/{self.topic}"

    def row(self, decision: str, executed: str = "—", thread: str = "", outcome: str = "") -> Log:
        """A log row about this arrival."""
        return Log(Row(self.at, self.source, decision, executed, thread, self.branch, self.head, outcome or decision))

    def event(self, kind: str, /, **fields: str) -> Record:
        """A ledger event about this arrival."""
        return Record(self.peer, Event(self.at, IN, kind, self.topic, self.head, fields))

    def header(self, earlier: str = "") -> Header:
        """The head of its thread document."""
        return Header(self.peer, self.topic, self.branch, self.at, self.head, self.signature, earlier)


class RefusedArrival(NamedTuple):
    """A head that was not let in, and why, in words."""

    key: ThreadKey
    head: Oid
    text: str
    remedy: str
