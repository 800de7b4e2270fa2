"""The rows of Agency's state, and what may be asked of them.

A row is a flat named tuple of text, whole numbers, truth values and times; its first :data:`KEYS` fields are its key.
Whoever plans sees :class:`Facts`; :mod:`cn.agency.apply` alone changes :class:`Rows`. Every question is by a
key, or by what an index can have; none reads all rows of a kind.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from cn.agency.events import Event
from cn.agency.names import OPEN, Actor, Party, Uuid


class Head(NamedTuple):
    """How far the state has come: the last event's number and time, and the root handler. There is one."""

    seq: int
    time: datetime
    root: Uuid


class Outcome(NamedTuple):
    """A piece of work. ``tenure`` is that of ``responsible`` in which it became its.

    ``blocked`` is the reason, empty where it is not blocked; ``inbox`` marks the one of Agency's own that waits
    for a handler to read its mail; ``since`` is the number of the event that made it.
    """

    id: Uuid
    title: str
    text: str
    status: str
    responsible: Uuid
    tenure: int
    rationale: str
    blocked: str
    until: datetime | None
    inbox: bool
    since: int

    @property
    def is_open(self) -> bool:
        """Is there still something to do?"""
        return self.status == OPEN


class Link(NamedTuple):
    """``child`` is one way to accomplish ``parent``."""

    child: Uuid
    parent: Uuid


class Handler(NamedTuple):
    """Who is responsible for an outcome that was delegated, in its latest tenure.

    ``parent`` is the handler above it, empty for the root handler. ``boss`` commands it and gets its mail: the
    same handler, or a user. ``state`` and ``audit`` are files that stay through all tenures. ``runner`` names
    what works for it, empty for the default.
    """

    id: Uuid
    tenure: int
    active: bool
    parent: Uuid | None
    boss: Party
    runner: str
    state: Uuid
    audit: Uuid


class Tenure(NamedTuple):
    """One delegation of one outcome. Once ended, ``heir`` in ``heir_tenure`` has what it left behind."""

    handler: Uuid
    number: int
    started: datetime
    ended: datetime | None
    how: str
    heir: Uuid | None
    heir_tenure: int


class Grant(NamedTuple):
    """What ``grantor`` lets ``holder`` do while ``scope`` is open. The tenure of a user is 0.

    ``seq`` is the number of its event: a grant stands only on what is older than itself.
    """

    id: Uuid
    seq: int
    holder: Uuid
    holder_tenure: int
    grantor: Party
    grantor_tenure: int
    resource: str
    level: str
    scope: Uuid
    time: datetime


class Capability(NamedTuple):
    """A grant with what tells whether it holds: is its outcome open, and is its grantor still in the tenure in which it
    granted it? Of a user ``current`` says nothing.
    """

    grant: Grant
    in_scope: bool
    current: bool


class File(NamedTuple):
    """A file of the knowledge base at its latest version.

    ``owner`` in ``owner_tenure`` made it (0: a user); who owns it now is asked of the tenures. ``kind`` is one of
    :data:`cn.agency.names.FILE_KINDS`; ``since`` is the number of the event that made it.
    """

    id: Uuid
    kind: str
    description: str
    owner: Party
    owner_tenure: int
    version: int
    hash: str
    size: int
    since: int


class Version(NamedTuple):
    """One version of a file: its number from 1, the SHA-256 and size in bytes of its content."""

    file: Uuid
    number: int
    hash: str
    size: int
    time: datetime
    actor: Actor


class Reference(NamedTuple):
    """The latest version of ``source`` names ``target`` as ``kb://UUID``."""

    source: Uuid
    target: Uuid


class Mail(NamedTuple):
    """A message that was delivered; ``pending`` until its addressee says that it is done.

    ``version`` of the file is what was sent, whatever is written to it later. ``letter``: Agency itself wrote it, about
    the work of ``sender``.
    """

    id: Uuid
    file: Uuid
    sender: Party
    sender_tenure: int
    to: Party
    to_tenure: int
    time: datetime
    seq: int
    note: str
    pending: bool
    version: int
    letter: bool


class Deferred(NamedTuple):
    """A message to be delivered when it is ``due``: this ``version`` of its file."""

    id: Uuid
    file: Uuid
    sender: Party
    sender_tenure: int
    to: Party
    to_tenure: int
    due: datetime
    version: int


class Agent(NamedTuple):
    """One instance that works for a handler; ``token`` is the SHA-256 of what it proves itself with."""

    id: Uuid
    handler: Uuid
    tenure: int
    token: str
    started: datetime
    live: bool


class AuditEntry(NamedTuple):
    """What an agent said of its work."""

    handler: Uuid
    seq: int
    actor: Actor
    time: datetime
    text: str


LINK_BYTES: Final = 1024
"""What each file that a version names counts beside the bytes: about what it takes in the index and on pages."""


class Written(NamedTuple):
    """What a handler's agents wrote in a minute since 1970, ``counted`` in bytes, links with it (:data:`LINK_BYTES`). A
    handler has a row for each slot, in which a later minute takes the place of one that nobody asks for any more.
    """

    handler: Uuid
    slot: int
    minute: int
    counted: int


def minute_of(at: datetime) -> int:
    """The minute of :class:`Written`."""
    return int(at.timestamp()) // 60


class Request(NamedTuple):
    """An operation that was done: the same ``id`` of the same actor, in the same tenure, gets its answer again.

    ``digest`` is of its arguments, ``answer`` a JSON object. The tenure of who is no handler is 0.
    """

    actor: Actor
    id: str
    tenure: int
    digest: str
    answer: str


Row: TypeAlias = (
    Head
    | Outcome
    | Link
    | Handler
    | Tenure
    | Grant
    | File
    | Version
    | Reference
    | Mail
    | Deferred
    | Agent
    | AuditEntry
    | Written
    | Request
)

KEYS: Mapping[type[Row], int] = {
    Head: 0,
    Outcome: 1,
    Link: 2,
    Handler: 1,
    Tenure: 2,
    Grant: 1,
    File: 1,
    Version: 2,
    Reference: 2,
    Mail: 1,
    Deferred: 1,
    Agent: 1,
    AuditEntry: 2,
    Written: 2,
    Request: 2,
}
"""How many leading fields are the key; of a kind with 0 there is one row."""


RowOf = TypeVar("RowOf", bound=Row)


class Facts(Protocol):
    """What is known. An id that is not there gives None, or an empty sequence."""

    def get(self, kind: type[RowOf], *key: Hashable) -> RowOf | None:
        """The row of a kind that has this key (:data:`KEYS`)."""

    def head(self) -> Head | None:
        """How far the state has come; None before the first event."""
        return self.get(Head)

    def outcome(self, id: Uuid) -> Outcome | None:
        """By its id."""
        return self.get(Outcome, id)

    def handler(self, id: Uuid) -> Handler | None:
        """By its id, active or not."""
        return self.get(Handler, id)

    def tenure(self, handler: Uuid, number: int) -> Tenure | None:
        """One delegation."""
        return self.get(Tenure, handler, number)

    def grant(self, id: Uuid) -> Grant | None:
        """By its id; a revoked one is not there."""
        return self.get(Grant, id)

    def file(self, id: Uuid) -> File | None:
        """By its id, an outcome's too."""
        return self.get(File, id)

    def version(self, file: Uuid, number: int) -> Version | None:
        """One version."""
        return self.get(Version, file, number)

    def mail(self, id: Uuid) -> Mail | None:
        """By its id, done or not."""
        return self.get(Mail, id)

    def deferred(self, id: Uuid) -> Deferred | None:
        """By its id; a delivered one is not there."""
        return self.get(Deferred, id)

    def agent(self, id: Uuid) -> Agent | None:
        """By its id, live or not."""
        return self.get(Agent, id)

    def request(self, actor: Actor, id: str) -> Request | None:
        """An operation done before."""
        return self.get(Request, actor, id)

    def children(self, outcome: Uuid) -> Sequence[Uuid]:
        """In the order in which they were linked, ended ones too."""

    def parents(self, outcome: Uuid) -> Sequence[Uuid]:
        """In the order in which they were linked, ended ones too."""

    def has_open_child(self, outcome: Uuid) -> bool:
        """Is there a child with something to do?"""

    def open_outcomes(self, handler: Uuid) -> Sequence[Uuid]:
        """Those for which it is responsible, oldest first, without the one for its mail."""

    def count_open(self, handler: Uuid) -> int:
        """How many :meth:`open_outcomes` has."""

    def open_inbox(self, handler: Uuid) -> Uuid | None:
        """Its open outcome of Agency's own, for its mail."""

    def underlings(self, handler: Uuid) -> Sequence[Uuid]:
        """The active handlers right below it."""

    def capabilities(self, holder: Uuid, tenure: int, resource: str) -> Sequence[Capability]:
        """All that its access to one resource may stand on: what it was granted, and on what that may stand, so what
        each grantor was granted before; in no order.
        """

    def grants_of(self, holder: Uuid, tenure: int) -> Sequence[Grant]:
        """All that it was granted, oldest first."""

    def grants_by(self, grantor: Party, tenure: int) -> Sequence[Grant]:
        """All that it granted, oldest first."""

    def versions(self, file: Uuid) -> Sequence[Version]:
        """All, oldest first."""

    def files_of(self, owner: Party, tenure: int) -> Sequence[File]:
        """What it made in that tenure, oldest first."""

    def written(self, handler: Uuid, since: datetime) -> int:
        """The bytes of all versions, with their links, and audit entries that agents of this handler wrote later than
        this, to the minute; of the last hour at most.
        """

    def left_to(self, heir: Uuid, tenure: int) -> Sequence[Tenure]:
        """The ended tenures whose heir it is."""

    def files_like(self, words: str, after: int, limit: int) -> Sequence[File]:
        """Files whose description has all of these words, in any case, made after event ``after``; oldest first."""

    def references(self, source: Uuid) -> Sequence[Uuid]:
        """What its latest version names."""

    def referenced_by(self, target: Uuid) -> Sequence[Uuid]:
        """Whose latest version names it."""

    def mail_with(self, file: Uuid) -> Sequence[Mail]:
        """The messages by which it was delivered, oldest first."""

    def mail_to(self, party: Party, tenure: int) -> Sequence[Mail]:
        """All that was delivered to it in that tenure, oldest first."""

    def pending(self, party: Party) -> Sequence[Mail]:
        """Its messages that are not done, oldest first."""

    def deferred_by(self, sender: Party) -> Sequence[Deferred]:
        """What it sent that waits to be delivered, in whatever tenure, the earliest first."""

    def due(self, now: datetime, limit: int) -> Sequence[Deferred]:
        """What is to be delivered by now, the earliest first."""

    def live_agent(self, handler: Uuid) -> Agent | None:
        """The instance that works for it."""

    def agent_of(self, token: str) -> Agent | None:
        """The live instance with this SHA-256 of a token."""

    def count_live(self) -> int:
        """How many agents live."""

    def audit(self, handler: Uuid, before: int, limit: int) -> Sequence[AuditEntry]:
        """The last ``limit`` entries before event ``before``, oldest first."""

    def history(self, subject: str, before: int, limit: int) -> Sequence[Event]:
        """The last ``limit`` events before number ``before`` that name an outcome, file, handler …, oldest first."""

    def find(self, prefix: str, limit: int) -> Sequence[Uuid]:
        """Outcomes and files, and so handlers, whose UUID begins so."""


class Rows(Facts, Protocol):
    """The state itself."""

    def put(self, row: Row) -> None:
        """Add a row, or put it in place of the one with its key."""

    def drop(self, row: Row) -> None:
        """Take away the row with its key; one that is not there is an error of the caller."""

    def record(self, event: Event, subjects: Sequence[str]) -> None:
        """Keep an event for :meth:`Facts.history` of its subjects."""
