"""Mail: between boss and underling, to oneself, now or later; what arrives makes something workable."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from cn.agency.events import FileCreated, MailDeferred, MailDelivered, MailDone, MailTakenBack
from cn.agency.names import COMPLETED, FILE, MESSAGE, NO_ID, Party, Resource, Uuid, is_user, links_in
from cn.agency.operations import (
    ByHandler,
    ByUser,
    DeliverDue,
    FinishMail,
    Moment,
    Principal,
    SendMail,
    TakeBackMail,
    party_of,
)
from cn.agency.plan.access import ACCESS, KNOWN, boss_of, no_access, reason_for
from cn.agency.plan.checks import WORDS, first, fit_line, fit_text, needs_party, to_come
from cn.agency.plan.ending import Draft, end_outcome, open_inbox
from cn.agency.plan.result import Planned, Refused
from cn.agency.plan.structure import above, active, owner
from cn.agency.rows import Deferred, Facts, Handler
from cn.values.text import one_line

OWN_FILE = "own-file"
NOT_DUE = "not-due"
SAID = "said-already"
LIMIT_UNREAD = "limit-unread"
MOST_SUBJECT = 80
_END = datetime(9999, 12, 31, tzinfo=UTC)
_ALL = 2**31


def plan_send(operation: SendMail, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    """Deliver a file, or a text as a new one; or keep it until it is due."""
    if refused := needs_party(principal) or _may_mail(operation.to, principal, facts):
        return refused
    refused = first(
        _sendable(operation, principal, facts),
        to_come(operation.due, moment.now),
        fit_line(operation.subject, "the subject") if operation.subject else None,
        fit_text(operation.text, "the message", needed=operation.file is None),
    )
    if refused:
        return refused
    if refused := _said_already(operation, principal, facts) or _too_many(operation, principal, facts, moment):
        return refused
    draft = Draft()
    addressee = active(operation.to, facts)
    tenure = addressee.tenure if addressee else 0
    if operation.file is None:
        subject = operation.subject or one_line(operation.text, MOST_SUBJECT)
        send_text(draft, principal, operation.to, tenure, subject, operation.text, facts, moment, operation)
    else:
        file = facts.file(operation.file)
        what = (operation.file, file.version if file else 0)
        _send(draft, principal, what, operation.to, tenure, facts, moment, operation)
    return Planned(tuple(draft.changes), tuple(draft.contents))


def _said_already(operation: SendMail, principal: Principal, facts: Facts) -> Refused | None:
    """A handler tells its boss a thing once: the same message that waits in the inbox would only make that longer."""
    row = active(principal.handler, facts) if isinstance(principal, ByHandler) else None
    if row is None or operation.to != row.boss or operation.due:
        return None
    file = facts.file(operation.file) if operation.file else None
    hash = file.hash if file else hashlib.sha256(operation.text.encode()).hexdigest()
    me = (row.id, row.tenure)
    waiting = (one for one in facts.pending(operation.to) if (one.sender, one.sender_tenure) == me and not one.letter)
    if all((sent := facts.version(one.file, one.version)) is None or sent.hash != hash for one in waiting):
        return None
    return Refused(SAID, "your boss has this very message unread", "say what is new, or wait for an answer", row.boss)


def _too_many(operation: SendMail, principal: Principal, facts: Facts, moment: Moment) -> Refused | None:
    """A handler fills nobody's inbox, nor that of a day to come."""
    if not isinstance(principal, ByHandler):
        return None
    me, most = (Party(principal.handler), principal.tenure), moment.limits.unread
    unread = sum((one.sender, one.sender_tenure) == me and not one.letter for one in facts.pending(operation.to))
    later = [one for one in facts.deferred_by(me[0]) if one.to == operation.to and one.sender_tenure == me[1]]
    waiting = unread + len(later)
    if waiting < most:
        return None
    told = f", {len(later)} of them for their time" if later else ""
    why = f"{waiting} messages of yours to {operation.to} wait{told}, and {most} may"
    remedy = "wait until some are dealt with; say many things in one file, and name that"
    return Refused(LIMIT_UNREAD, why, f"take back what waits for its time; or {remedy}" if later else remedy)


def _may_mail(to: Party, principal: Principal, facts: Facts) -> Refused | None:
    """Boss and direct underlings, and oneself; a user to any active handler."""
    if not is_user(to) and not active(to, facts):
        return Refused(KNOWN, f"{to} is no active handler", "look at your boss and your underlings")
    if isinstance(principal, ByUser):
        return Refused(ACCESS, f"{to} is a user", "users talk to each other elsewhere") if is_user(to) else None
    resource = Resource("mail", to)
    found = reason_for(principal, resource, "send", facts)
    return None if found else no_access(principal, resource, "send", facts)


def _sendable(operation: SendMail, principal: Principal, facts: Facts) -> Refused | None:
    """A file that is sent can be read by its addressee from then on: so its owner sends it, and nobody else."""
    if operation.file is None:
        return None
    if operation.text:
        return Refused(WORDS, "both a file and a text are given", "send one of them")
    file = facts.file(operation.file)
    if file is None:
        return Refused(KNOWN, f"there is no file {operation.file}", "browse the knowledge base, or send a text")
    if file.kind not in (FILE, MESSAGE):
        return Refused(OWN_FILE, f"{file.id} is no message", f"send a text that names kb://{file.id}")
    if isinstance(principal, ByHandler) and owner(file.owner, file.owner_tenure, facts) != principal.handler:
        remedy = f"send a text that names kb://{file.id}, and grant read on it to an underling who needs it"
        return Refused(OWN_FILE, f"{file.id} is not yours", remedy, boss_of(principal, facts))
    return None


def send_text(
    draft: Draft,
    principal: Principal,
    to: Party,
    to_tenure: int,
    subject: str,
    text: str,
    facts: Facts,
    moment: Moment,
    operation: SendMail | None = None,
) -> None:
    """Store a text as a message, and send it."""
    sender, tenure = party_of(principal)
    file = moment.uuid("message", to)
    stored = draft.store(file, text)
    draft.add(FileCreated(file, MESSAGE, subject, sender, tenure, *stored, links_in(text)))
    _send(draft, principal, (file, 1), to, to_tenure, facts, moment, operation)


def _send(
    draft: Draft,
    principal: Principal,
    what: tuple[Uuid, int],
    to: Party,
    to_tenure: int,
    facts: Facts,
    moment: Moment,
    operation: SendMail | None,
) -> None:
    """Send a version of a file: what is written to it later is not what was sent."""
    sender, tenure = party_of(principal)
    id = moment.uuid("mail", to)
    file, version = what
    if operation and operation.due:
        draft.add(MailDeferred(id, file, sender, tenure, to, to_tenure, operation.due, version))
    else:
        _deliver(draft, MailDelivered(id, file, sender, tenure, to, to_tenure, "", version), facts, moment)


def tell_boss(draft: Draft, handler: Handler, subject: str, text: str, facts: Facts, moment: Moment) -> None:
    """Agency itself tells a handler's boss something of its work.

    The handler has the file, as who is read about; it is a message, which nobody can write over.
    """
    file, boss = moment.uuid("message", handler.boss), active(handler.boss, facts)
    stored = draft.store(file, text)
    draft.add(FileCreated(file, MESSAGE, subject, handler.id, handler.tenure, *stored, links_in(text)))
    to = (handler.boss, boss.tenure if boss else 0)
    id = moment.uuid("mail", handler.boss)
    _deliver(draft, MailDelivered(id, file, handler.id, handler.tenure, *to, "", 1, True), facts, moment)


def _deliver(draft: Draft, change: MailDelivered, facts: Facts, moment: Moment) -> None:
    """Into the inbox; a handler has something workable then."""
    draft.add(change)
    if not is_user(change.to):
        open_inbox(draft, Uuid(change.to), facts, moment)


def plan_due(operation: DeliverDue, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    """Deliver what waited, if it may still be sent; else it goes back, or to who has what its addressee left."""
    waiting = facts.deferred(operation.mail)
    if isinstance(principal, ByHandler):
        return Refused(ACCESS, "Agency itself delivers what is due", "wait")
    if waiting is None:
        return Refused(KNOWN, f"no message {operation.mail} waits", "look at the inbox")
    if waiting.due > moment.now:
        return Refused(NOT_DUE, f"message {waiting.id} is not due", "wait until it is")
    to, note = _addressee(waiting, facts)
    handler = active(to, facts)
    sender = (waiting.sender, waiting.sender_tenure)
    draft = Draft()
    tenure = handler.tenure if handler else 0
    change = MailDelivered(waiting.id, waiting.file, *sender, to, tenure, note, waiting.version)
    _deliver(draft, change, facts, moment)
    return Planned(tuple(draft.changes), tuple(draft.contents))


def _addressee(waiting: Deferred, facts: Facts) -> tuple[Party, str]:
    """Who gets it now, and why it is not the one to whom it was written."""
    to = owner(waiting.to, waiting.to_tenure, facts)
    sender = owner(waiting.sender, waiting.sender_tenure, facts)
    if to != waiting.to or not _is_current(waiting.to, waiting.to_tenure, facts):
        return to, f"it was to {waiting.to}, whose tenure is over"
    if not _is_current(waiting.sender, waiting.sender_tenure, facts):
        return sender, f"it was by {waiting.sender}, whose tenure is over, to {waiting.to}"
    if is_user(waiting.sender):
        return to, ""
    principal = ByHandler(Uuid(waiting.sender), waiting.sender_tenure, "")
    if reason_for(principal, Resource("mail", waiting.to), "send", facts):
        return to, ""
    return sender, f"it could not be delivered to {waiting.to}, who is neither boss nor underling any more"


def _is_current(party: Party, tenure: int, facts: Facts) -> bool:
    handler = active(party, facts)
    return is_user(party) or (handler is not None and handler.tenure == tenure)


def plan_take_back(operation: TakeBackMail, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    """Messages that wait for their time are not delivered: by whose they are, a handler above, or a user."""
    ids = tuple(dict.fromkeys(operation.mail))
    if not ids:
        return Refused(WORDS, "no message is named", "name those that shall not be delivered")
    for id in ids:
        waiting = facts.deferred(id)
        if waiting is None or not may_take_back(waiting, principal, facts):
            why_not = f"no message {id} of yours waits for its time"
            return Refused(KNOWN, why_not, "list those that do; what was delivered stays")
    return Planned((MailTakenBack(ids),))


def may_take_back(waiting: Deferred, principal: Principal, facts: Facts) -> bool:
    """Is it the principal's, or that of a handler below it? What a tenure left is its heir's, not the next one's."""
    if not isinstance(principal, ByHandler):
        return True
    sender = owner(waiting.sender, waiting.sender_tenure, facts)
    return principal.handler == sender or (not is_user(sender) and principal.handler in above(Uuid(sender), facts))


def deferred_of(party: Party, facts: Facts) -> list[Deferred]:
    """What waits for its time and is a party's: what it sent in this tenure, and what tenures that are over left it."""
    return [one for one in facts.due(_END, _ALL) if party == owner(one.sender, one.sender_tenure, facts)]


def plan_finish(operation: FinishMail, principal: Principal, facts: Facts, moment: Moment) -> Planned | Refused:
    """Messages have been dealt with; with the last one the outcome for them completes by itself."""
    ids = tuple(dict.fromkeys(operation.mail))
    if not ids:
        return Refused(WORDS, "no message is named", "name those that you have dealt with")
    parties: list[Party] = []
    for id in ids:
        mail = facts.mail(id)
        mine = mail and (isinstance(principal, ByUser) or mail.to == getattr(principal, "handler", None))
        if not mail or not mail.pending or not mine:
            return Refused(KNOWN, f"no message {id} is pending in your inbox", "read your inbox")
        parties.append(mail.to)
    draft = Draft()
    draft.add(MailDone(ids))
    for party in dict.fromkeys(parties):
        inbox = None if is_user(party) else facts.outcome(facts.open_inbox(Uuid(party)) or NO_ID)
        if inbox and all(one.id in ids for one in facts.pending(party)):
            end_outcome(draft, inbox, COMPLETED, "", facts)
    return Planned(tuple(draft.changes), tuple(draft.contents))
