"""What only looks: lists and pages of what the principal may read. Values are plain: text, numbers, lists, objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import TypeAlias

from cn.agency.events import (
    Change,
    Delegated,
    Event,
    FileRead,
    Founded,
    HandlerEnded,
    HandlerMoved,
    OutcomeBlocked,
    OutcomeClosed,
    OutcomeCompleted,
    OutcomeCreated,
    OutcomeLinked,
    OutcomesPassed,
    OutcomeUnblocked,
    OutcomeUnlinked,
    OutcomeUpdated,
    type_of,
)
from cn.agency.names import FILE, NO_LEVEL, OUTCOME, SYSTEM, Party, Resource, Uuid, is_user, parse_resource
from cn.agency.operations import ByHandler, ByUser, Principal
from cn.agency.pages import outcome_page
from cn.agency.plan.access import KNOWN, access, no_access, not_below, reason_for, stands
from cn.agency.plan.bounds import fit_words
from cn.agency.plan.mail import deferred_of
from cn.agency.plan.result import Refused
from cn.agency.plan.shown import Shown
from cn.agency.plan.structure import active, below, delegated, is_workable, writer
from cn.agency.rows import Deferred, Facts, File, Grant, Mail, Outcome
from cn.agency.touched import written_by
from cn.values.timestamps import format_second

View: TypeAlias = dict[str, object]
MOST = 1000
"""How many entries a list has at most; ``more`` says that there are others."""
MOST_CHAINS = 100
LATEST = 2**53
_OF_OUTCOMES = (
    Founded,
    OutcomeCreated,
    OutcomeUpdated,
    OutcomeLinked,
    OutcomeUnlinked,
    OutcomeBlocked,
    OutcomeUnblocked,
    OutcomeCompleted,
    OutcomeClosed,
    OutcomesPassed,
    Delegated,
    HandlerEnded,
    HandlerMoved,
)


def view_outcome(id: Uuid, principal: Principal, facts: Facts, now: datetime) -> View | Refused:
    """An outcome with its Markdown, its immediate parents and children, who is responsible, and its history."""
    outcome = _readable(id, principal, facts)
    if isinstance(outcome, Refused):
        return outcome
    parents, children, shown = facts.parents(id), facts.children(id), Shown(principal, facts)
    file = facts.file(id)
    return _brief(outcome, shown, now) | {
        "markdown": outcome_page(outcome, parents, children[:MOST]),
        "version": file.version if file else 0,
        "hash": file.hash if file else "",
        "parents": [_brief(one, shown, now) for one in _known(parents, facts)],
        "children": [_brief(one, shown, now) for one in _known(children[:MOST], facts)],
        "more": len(children) > MOST,
        "history": [_told(event) for event in outcome_history(id, facts)],
    }


def outcome_history(id: Uuid, facts: Facts) -> list[Event]:
    """What became of an outcome itself, oldest first. Its handler's agents, mail and capabilities stand elsewhere."""
    events = (one for one in facts.history(id, LATEST, MOST) if isinstance(one.change, _OF_OUTCOMES))
    return [one for one in events if not (isinstance(one.change, OutcomeCreated) and one.change.inbox)]


def _readable(id: Uuid, principal: Principal, facts: Facts) -> Outcome | Refused:
    outcome = facts.outcome(id)
    if outcome is None:
        return Refused(KNOWN, f"there is no outcome {id}", "list outcomes, or search by title")
    resource = Resource("outcome", id)
    if reason_for(principal, resource, "read", facts) is None:
        return no_access(principal, resource, "read", facts)
    return outcome


def _known(ids: Sequence[Uuid], facts: Facts) -> Iterator[Outcome]:
    return (found for id in ids if (found := facts.outcome(id)))


def _brief(outcome: Outcome, shown: Shown, now: datetime) -> View:
    facts = shown.facts
    handler = delegated(outcome, facts)
    return {
        "outcome": outcome.id,
        "title": outcome.title,
        "status": outcome.status,
        "responsible": outcome.responsible,
        "decided_by": writer(outcome, facts),
        "delegated": handler is not None,
        "blocked": shown.blocked(outcome),
        "until": format_second(outcome.until) if outcome.until else None,
        "workable": is_workable(outcome, facts, now),
    }


def _told(event: Event) -> View:
    return {"seq": event.seq, "time": format_second(event.time), "actor": event.actor, "type": type_of(event.change)}


def view_ancestors(id: Uuid, principal: Principal, facts: Facts, now: datetime) -> View | Refused:
    """Why: every chain of parents up to where there are none, the nearest first; at most a hundred of them."""
    outcome = _readable(id, principal, facts)
    if isinstance(outcome, Refused):
        return outcome
    chains: list[list[Uuid]] = []
    todo: list[list[Uuid]] = [[id]]
    while todo and len(chains) < MOST_CHAINS:
        chain = todo.pop()
        parents = facts.parents(chain[-1])
        todo += [[*chain, parent] for parent in reversed(parents)]
        if not parents:
            chains.append(chain[1:])
    shown = Shown(principal, facts)
    briefs = {one.id: _brief(one, shown, now) for one in _known([one for chain in chains for one in chain], facts)}
    return {"chains": [[briefs[one] for one in chain] for chain in chains if chain], "more": bool(todo)}


def view_subtree(id: Uuid, principal: Principal, facts: Facts, now: datetime, most: int = MOST) -> View | Refused:
    """An outcome and all below it, each once, with the depth at which it is first met."""
    outcome = _readable(id, principal, facts)
    if isinstance(outcome, Refused):
        return outcome
    found: list[View] = []
    shown = Shown(principal, facts)
    seen: set[Uuid] = set()
    todo: list[tuple[Uuid, int]] = [(id, 0)]
    while todo and len(found) < most:
        one, depth = todo.pop()
        row = facts.outcome(one)
        if row and one not in seen:
            seen.add(one)
            found.append(_brief(row, shown, now) | {"depth": depth, "parents": [*facts.parents(one)]})
            todo += [(child, depth + 1) for child in reversed(facts.children(one))]
    return {"outcomes": found, "more": any(one not in seen for one, _ in todo)}


def list_outcomes(
    handler: Uuid, principal: Principal, facts: Facts, now: datetime, *, workable: bool
) -> View | Refused:
    """For which outcomes a handler is responsible, and which it delegated; or what it could work on now."""
    if refused := _own_or_below(handler, principal, facts):
        return refused
    inbox = facts.open_inbox(handler)
    shown = Shown(principal, facts)
    mine = list(_known([*([inbox] if inbox else []), *facts.open_outcomes(handler)], facts))
    if workable:
        return {"outcomes": [_brief(one, shown, now) for one in mine if is_workable(one, facts, now)]}
    given = list(_known(facts.underlings(handler), facts))
    return {"outcomes": [_brief(one, shown, now) for one in mine], "delegated": [_brief(o, shown, now) for o in given]}


def list_some(ids: Sequence[Uuid], handler: Uuid, principal: Principal, facts: Facts, now: datetime) -> View | Refused:
    """These outcomes of a handler, to those who may see what it has."""
    refused, shown = _own_or_below(handler, principal, facts), Shown(principal, facts)
    return refused or {"outcomes": [_brief(one, shown, now) for one in _known(ids, facts)]}


def _own_or_below(handler: Uuid, principal: Principal, facts: Facts) -> Refused | None:
    """What is a handler's own is seen by it, by those above it, and by users."""
    row = facts.handler(handler)
    if row is None:
        return Refused(KNOWN, f"there is no handler {handler}", "look at the handlers")
    resource = Resource("kb", row.audit)
    return None if reason_for(principal, resource, "read", facts) else not_below(handler, principal, facts)


def list_permissions(handler: Uuid, principal: Principal, facts: Facts) -> View | Refused:
    """What a handler was granted in its tenure, what it granted, and whether that stands."""
    if refused := _own_or_below(handler, principal, facts):
        return refused
    row = facts.handler(handler)
    tenure = row.tenure if row else 0
    return {
        "held": [_grant(one, facts) for one in facts.grants_of(handler, tenure)],
        "given": [_grant(one, facts) for one in facts.grants_by(handler, tenure)],
        "boss": row.boss if row else "",
        "underlings": [*facts.underlings(handler)],
    }


def _grant(grant: Grant, facts: Facts) -> View:
    return grant._asdict() | {"time": format_second(grant.time), "effective": stands(grant, facts)}


def _not_its_mail(party: Party, principal: Principal, facts: Facts, own: Refused) -> Refused | None:
    """Why somebody may not look at the mail of a handler or a user; ``own`` says it of a user's."""
    if is_user(party):
        return None if isinstance(principal, ByUser) else own
    return _own_or_below(Uuid(party), principal, facts)


def read_inbox(party: Party, principal: Principal, facts: Facts) -> View | Refused:
    """The pending messages of a handler, or of a user, oldest first."""
    own = Refused(KNOWN, f"{party} reads its own inbox", "read your own")
    if refused := _not_its_mail(party, principal, facts, own):
        return refused
    shown = Shown(principal, facts)
    return {"mail": [_letter(one, shown) for one in facts.pending(party)]}


def list_deferred(party: Party, principal: Principal, facts: Facts) -> View | Refused:
    """What waits for its time and a handler or a user sent, or has from who sent it; the earliest first."""
    own = Refused(KNOWN, f"{party} lists its own messages", "list your own")
    if refused := _not_its_mail(party, principal, facts, own):
        return refused
    shown = Shown(principal, facts)
    return {"mail": [_waiting(one, shown) for one in deferred_of(party, facts)]}


def _waiting(one: Deferred, shown: Shown) -> View:
    return {
        "mail": one.id,
        "file": one.file,
        "version": one.version,
        "to": one.to,
        "subject": shown.title(one.file),
        "due": format_second(one.due),
    }


def _letter(mail: Mail, shown: Shown) -> View:
    """A message. One of Agency itself is from ``system``, which is the name of no handler and no user."""
    file = shown.facts.file(mail.file)
    return {
        "mail": mail.id,
        "file": mail.file,
        "version": mail.version,
        "latest": file.version if file else mail.version,
        "from": SYSTEM if mail.letter else mail.sender,
        **({"about": mail.sender} if mail.letter else {}),
        "subject": shown.title(mail.file),
        "time": format_second(mail.time),
        "note": mail.note,
    }


def read_audit(handler: Uuid, principal: Principal, facts: Facts, before: int = LATEST) -> View | Refused:
    """What its agents said of their work, oldest first."""
    if refused := _own_or_below(handler, principal, facts):
        return refused
    entries = facts.audit(handler, before, MOST)
    return {"entries": [one._asdict() | {"time": format_second(one.time)} for one in entries]}


def list_files(principal: Principal, facts: Facts, after: int = 0) -> View:
    """The files that the principal may read or write, but for outcomes: its own, those of handlers below it, what it
    was granted, and what it was sent. ``after`` is the number of an event, as ``next`` of the answer before.
    """
    found = sorted({one for one in _candidates(principal, facts, after) if one.since > after}, key=_by_age)
    shown, following = _page([one for one in found if reason_for(principal, Resource("kb", one.id), "read", facts)])
    return {"files": [_file(one, principal, facts) for one in shown], "next": following}


def _by_age(file: File) -> tuple[int, Uuid]:
    return file.since, file.id


def _page(files: Sequence[File]) -> tuple[Sequence[File], int | None]:
    """So many as a list has, and after which event the others come. What one event made stays together."""
    if len(files) <= MOST:
        return files, None
    shown = [one for one in files[:MOST] if one.since < files[MOST].since]
    return shown, shown[-1].since


def _every_file(facts: Facts, after: int) -> Iterator[File]:
    following: int | None = after
    while following is not None:
        shown, following = _page(facts.files_like("", following, MOST + 1))
        yield from shown


def _candidates(principal: Principal, facts: Facts, after: int) -> Iterator[File]:
    if not isinstance(principal, ByHandler):
        yield from islice((one for one in _every_file(facts, after) if one.kind != OUTCOME), MOST + 1)
        return
    todo = [
        (id, row.tenure) for id in (principal.handler, *below(principal.handler, facts)) if (row := active(id, facts))
    ]
    for id, tenure in todo:
        yield from (one for one in facts.files_of(id, tenure) if one.kind != OUTCOME)
        todo += [(one.handler, one.number) for one in facts.left_to(id, tenure)]
    granted = (parse_resource(one.resource) for one in facts.grants_of(principal.handler, principal.tenure))
    files = [one.uuid for one in granted if one.kind == "kb"]
    files += [one.file for one in facts.mail_to(principal.handler, principal.tenure)]
    yield from (file for id in files if (file := facts.file(id)))


def _file(file: File, principal: Principal, facts: Facts) -> View:
    """A file as a list has it. Hash and size are for who may read it: with them a short content can be guessed."""
    level = access(principal, Resource("kb", file.id), facts)
    content = {} if level == NO_LEVEL else {"hash": file.hash, "size": file.size}
    return {
        "file": file.id,
        "kind": file.kind,
        "description": file.description,
        "access": level,
        "version": file.version,
        **content,
    }


def browse(words: str, principal: Principal, facts: Facts, after: int = 0) -> View | Refused:
    """Files and outcomes whose description has all the words, readable or not.

    Messages, state documents and audit logs of others are left out.
    """
    if refused := fit_words(words):
        return refused
    found, following = _page(facts.files_like(words, after, MOST + 1))
    shown = [_file(one, principal, facts) for one in found]
    open_to_all = (FILE, OUTCOME)
    files = [one for one in shown if one["kind"] in open_to_all or one["access"] != NO_LEVEL]
    for one in files:
        one["named_by"] = [*facts.referenced_by(Uuid(Party(str(one["file"]))))]
    return {"files": files, "next": following}


def file_history(id: Uuid, principal: Principal, facts: Facts) -> View | Refused:
    """All versions of a file: number, hash, size, time and who."""
    if refused := _may_read_file(id, principal, facts):
        return refused
    return {"versions": [one._asdict() | {"time": format_second(one.time)} for one in facts.versions(id)]}


def file_audit(id: Uuid, principal: Principal, facts: Facts, before: int = LATEST) -> View | Refused:
    """Who read and who wrote a file, and when; oldest first."""
    if refused := _may_read_file(id, principal, facts):
        return refused
    return {"events": [_told(event) for event in facts.history(id, before, MOST) if _is_use(event.change, id)]}


def _is_use(change: Change, file: Uuid) -> bool:
    """Was it read or written? What else names it is in its history."""
    return isinstance(change, FileRead) or written_by(change) == file


def _may_read_file(id: Uuid, principal: Principal, facts: Facts) -> Refused | None:
    if facts.file(id) is None:
        return Refused(KNOWN, f"there is no file {id}", "browse the knowledge base")
    resource = Resource("kb", id)
    return None if reason_for(principal, resource, "read", facts) else no_access(principal, resource, "read", facts)
