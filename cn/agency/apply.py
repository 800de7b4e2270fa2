"""What an event makes of the state: the state after n events follows from them alone.

An event was allowed when it was written, so nothing is judged here; one that does not fit the
state (a gap in the numbers, an outcome that nobody made) is :class:`EventRefused`.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TypeVar, assert_never

from cn.agency.events import (
    AgentEnded,
    AgentLeased,
    AuditSubmitted,
    Delegated,
    Event,
    EventRefused,
    FileCreated,
    FileRead,
    FileWritten,
    Founded,
    Granted,
    GrantsPassed,
    HandlerEnded,
    HandlerMoved,
    MailDeferred,
    MailDelivered,
    MailDone,
    MailPassed,
    MailTakenBack,
    OutcomeBlocked,
    OutcomeClosed,
    OutcomeCompleted,
    OutcomeCreated,
    OutcomeLinked,
    OutcomesPassed,
    OutcomeUnblocked,
    OutcomeUnlinked,
    OutcomeUpdated,
    ResourceUsed,
    Revoked,
    extend_answer,
    subjects_of,
    type_of,
)
from cn.agency.names import (
    AUDIT,
    CLOSED,
    COMPLETED,
    NO_ID,
    OPEN,
    OUTCOME,
    STATE,
    SYSTEM,
    Party,
    Uuid,
    is_user,
    links_in,
)
from cn.agency.rows import (
    LINK_BYTES,
    Agent,
    AuditEntry,
    Deferred,
    File,
    Grant,
    Handler,
    Head,
    Link,
    Mail,
    Outcome,
    Reference,
    Request,
    Row,
    Rows,
    Tenure,
    Version,
    Written,
    minute_of,
)

R = TypeVar("R", bound=Row)


def apply(rows: Rows, event: Event) -> None:
    """Change the rows as the event says; raises :class:`EventRefused` for one that does not follow on them."""
    head = rows.head()
    if event.seq != (head.seq if head else 0) + 1 or (head and event.time < head.time):
        raise EventRefused(f"event {event.seq} does not follow on {head.seq if head else 0}", _REMEDY)
    if (head is None) is not isinstance(event.change, Founded):
        raise EventRefused(f"event {event.seq}: the first event, and no other, is 'founded'", _REMEDY)
    _change(rows, event)
    root = event.change.root if isinstance(event.change, Founded) else head.root if head else NO_ID
    rows.put(Head(event.seq, event.time, root))
    rows.record(event, subjects_of(event.change))
    if event.request_id:
        _remember(rows, event)


_REMEDY = "restore the repository from a copy; cn writes no such event"


def _change(rows: Rows, event: Event) -> None:
    """One case for each type; what takes more than a row or two has a function."""
    match change := event.change:
        case Founded():
            _found(rows, event, change)
        case OutcomeCreated():
            _create(rows, event, change)
        case OutcomeUpdated():
            old = _known(rows.outcome(change.outcome), event)
            rows.put(old._replace(title=change.title, text=change.text))
            _write_outcome(rows, event, change, change.text, change.title)
        case OutcomeLinked(child, parent):
            rows.put(Link(child, parent))
        case OutcomeUnlinked(child, parent):
            rows.drop(Link(child, parent))
        case OutcomeBlocked(outcome, reason, until):
            rows.put(_known(rows.outcome(outcome), event)._replace(blocked=reason, until=until))
        case OutcomeUnblocked(outcome):
            rows.put(_known(rows.outcome(outcome), event)._replace(blocked="", until=None))
        case OutcomeCompleted() | OutcomeClosed():
            status = COMPLETED if isinstance(change, OutcomeCompleted) else CLOSED
            old = _known(rows.outcome(change.outcome), event)
            rows.put(old._replace(status=status, rationale=change.rationale, blocked="", until=None))
            _write_outcome(rows, event, change, old.text)
        case OutcomesPassed(to, outcomes):
            tenure = _known(rows.handler(to), event).tenure
            for outcome in outcomes:
                rows.put(_known(rows.outcome(outcome), event)._replace(responsible=to, tenure=tenure))
        case Delegated():
            _delegate(rows, event, change)
        case HandlerEnded(handler, number, how, heir):
            rows.put(_known(rows.handler(handler), event)._replace(active=False))
            heir_tenure = _known(rows.handler(heir), event).tenure
            old_tenure = _known(rows.tenure(handler, number), event)
            rows.put(old_tenure._replace(ended=event.time, how=how, heir=heir, heir_tenure=heir_tenure))
        case HandlerMoved(handler, parent, boss):
            rows.put(_known(rows.handler(handler), event)._replace(parent=parent, boss=boss))
        case Granted():
            rows.put(Grant(seq=event.seq, time=event.time, **_values(change)))  # type: ignore[arg-type]
        case Revoked(id):
            rows.drop(_known(rows.grant(id), event))
        case GrantsPassed(to, grants):
            tenure = _known(rows.handler(to), event).tenure
            for id in grants:
                rows.put(_known(rows.grant(id), event)._replace(grantor=to, grantor_tenure=tenure))
        case FileCreated():
            made = (change.file, change.kind, change.description, change.owner, change.owner_tenure)
            rows.put(File(*made, 0, "", 0, event.seq))
            _write(rows, event, change.file, 1, change.hash, change.size, change.links)
        case FileWritten():
            _write(rows, event, change.file, change.version, change.hash, change.size, change.links)
        case FileRead() | ResourceUsed():
            pass
        case MailDelivered():
            _deliver(rows, event, change)
        case MailDeferred():
            waiting = Deferred(**_values(change, mail="id"))  # type: ignore[arg-type]
            rows.put(waiting._replace(version=_sent_version(rows, event, change)))
        case MailTakenBack(mail):
            for id in mail:
                rows.drop(_known(rows.deferred(id), event))
        case MailPassed(to, mail):
            for id in mail:
                old_mail = _known(rows.mail(id), event)
                rows.put(old_mail._replace(to=to, to_tenure=_tenure(rows, event, to)))
        case MailDone(mail):
            for id in mail:
                rows.put(_known(rows.mail(id), event)._replace(pending=False))
        case AgentLeased(agent, handler, tenure, token):
            rows.put(Agent(agent, handler, tenure, token, event.time, True))
        case AgentEnded(agent):
            rows.put(_known(rows.agent(agent), event)._replace(live=False))
        case AuditSubmitted(handler, text):
            rows.put(AuditEntry(handler, event.seq, event.actor, event.time, text))
            _count(rows, event, len(text.encode()))
        case _:
            assert_never(change)


def _known(row: R | None, event: Event) -> R:
    if row is None:
        what = f"event {event.seq} ({type_of(event.change)}) is about something that is not there"
        raise EventRefused(what, _REMEDY)
    return row


def _values(change: object, **renamed: str) -> dict[str, object]:
    named = (part.name for part in fields(change))  # type: ignore[arg-type]
    return {renamed.get(name, name): getattr(change, name) for name in named}


def _tenure(rows: Rows, event: Event, party: Party) -> int:
    return 0 if is_user(party) else _known(rows.handler(Uuid(party)), event).tenure


def _found(rows: Rows, event: Event, change: Founded) -> None:
    root = change.root
    rows.put(Outcome(root, change.title, change.text, OPEN, root, 1, "", "", None, False, event.seq))
    rows.put(File(root, OUTCOME, change.title, root, 1, 0, "", 0, event.seq))
    _write(rows, event, root, 1, change.hash, change.size, links_in(change.text))
    rows.put(Handler(root, 1, True, None, change.user, change.runner, change.state, change.audit))
    _begin(rows, event, root, 1, change.state, change.audit)


def _create(rows: Rows, event: Event, change: OutcomeCreated) -> None:
    id, responsible = change.outcome, change.responsible
    tenure = _known(rows.handler(responsible), event).tenure
    made = Outcome(id, change.title, change.text, OPEN, responsible, tenure, "", "", None, change.inbox, event.seq)
    rows.put(made)
    for parent in change.parents:
        rows.put(Link(id, parent))
    rows.put(File(id, OUTCOME, change.title, responsible, tenure, 0, "", 0, event.seq))
    _write(rows, event, id, 1, change.hash, change.size, links_in(change.text))


def _delegate(rows: Rows, event: Event, change: Delegated) -> None:
    id, number = change.handler, change.number
    rows.put(Handler(id, number, True, change.parent, change.boss, change.runner, change.state, change.audit))
    rows.put(_known(rows.outcome(id), event)._replace(responsible=id, tenure=number))
    _begin(rows, event, id, number, change.state, change.audit)


def _begin(rows: Rows, event: Event, handler: Uuid, number: int, state: Uuid, audit: Uuid) -> None:
    """A tenure, and the two files of the handler, which are its own again."""
    rows.put(Tenure(handler, number, event.time, None, "", None, 0))
    for id, kind, words in ((state, STATE, "State document"), (audit, AUDIT, "Audit log")):
        old = rows.file(id) or File(id, kind, f"{words} of {handler}", handler, number, 0, "", 0, event.seq)
        rows.put(old._replace(owner_tenure=number))


def _write_outcome(
    rows: Rows,
    event: Event,
    change: OutcomeUpdated | OutcomeCompleted | OutcomeClosed,
    text: str,
    title: str | None = None,
) -> None:
    if title is not None:
        rows.put(_known(rows.file(change.outcome), event)._replace(description=title))
    _write(rows, event, change.outcome, change.version, change.hash, change.size, links_in(text))


def _write(rows: Rows, event: Event, file: Uuid, number: int, hash: str, size: int, links: tuple[Uuid, ...]) -> None:
    """A version, which is the latest; what it names takes the place of what the one before named."""
    rows.put(_known(rows.file(file), event)._replace(version=number, hash=hash, size=size))
    rows.put(Version(file, number, hash, size, event.time, event.actor))
    _count(rows, event, size + LINK_BYTES * len(links))
    for target in rows.references(file):
        rows.drop(Reference(file, target))
    for target in dict.fromkeys(links):
        rows.put(Reference(file, target))


_SLOTS = 64
"""Minutes that are kept of what a handler writes: more than an hour."""


def _count(rows: Rows, event: Event, size: int) -> None:
    """Remember how much a handler's agents write in a minute: what bounds them asks for the last hour at each write."""
    handler, slash, _ = event.actor.partition("/")
    if slash:
        minute = minute_of(event.time)
        key = Uuid(Party(handler)), minute % _SLOTS
        old = rows.get(Written, *key)
        rows.put(Written(*key, minute, size + (old.counted if old and old.minute == minute else 0)))


def _deliver(rows: Rows, event: Event, change: MailDelivered) -> None:
    deferred = rows.deferred(change.mail)
    if deferred is not None:
        rows.drop(deferred)
    sent = (change.mail, change.file, change.sender, change.sender_tenure, change.to, change.to_tenure)
    version = change.version or (deferred.version if deferred else _sent_version(rows, event, change))
    # Old records do not say of a letter what it is: Agency sends nothing else but what was deferred.
    letter = change.letter or (event.actor == SYSTEM and deferred is None)
    rows.put(Mail(*sent, event.time, event.seq, change.note, True, version, letter))


def _sent_version(rows: Rows, event: Event, change: MailDelivered | MailDeferred) -> int:
    """Old records do not say it: it was the latest one then."""
    return change.version or _known(rows.file(change.file), event).version


def _remember(rows: Rows, event: Event) -> None:
    old = rows.request(event.actor, event.request_id)
    answer: dict[str, object] = json.loads(old.answer) if old else {}
    answer = extend_answer(answer, event.change)
    rows.put(Request(event.actor, event.request_id, event.tenure, event.digest, json.dumps(answer)))
