"""What can be asked of Agency, and by whom. Tools, the command line and tests build these; none of them decides."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple, TypeAlias

from cn.agency.names import SYSTEM, Actor, Party, Uuid, parse_uuid


class ByHandler(NamedTuple):
    """An agent of a handler in one of its tenures; ``agent`` is its UUID, or ``user:<name>`` who acts for it."""

    handler: Uuid
    tenure: int
    agent: str


class ByUser(NamedTuple):
    """A person to whom all of it belongs."""

    name: str


class BySystem(NamedTuple):
    """Agency itself: its timers and its spawner."""


Principal: TypeAlias = ByHandler | ByUser | BySystem


def actor_of(principal: Principal) -> Actor:
    """As whom events name it."""
    match principal:
        case ByHandler(handler, _, agent):
            return Actor(f"{handler}/{agent}")
        case ByUser(name):
            return Actor(f"user:{name}")
        case BySystem():
            return SYSTEM


def tenure_of(principal: Principal) -> int:
    """In which tenure events name it; 0 for who is no handler."""
    return principal.tenure if isinstance(principal, ByHandler) else 0


def party_of(principal: Principal) -> tuple[Party, int]:
    """As whom it owns, grants and sends, with its tenure; 0 for a user. Agency itself does none of these."""
    match principal:
        case ByHandler(handler, tenure):
            return Party(handler), tenure
        case ByUser(name):
            return Party(f"user:{name}"), 0
        case BySystem():
            raise ValueError("Agency itself is no party")


class Limits(NamedTuple):
    """How much there may be; they refuse what adds, never what ends something or delivers.

    ``unread``: messages of one handler that wait for one addressee, deferred ones among them. ``megabytes``: of files,
    what one handler writes within an hour.
    """

    depth: int = 8
    underlings: int = 50
    open_outcomes: int = 1000
    agents: int = 4
    unread: int = 50
    megabytes: int = 256


class Moment(NamedTuple):
    """When a plan is made, by the clock, and 16 random bytes for its ids: planned again, they are the same.

    ``room``: the bytes that may be written still, so that there is some left to end things; None: any number.
    """

    now: datetime
    entropy: bytes
    limits: Limits = Limits()
    room: int | None = None

    def uuid(self, *words: object) -> Uuid:
        """The id of what the words describe, which have to be different for each within an operation."""
        data = self.entropy + "\0".join(map(str, words)).encode("utf-8", "surrogatepass")
        digits = list(hashlib.sha256(data).hexdigest()[:32])
        digits[12], digits[16] = "4", "89ab"[int(digits[16], 16) % 4]
        text = "".join(digits)
        return parse_uuid("-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])))


class Wanted(NamedTuple):
    """A capability to be granted; ``scope`` is the outcome with which it ends, by default the holder's root."""

    resource: str
    level: str
    scope: Uuid | None = None


class Seen(NamedTuple):
    """The version that the caller last saw, which it overwrites: its number, and the SHA-256 of its content."""

    version: int
    hash: str


@dataclass(frozen=True)
class FoundAgency:
    """Begin: a root outcome that is never completed, and its handler."""

    title: str
    text: str = ""
    runner: str = ""


@dataclass(frozen=True)
class CreateOutcome:
    """A new outcome below those that it helps to accomplish."""

    title: str
    text: str
    parents: tuple[Uuid, ...]


@dataclass(frozen=True)
class UpdateOutcome:
    """Other words, or other parents; None leaves title or text as it is. ``seen`` is needed for words."""

    outcome: Uuid
    title: str | None = None
    text: str | None = None
    seen: Seen | None = None
    link: tuple[Uuid, ...] = ()
    unlink: tuple[Uuid, ...] = ()


@dataclass(frozen=True)
class BlockOutcome:
    """Nothing can be done about it now; without a reason, something can again."""

    outcome: Uuid
    reason: str
    until: datetime | None = None


@dataclass(frozen=True)
class CompleteOutcome:
    """It is accomplished; ``cascade`` closes what was only for it."""

    outcome: Uuid
    rationale: str = ""
    cascade: bool = False


@dataclass(frozen=True)
class CloseOutcome:
    """It is given up, for a reason; ``cascade`` closes what was only for it."""

    outcome: Uuid
    rationale: str
    cascade: bool = False


@dataclass(frozen=True)
class Delegate:
    """Give an outcome a handler of its own, with capabilities, and with a first message where ``message`` is given."""

    outcome: Uuid
    runner: str = ""
    grants: tuple[Wanted, ...] = ()
    message: str = ""


@dataclass(frozen=True)
class StopHandler:
    """End a handler and all below it; its open outcomes are its boss's again."""

    handler: Uuid


@dataclass(frozen=True)
class RemoveHandler:
    """Take a layer out: what it had is its boss's, who is below it stays."""

    handler: Uuid


@dataclass(frozen=True)
class MoveHandler:
    """Another boss. ``below`` is the outcome of the new boss that the handler now serves, by default its root."""

    handler: Uuid
    boss: Party
    below: Uuid | None = None


@dataclass(frozen=True)
class GrantAccess:
    """Let an underling do what the caller may do itself."""

    holder: Uuid
    wanted: Wanted


@dataclass(frozen=True)
class RevokeAccess:
    """Take a capability back."""

    grant: Uuid


@dataclass(frozen=True)
class CreateFile:
    """A new file, owned by the caller."""

    description: str
    content: bytes


@dataclass(frozen=True)
class WriteFile:
    """A new version of a file in place of the one that was seen; None where there is none yet."""

    file: Uuid
    content: bytes
    seen: Seen | None = None


@dataclass(frozen=True)
class ReadFile:
    """A file's content, at its latest version or at one of those before."""

    file: Uuid
    version: int | None = None


@dataclass(frozen=True)
class SendMail:
    """Deliver a file, or a text as a new one described by ``subject``; where ``due`` is given, not before."""

    to: Party
    file: Uuid | None = None
    subject: str = ""
    text: str = ""
    due: datetime | None = None


@dataclass(frozen=True)
class FinishMail:
    """These messages have been dealt with."""

    mail: tuple[Uuid, ...]


@dataclass(frozen=True)
class TakeBackMail:
    """Do not deliver these messages, which wait for their time."""

    mail: tuple[Uuid, ...]


@dataclass(frozen=True)
class DeliverDue:
    """Deliver a message whose time has come."""

    mail: Uuid


@dataclass(frozen=True)
class SubmitAudit:
    """What the caller has to say of its work."""

    text: str


@dataclass(frozen=True)
class UseResource:
    """Tell of what the caller sets out to do with a capability beyond Agency; who may not is refused."""

    resource: str
    level: str
    what: str


@dataclass(frozen=True)
class LeaseAgent:
    """Let an instance work for a handler; ``token`` is the SHA-256 of what it will prove itself with."""

    agent: Uuid
    handler: Uuid
    token: str


@dataclass(frozen=True)
class EndAgent:
    """An instance is no more. ``message`` is what its handler's boss has to know of it, empty for nothing.

    ``subject`` is that of the message, else ``why``.
    """

    agent: Uuid
    why: str
    message: str = ""
    subject: str = ""


Operation: TypeAlias = (
    FoundAgency
    | CreateOutcome
    | UpdateOutcome
    | BlockOutcome
    | CompleteOutcome
    | CloseOutcome
    | Delegate
    | StopHandler
    | RemoveHandler
    | MoveHandler
    | GrantAccess
    | RevokeAccess
    | CreateFile
    | WriteFile
    | ReadFile
    | SendMail
    | FinishMail
    | TakeBackMail
    | DeliverDue
    | SubmitAudit
    | UseResource
    | LeaseAgent
    | EndAgent
)
"""What changes the state, be it only that a reading is told. What only looks is in :mod:`cn.agency.plan.views`."""

TOLD: Final = (ReadFile, UseResource)
"""Operations that are told and change nothing: a repeated request is no answer to them, but is asked and told anew."""


def subject_of(operation: Operation) -> dict[str, Uuid]:
    """What the operation is about, as its answer names it; empty where that is made by it."""
    match operation:
        case UpdateOutcome() | BlockOutcome() | CompleteOutcome() | CloseOutcome():
            return {"outcome": operation.outcome}
        case Delegate():
            return {"handler": operation.outcome}
        case StopHandler() | RemoveHandler() | MoveHandler():
            return {"handler": operation.handler}
        case WriteFile() | ReadFile():
            return {"file": operation.file}
        case LeaseAgent() | EndAgent():
            return {"agent": operation.agent}
        case _:
            return {}


def answer_to(operation: Operation, made: Mapping[str, object]) -> dict[str, object]:
    """The answer to an operation, of what its changes ``made``: about its own subject, whatever else ended or moved
    with that. The one place where an answer is given its shape, also where it is told again.
    """
    subject = subject_of(operation)
    return {key: value for key, value in made.items() if key != "agent"} | subject
