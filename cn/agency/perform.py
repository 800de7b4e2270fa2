"""Do what is asked of Agency: each operation is planned on what those before it left; one commit for all of them.

Nothing else writes to the records. What was answered is on disk.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple, TypeAlias, cast

from cn.agency.apply import apply
from cn.agency.events import Change, Event, Founded, format_message, subject_of
from cn.agency.names import Uuid
from cn.agency.operations import TOLD, Limits, Moment, Operation, Principal, actor_of, answer_to, tenure_of
from cn.agency.pages import README, folder_of, page_of
from cn.agency.plan.plan import digest_of, done_before, plan
from cn.agency.plan.result import Planned, Refused
from cn.agency.rows import Request, Rows
from cn.agency.store.contents import is_named
from cn.agency.store.repository import Draft, Places
from cn.agency.store.store import Base, Decided, Store, create_store
from cn.agency.touched import pages_of, written_by
from cn.git.process import OTHER, GitError
from cn.secrets.findings import refuse
from cn.secrets.in_turn import find_in_turn
from cn.secrets.scanner import Text, text_of
from cn.system.clock import now
from cn.values.errors import Blocked
from cn.values.errors import Refused as RefusedError

_ENTROPY = 16
_RESERVE = 32 << 20
_MEND = "'cn doctor --full' tells how to mend it"


class Asked(NamedTuple):
    """An operation, and who asks. ``request_id`` is the caller's name for it: the same again gets the same answer, but
    for what is only told (:data:`TOLD`), which is answered by what the caller may know now.

    ``entropy`` are the random bytes from which its ids are made, for who has to know them before. ``said`` is what the
    caller said, where the operation holds what that came to: ``3d`` is another time at each call.
    """

    operation: Operation
    principal: Principal
    request_id: str = ""
    entropy: bytes = b""
    said: str = ""


class Done(NamedTuple):
    """It was done. ``changes`` is empty where it was done before, and the answer is that of then."""

    answer: Mapping[str, object]
    changes: tuple[Change, ...] = ()


Answer: TypeAlias = Done | Refused


class Performed(NamedTuple):
    """An answer to each operation, in order, and sentences about what else had to be done."""

    answers: tuple[Answer, ...]
    told: tuple[str, ...] = ()


def no_secrets_allowed() -> Collection[str]:
    """Every text that looks like a secret is refused."""
    return ()


def _nothing(_: Sequence[Answer]) -> None:
    pass


def perform(
    store: Store,
    asked: Sequence[Asked],
    limits: Limits | None = None,
    allowed: Callable[[], Collection[str]] = no_secrets_allowed,
    *,
    together: bool = False,
    rehearse: bool = False,
    first: Callable[[Sequence[Answer]], None] = _nothing,
) -> Performed:
    """Do these operations, each accepted or refused by itself. ``allowed`` are the fingerprints of what is no secret.

    ``together``: where one is refused none is done. ``rehearse``: none is done; the answers are what they would be.
    ``first`` is told the answers before they are written, while nobody else can write; it may be told them again.

    Raises :class:`LockHeld` where another writes for long, :class:`Blocked` where it cannot be written; then none was.
    """
    checked = [look_through(one, allowed) for one in asked]
    return perform_checked(store, checked, limits, together=together, rehearse=rehearse, first=first)


def perform_checked(
    store: Store,
    checked: Sequence[Checked],
    limits: Limits | None = None,
    *,
    together: bool = False,
    rehearse: bool = False,
    first: Callable[[Sequence[Answer]], None] = _nothing,
) -> Performed:
    """The same for what was looked through before: nothing is searched while others wait for their writes."""

    def decide(rows: Rows, base: Base) -> Decided[tuple[Answer, ...]]:
        decided = _decide(checked, rows, base, limits or Limits(), spare_room(store.repository.folder))
        stopped = together and any(isinstance(one, Refused) for one in decided.answer)
        if stopped or rehearse:
            return decided._replace(draft=None)
        first(decided.answer)
        return decided

    written = store.write(decide)
    return Performed(written.answer, written.told)


def found(places: Places, identity: tuple[str, str], asked: Asked) -> tuple[Store, Done]:
    """Make the records with the operation that founds them. Raises :class:`cn.values.errors.Refused` where a rule
    says no, or there are some already.
    """
    checked = [look_through(asked, no_secrets_allowed)]

    def decide(rows: Rows, base: Base) -> Decided[Done]:
        draft, (answer,) = _decide(checked, rows, base, Limits())
        if isinstance(answer, Refused):
            raise RefusedError(f"{answer.rule}: {answer.reason}", answer.remedy)
        return Decided(draft, answer)

    return create_store(places, identity, decide, now)


def spare_room(folder: Path) -> int | None:
    """The bytes on the disk of a folder beyond what is kept to end things: 32 MB, on a small one a tenth of it."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    if found.f_blocks == 0:  # the system does not tell
        return None
    return found.f_bavail * found.f_frsize - min(_RESERVE, found.f_blocks * found.f_frsize // 10)


def read_content(store: Store, file: Uuid, hash: str) -> bytes:
    """A version of a file, whose reading was told by an operation before. Raises :class:`Blocked` where it is missing,
    or damaged, which is not always the same to git, or other bytes lie in its place.
    """
    try:
        data = store.repository.read(f"{folder_of(file)}/{hash}")
    except GitError as why:
        what = f"a version of file {file} cannot be read in the records: {why.text}"
        raise Blocked(what, _MEND if why.hint == OTHER else why.hint) from why
    if data is None:
        what = f"a version of file {file} is missing or damaged in the records: {hash}"
        raise Blocked(what, _MEND)
    if not is_named(hash, data):
        raise Blocked(f"what the records hold as a version of file {file} is not what was written: {hash}", _MEND)
    return data


def new_entropy() -> bytes:
    """Random bytes from which the ids of an operation are made."""
    return os.urandom(_ENTROPY)


class Checked(NamedTuple):
    """An operation whose texts were looked through: what is written is made of these alone. It has what does not change
    where it is planned again; ``refused`` is for what looks like a secret. :func:`look_through` alone makes one.
    """

    asked: Asked
    entropy: bytes
    refused: Refused | None


def look_through(asked: Asked, allowed: Callable[[], Collection[str]] = no_secrets_allowed) -> Checked:
    """Look for secrets in all that the operation may bring into the records. It takes a while for a large text, so this
    is done before one waits for the lock, or for others. ``allowed`` as in :func:`perform`. For any thread.
    """
    findings = find_in_turn(list(_texts(asked)))
    refusal = refuse(findings, allowed()) if findings else None
    refused = Refused(refusal.rule, refusal.reason, refusal.remedy) if refusal else None
    return Checked(asked, asked.entropy or new_entropy(), refused)


def _texts(asked: Asked) -> Iterator[Text]:
    yield text_of("the name of the request", asked.request_id)
    for part in fields(asked.operation):
        yield from _texts_in(part.name, getattr(asked.operation, part.name))


def _texts_in(name: str, value: object) -> Iterator[Text]:
    if isinstance(value, tuple):
        for one in value:
            yield from _texts_in(name, one)
    elif isinstance(value, bytes):
        yield text_of(name, value.decode("utf-8", "replace"))
    elif isinstance(value, str):
        yield text_of(name, value)


def _decide(
    checked: Sequence[Checked], rows: Rows, base: Base, limits: Limits, room: int | None = None
) -> Decided[tuple[Answer, ...]]:
    writing = _Writing(rows, base, limits, room)
    answers = tuple(writing.answer(one) for one in checked)
    return Decided(writing.draft(), answers)


class _Writing:
    """A commit in the making: events in order, the files that they need, and the pages that they change."""

    def __init__(self, rows: Rows, base: Base, limits: Limits, room: int | None) -> None:
        self._rows, self._base, self._limits, self._room = rows, base, limits, room
        self._events: list[Event] = []
        self._files: dict[str, bytes | None] = {}
        self._pages: dict[Uuid, None] = {}

    def answer(self, one: Checked) -> Answer:
        """Plan an operation, and take what comes of it into the commit."""
        operation, principal, request_id, _, said = one.asked
        before = done_before(operation, principal, request_id, self._rows, said)
        if isinstance(before, Request) and not isinstance(operation, TOLD):
            return Done(answer_to(operation, cast("dict[str, object]", json.loads(before.answer))))
        moment = Moment(self._base.clock, one.entropy, self._limits, self._room)
        refused = before if isinstance(before, Refused) else one.refused
        planned = refused or plan(operation, principal, self._rows, moment)
        if isinstance(planned, Refused):
            return planned
        asked = one.asked._replace(request_id="") if before else one.asked  # the first time has the name
        if self._room is not None:
            self._room -= sum(len(content.data) for content in planned.contents)
        self._files |= {f"{folder_of(content.file)}/{content.hash}": content.data for content in planned.contents}
        for change in planned.changes:
            self._take(change, planned, asked)
        return Done(answer_to(operation, planned.answer), planned.changes)

    def _take(self, change: Change, planned: Planned, asked: Asked) -> None:
        head = self._rows.head()
        event = Event(
            head.seq + 1 if head else 1,
            self._base.now,
            actor_of(asked.principal),
            change,
            tenure_of(asked.principal),
            planned.grant,
            asked.request_id,
            digest_of(asked.operation, asked.said) if asked.request_id else "",
        )
        written = written_by(change)
        before = self._rows.references(written) if written else ()
        apply(self._rows, event)
        after = self._rows.references(written) if written else ()
        self._events.append(event)
        self._pages |= dict.fromkeys([*pages_of(change, self._rows), *sorted({*before} ^ {*after})])
        if isinstance(change, Founded):
            self._files["README.md"] = README.encode()

    def draft(self) -> Draft | None:
        """What to write; None where nothing was accepted."""
        if not self._events:
            return None
        rows = (row for file in self._pages if (row := self._rows.file(file)))
        pages = {f"{folder_of(row.id)}/FILE.md": page_of(self._rows, row).encode() for row in rows}
        subject = subject_of([event.change for event in self._events])
        return Draft(format_message(subject, self._events), self._files | pages)
