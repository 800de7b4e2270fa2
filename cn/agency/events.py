"""What happened, as lines of a commit's message (``docs/protocol/agency.md``, "Events").

An event says what became of what: which outcomes passed to whom, which handlers ended. Why, and
whether it was allowed, was decided before by :mod:`cn.agency.plan`; reading events decides nothing.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias, get_args

from cn.agency import names
from cn.agency.names import (
    FILE_KINDS,
    Actor,
    NameRefused,
    Party,
    Uuid,
    parse_actor,
    parse_party,
    parse_resource,
    parse_uuid,
)
from cn.values.errors import CnError
from cn.values.text import is_plain, is_text, one_line
from cn.values.timestamps import StampRefused, format_second, parse_stamp

STOPPED: Final = "stopped"
REMOVED: Final = "removed"
FULFILLED: Final = "completed"
ABANDONED: Final = "closed"
ENDS: Final = (STOPPED, REMOVED, FULFILLED, ABANDONED)
MOST_REQUEST: Final = 200
"""Characters of a request's name at most."""


class EventRefused(CnError):
    """A message, or a line of one, that is no event."""


@dataclass(frozen=True)
class Founded:
    """Agency begins: the root outcome with its handler, whose boss is a user."""

    root: Uuid
    title: str
    text: str
    user: Party
    runner: str
    state: Uuid
    audit: Uuid
    hash: str
    size: int


@dataclass(frozen=True)
class OutcomeCreated:
    """A new outcome below its parents; ``inbox``: Agency's own, for a handler to read its mail."""

    outcome: Uuid
    title: str
    text: str
    responsible: Uuid
    parents: tuple[Uuid, ...]
    hash: str
    size: int
    inbox: bool = False


@dataclass(frozen=True)
class OutcomeUpdated:
    """Its title and text are now these."""

    outcome: Uuid
    title: str
    text: str
    version: int
    hash: str
    size: int


@dataclass(frozen=True)
class OutcomeLinked:
    """It is now also a way to accomplish another."""

    child: Uuid
    parent: Uuid


@dataclass(frozen=True)
class OutcomeUnlinked:
    """It is no longer a way to accomplish that one."""

    child: Uuid
    parent: Uuid


@dataclass(frozen=True)
class OutcomeBlocked:
    """Nothing can be done about it, until a time where one is given."""

    outcome: Uuid
    reason: str
    until: datetime | None = None


@dataclass(frozen=True)
class OutcomeUnblocked:
    """Something can be done about it again."""

    outcome: Uuid


@dataclass(frozen=True)
class OutcomeCompleted:
    """It is accomplished."""

    outcome: Uuid
    rationale: str
    version: int
    hash: str
    size: int


@dataclass(frozen=True)
class OutcomeClosed:
    """It is given up, and why."""

    outcome: Uuid
    rationale: str
    version: int
    hash: str
    size: int


@dataclass(frozen=True)
class OutcomesPassed:
    """Another handler is responsible for them."""

    to: Uuid
    outcomes: tuple[Uuid, ...]


@dataclass(frozen=True)
class Delegated:
    """An outcome has a handler of its own, in its ``number``-th tenure; what passes to it follows."""

    handler: Uuid
    number: int
    parent: Uuid
    boss: Party
    runner: str
    state: Uuid
    audit: Uuid


@dataclass(frozen=True)
class HandlerEnded:
    """A tenure is over. The heir owns the files that the handler owned."""

    handler: Uuid
    number: int
    how: str
    heir: Uuid


@dataclass(frozen=True)
class HandlerMoved:
    """It stands below another handler, or has another boss. The root handler stands below none (``parent``)."""

    handler: Uuid
    parent: Uuid | None
    boss: Party


@dataclass(frozen=True)
class Granted:
    """A capability."""

    id: Uuid
    holder: Uuid
    holder_tenure: int
    grantor: Party
    grantor_tenure: int
    resource: str
    level: str
    scope: Uuid


@dataclass(frozen=True)
class Revoked:
    """A capability is taken back."""

    id: Uuid


@dataclass(frozen=True)
class GrantsPassed:
    """Another handler stands for capabilities that one granted who is no more."""

    to: Uuid
    grants: tuple[Uuid, ...]


@dataclass(frozen=True)
class FileCreated:
    """A new file; ``links`` are the files that it names."""

    file: Uuid
    kind: str
    description: str
    owner: Party
    owner_tenure: int
    hash: str
    size: int
    links: tuple[Uuid, ...]


@dataclass(frozen=True)
class FileWritten:
    """A new version of a file."""

    file: Uuid
    version: int
    hash: str
    size: int
    links: tuple[Uuid, ...]


@dataclass(frozen=True)
class FileRead:
    """Somebody got its content."""

    file: Uuid
    version: int


@dataclass(frozen=True)
class MailDelivered:
    """A message is in somebody's inbox; a deferred one has the id that it had.

    ``version`` of its file is what was sent; 0, in old records: the one of then. ``letter``: by Agency itself, about
    the sender's work.
    """

    mail: Uuid
    file: Uuid
    sender: Party
    sender_tenure: int
    to: Party
    to_tenure: int
    note: str = ""
    version: int = 0
    letter: bool = False


@dataclass(frozen=True)
class MailDeferred:
    """A message waits to be delivered; ``version`` as in :class:`MailDelivered`."""

    mail: Uuid
    file: Uuid
    sender: Party
    sender_tenure: int
    to: Party
    to_tenure: int
    due: datetime
    version: int = 0


@dataclass(frozen=True)
class MailTakenBack:
    """Messages that waited to be delivered are not delivered."""

    mail: tuple[Uuid, ...]


@dataclass(frozen=True)
class MailPassed:
    """Messages that nobody had dealt with are in another inbox."""

    to: Party
    mail: tuple[Uuid, ...]


@dataclass(frozen=True)
class MailDone:
    """Its addressee has dealt with it."""

    mail: tuple[Uuid, ...]


@dataclass(frozen=True)
class AgentLeased:
    """An instance may work for a handler; ``token`` is the SHA-256 of what it proves itself with."""

    agent: Uuid
    handler: Uuid
    handler_tenure: int
    token: str


@dataclass(frozen=True)
class AgentEnded:
    """An instance is no more, and why."""

    agent: Uuid
    why: str


@dataclass(frozen=True)
class AuditSubmitted:
    """What an agent says of its work."""

    handler: Uuid
    text: str


@dataclass(frozen=True)
class ResourceUsed:
    """Somebody sets out to do something beyond Agency: call a tool of another server, clone, push. Told before it."""

    resource: str
    level: str
    what: str


Change: TypeAlias = (
    Founded
    | OutcomeCreated
    | OutcomeUpdated
    | OutcomeLinked
    | OutcomeUnlinked
    | OutcomeBlocked
    | OutcomeUnblocked
    | OutcomeCompleted
    | OutcomeClosed
    | OutcomesPassed
    | Delegated
    | HandlerEnded
    | HandlerMoved
    | Granted
    | Revoked
    | GrantsPassed
    | FileCreated
    | FileWritten
    | FileRead
    | MailDelivered
    | MailDeferred
    | MailTakenBack
    | MailPassed
    | MailDone
    | AgentLeased
    | AgentEnded
    | AuditSubmitted
    | ResourceUsed
)


class Event(NamedTuple):
    """A change with who made it, when, and what allowed it.

    ``seq`` counts from 1 without a gap. ``time`` has whole seconds, UTC. ``tenure`` is that of the
    handler who acted (0: none did), ``grant`` the capability under which it was allowed where structure alone
    did not. ``request_id`` is the caller's name for the operation, ``digest`` that of its arguments.
    """

    seq: int
    time: datetime
    actor: Actor
    change: Change
    tenure: int = 0
    grant: Uuid | None = None
    request_id: str = ""
    digest: str = ""


def _type_name(kind: type) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in kind.__name__).lstrip("_")


TYPES: Mapping[str, type[Change]] = {_type_name(kind): kind for kind in get_args(Change)}
"""Name of a type as it is written → its class."""
_NAMES = {kind: name for name, kind in TYPES.items()}


def type_of(change: Change) -> str:
    """The name of its type: ``outcome_created``."""
    return _NAMES[type(change)]


def format_event(event: Event) -> str:
    """One line of JSON. Fields that have their default are left out; hidden characters are escapes."""
    change = event.change
    head: dict[str, object] = {"seq": event.seq, "time": format_second(event.time), "actor": event.actor}
    head |= {name: value for name in _OPTIONAL if (value := getattr(event, name))}
    return escape(_ENCODER.encode(head | plain_of(change)))


def plain_of(change: Change) -> dict[str, object]:
    """Its type and its fields, as an event has them."""
    values = ((part, getattr(change, part.name)) for part in fields(change))
    body = {part.name: _plain(value) for part, value in values if value != part.default}
    return {"type": type_of(change), **body}


def _plain(value: object) -> object:
    return format_second(value) if isinstance(value, datetime) else value


def escape(line: str) -> str:
    """JSON with what would not be shown as escapes."""
    if line.isprintable():
        return line
    units = ((c, c.encode("utf-16-be")) for c in line)
    return "".join(
        c if c.isprintable() else "".join(f"\\u{u[i]:02x}{u[i + 1]:02x}" for i in range(0, len(u), 2)) for c, u in units
    )


def parse_event(line: str) -> Event:
    """The inverse of :func:`format_event`; raises :class:`EventRefused` for what is unknown, missing or malformed."""
    try:
        found = _DECODER.decode(line)
        if not isinstance(found, dict):
            raise ValueError("it is no object")
        kind = TYPES.get(str(found.pop("type", "")))
        if kind is None:
            raise ValueError("its type is not known here")
        head = {name: read(found.pop(name)) for name, read in _ENVELOPE.items()}
        head |= {name: read(found.pop(name)) for name, read in _OPTIONAL.items() if name in found}
        return Event(change=_read_change(kind, found), **head)  # type: ignore[arg-type]
    except KeyError as error:
        raise EventRefused(f"an event lacks {error.args[0]!r}", _REMEDY) from None
    except (ValueError, RecursionError, NameRefused, StampRefused) as error:
        raise EventRefused(f"it is no event: {one_line(str(error), 120)}", _REMEDY) from None


_REMEDY = "restore the repository from a copy; cn writes no such line"


def _read_change(kind: type[Change], found: dict[str, object]) -> Change:
    given: dict[str, Any] = {}
    for name, needed, read in _PARTS[kind]:
        if needed or name in found:
            given[name] = read(found.pop(name))
    if found:
        raise ValueError(f"{_NAMES[kind]} has no field {next(iter(found))!r}")
    return kind(**given)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field is given twice")
    return found


def _no_constant(text: str) -> object:
    raise ValueError(f"{text} is no number")


def _text(value: object) -> str:
    if not isinstance(value, str) or not (value.isascii() or is_text(value)):
        raise ValueError("a text is expected")
    return value


def _short_text(value: object) -> str:
    text = _text(value)
    if not is_request_id(text):
        raise ValueError(f"a plain text of at most {MOST_REQUEST} characters is expected")
    return text


def is_request_id(text: str) -> bool:
    """Can a caller name a request so: plain, on one line, not too long?"""
    return 0 < len(text) <= MOST_REQUEST and is_plain(text)


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise ValueError("a whole number from 0 is expected")
    return value


def _number(value: object) -> int:
    if not (number := _count(value)):
        raise ValueError("a whole number from 1 is expected")
    return number


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false is expected")
    return value


def _hex(value: object, size: int) -> str:
    text = _text(value)
    if len(text) != size or set(text) - set("0123456789abcdef"):
        raise ValueError(f"{size} hexadecimal digits are expected")
    return text


def _uuids(value: object) -> tuple[Uuid, ...]:
    if not isinstance(value, list):
        raise ValueError("a list is expected")
    return tuple(parse_uuid(_text(one)) for one in value)


def _one_of(*words: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in words:
            raise ValueError(f"one of {', '.join(words)} is expected")
        return str(value)

    return read


def _party(value: object) -> Party:
    return parse_party(_text(value))


def _user(value: object) -> Party:
    if not names.is_user(party := _party(value)):
        raise ValueError("a user is expected")
    return party


def _time(value: object) -> datetime:
    return parse_stamp(_text(value))


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant)
_ENVELOPE: Mapping[str, Callable[[object], object]] = {
    "seq": _number,
    "time": _time,
    "actor": lambda value: parse_actor(_text(value)),
}
_OPTIONAL: Mapping[str, Callable[[object], object]] = {
    "tenure": _number,
    "grant": lambda value: parse_uuid(_text(value)),
    "request_id": _short_text,
    "digest": lambda value: _hex(value, 16),
}
_BY_NAME: Mapping[str, Callable[[object], object]] = {
    "hash": lambda value: _hex(value, 64),
    "token": lambda value: _hex(value, 64),
    "number": _number,
    "version": _number,
    "how": _one_of(*ENDS),
    "kind": _one_of(*FILE_KINDS),
    "resource": lambda value: str(parse_resource(_text(value))),
}
_READERS: Mapping[str, Callable[[object], object]] = {"Founded.user": _user}
_BY_TYPE: Mapping[str, Callable[[object], object]] = {
    "str": _text,
    "int": _count,
    "bool": _truth,
    "Uuid": lambda value: parse_uuid(_text(value)),
    "Uuid | None": lambda value: None if value is None else parse_uuid(_text(value)),
    "Party": _party,
    "datetime": _time,
    "datetime | None": _time,
    "tuple[Uuid, ...]": _uuids,
}


def _reader(kind: type[Change], part: Any) -> Callable[[object], object]:
    return _READERS.get(f"{kind.__name__}.{part.name}") or _BY_NAME.get(part.name) or _BY_TYPE[str(part.type)]


_PARTS: Mapping[type[Change], tuple[tuple[str, bool, Callable[[object], object]], ...]] = {
    kind: tuple((part.name, part.default is MISSING, _reader(kind, part)) for part in fields(kind))
    for kind in TYPES.values()
}
"""Class → for each field its name, whether it has to be there, and how it is read."""
_SUBJECTS: Mapping[type[Change], tuple[str, ...]] = {
    kind: tuple(name for name, _, _ in parts if name not in ("links", "owner")) for kind, parts in _PARTS.items()
}


def format_message(subject: str, events: Iterable[Event]) -> str:
    """A commit's message: a subject for people, an empty line, a line for each event."""
    return "\n".join([one_line(subject, 120), "", *map(format_event, events), ""])


def parse_message(message: str) -> tuple[Event, ...]:
    """The events of a commit's message, at least one; an error names the line, counted from 1."""
    subject, *rest = message.removesuffix("\n").split("\n")
    if not subject or len(rest) < 2 or rest[0]:
        raise EventRefused("a message has a subject, an empty line, and events", _REMEDY)
    return tuple(_numbered(line, number) for number, line in enumerate(rest[1:], 3))


def _numbered(line: str, number: int) -> Event:
    try:
        return parse_event(line)
    except EventRefused as refused:
        raise EventRefused(f"line {number}: {refused.text}", refused.hint) from None


def subjects_of(change: Change) -> tuple[str, ...]:
    """The outcomes, files, handlers, grants and messages in whose history the change belongs, each once."""
    found: list[str] = []
    for name in _SUBJECTS[type(change)]:
        value = getattr(change, name)
        found += value if isinstance(value, tuple) else [value] if isinstance(value, str) else []
    return tuple(dict.fromkeys(one for one in found if names.is_uuid(one)))


def answer_of(changes: Iterable[Change]) -> dict[str, object]:
    """What the caller of an operation is told, from its changes alone: so that it can be told again."""
    return functools.reduce(extend_answer, changes, {})


def extend_answer(answer: dict[str, object], change: Change) -> dict[str, object]:
    """The answer with one more change; what was changed first stays its subject."""
    match change:
        case Founded():
            return {"outcome": change.root, "version": 1, "hash": change.hash}
        case OutcomeLinked(outcome) | OutcomeUnlinked(outcome) | OutcomeBlocked(outcome) | OutcomeUnblocked(outcome):
            return {"outcome": outcome} | answer
        case OutcomeCreated(inbox=False) | OutcomeUpdated() | OutcomeCompleted() | OutcomeClosed():
            version = 1 if isinstance(change, OutcomeCreated) else change.version
            return {"outcome": change.outcome, "version": version, "hash": change.hash} | answer
        case Delegated() | HandlerEnded() | HandlerMoved():
            return {"handler": change.handler} | answer
        case FileCreated() | FileWritten():
            version = 1 if isinstance(change, FileCreated) else change.version
            return {"file": change.file, "version": version, "hash": change.hash} | answer
        case FileRead():
            return {"file": change.file, "version": change.version} | answer
        case Granted() | Revoked():
            return answer | {"grants": [*_listed(answer, "grants"), change.id]}
        case MailDelivered() | MailDeferred():
            return answer | {"mail": [*_listed(answer, "mail"), change.mail]}
        case MailDone(mail) | MailTakenBack(mail):
            return answer | {"mail": [*_listed(answer, "mail"), *mail]}
        case AgentLeased() | AgentEnded():
            return {"agent": change.agent} | answer
        case _:
            return answer


def _listed(answer: Mapping[str, object], name: str) -> list[object]:
    value = answer.get(name, [])
    return value if isinstance(value, list) else []


def subject_of(changes: Sequence[Change]) -> str:
    """What a commit's subject says of an operation: its first change, and how many more."""
    first, more = changes[0], f" (+{len(changes) - 1})" if len(changes) > 1 else ""
    about = next(str(getattr(first, part.name)) for part in fields(first))
    title = getattr(first, "title", "") or getattr(first, "description", "")
    return f"{type_of(first)} {about[:8] if names.is_uuid(about) else ''} {title}".strip() + more
