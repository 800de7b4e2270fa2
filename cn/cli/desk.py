"""What the commands of Agency share: the records opened for somebody, words resolved to UUIDs, answers shown."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from cn.agency.agency import Agency, open_agency
from cn.agency.names import LEVELS, NameRefused, Party, Resource, Uuid, is_user, is_uuid, parse_party, rank
from cn.agency.operations import ByHandler, Operation, Principal, Seen, Wanted
from cn.agency.plan.access import boss_of, no_access, not_below, reason_for
from cn.agency.plan.result import Refused
from cn.agency.plan.shown import Shown
from cn.agency.plan.titles import with_titles
from cn.agency.rows import Facts
from cn.cli.options import Env
from cn.cli.render.text import SHORT
from cn.system.clock import now
from cn.values.errors import Blocked, UsageError
from cn.values.errors import Refused as RefusedError
from cn.values.names import is_name
from cn.values.shell_words import command
from cn.values.text import in_quotes, visible
from cn.values.timestamps import StampRefused

if TYPE_CHECKING:  # looking needs none of it
    from cn.agency.perform import Answer, Asked, Done

    Told = Sequence[str]

_UNRECORDED = "this is not recorded, and their leases stand: make room on the disk, then run it again"
_FEWEST = 4
_LONGEST_NUMBER = 15
_SHOWN = 5
_MANY = 1000
_DIGITS = frozenset("0123456789abcdef-")


class Desk(NamedTuple):
    """Agency's records as they are now, and who asks. ``facts`` are read as of one moment."""

    env: Env
    agency: Agency
    facts: Facts
    principal: Principal
    now: datetime

    def outcome(self, text: str) -> Uuid:
        """The outcome that a person names."""
        return self._one("outcome", text, lambda id: self.facts.outcome(id) is not None)

    def handler(self, text: str) -> Uuid:
        """The handler, active or not."""
        return self._one("handler", text, lambda id: self.facts.handler(id) is not None)

    def file(self, text: str) -> Uuid:
        """The file of the knowledge base, an outcome too."""
        return self._one("file", text.removeprefix("kb://"), lambda id: self.facts.file(id) is not None)

    def subject(self, text: str) -> Uuid:
        """Whatever events name: an outcome, a file, a message, a capability, an agent, also one that is no more."""
        from cn.agency.store.look import named_like

        head = self.facts.head()
        if text == "root" and head:
            return head.root
        digits = _digits("subject of events", text.removeprefix("kb://"))
        found = named_like(self.facts, digits, _MANY)
        hidden = (id for id in found if self.facts.deferred(id) and not self._sees(id))
        return self._pick("subject of events", text.removeprefix("kb://"), sorted({*found} - {*hidden}))

    def grant(self, text: str) -> Uuid:
        """The capability."""
        from cn.agency.store.look import grants_like, named_like

        prefix = _digits("capability", text)
        found = grants_like(self.facts, prefix, _SHOWN + 1)
        if not found and self.env.request_id:  # taken back, maybe by this request
            found = named_like(self.facts, prefix, _SHOWN + 1)
        return self._pick("capability", text, found)

    def mail(self, text: str, *, deferred: bool = False) -> Uuid:
        """The message that was delivered, done or not; with ``deferred`` one that waits for its time, too."""
        from cn.agency.store.look import deferred_like, mail_like

        digits = _digits("message", text)
        found = mail_like(self.facts, digits, _SHOWN + 1)
        later = [id for id in deferred_like(self.facts, digits, _SHOWN + 1) if self._sees(id)]
        if later and not found and not deferred:
            why = f"message {later[0][:SHORT]} waits for its time, and is in no inbox yet"
            raise RefusedError(why, f"{self.typed('cn mail take-back {}', later[0][:SHORT])} takes it back")
        return self._pick("message", text, [*found, *later] if deferred else found)

    def deferred(self, text: str) -> Uuid:
        """The message that waits for its time."""
        from cn.agency.store.look import deferred_like

        found = deferred_like(self.facts, _digits("message", text), _SHOWN + 1)
        return self._pick("waiting message", text, [id for id in found if self._sees(id)])

    def _sees(self, deferred: Uuid) -> bool:
        """Before its time there is no message, but for those who may take it back."""
        from cn.agency.plan.mail import may_take_back

        row = self.facts.deferred(deferred)
        return row is not None and may_take_back(row, self.principal, self.facts)

    def party(self, text: str) -> Party:
        """A handler, a user, or ``boss``: of the handler for whom somebody acts."""
        if text == "boss":
            row = self.facts.handler(self.principal.handler) if isinstance(self.principal, ByHandler) else None
            if row is None:
                raise UsageError("you have no boss here", "name a handler, or act for one with --as HANDLER")
            return row.boss
        return parse_party(text) if is_user(text) else Party(self.handler(text))

    def resource(self, text: str) -> Resource:
        """``KIND:NAME``, where a UUID may be short; a UUID alone is a file, or an outcome."""
        kind, colon, name = text.partition(":")
        if not colon or text.startswith("kb://"):
            if is_name(text) and set(text) - _DIGITS and text != "root":
                what = f"{text[:60]!r} names no kind of resource"
                raise UsageError(what, f"write mcp:{text[:60]} for a server, repo:{text[:60]} for a repository")
            id = self.file(text)
            return Resource("outcome" if self.facts.outcome(id) else "kb", id)
        if kind not in LEVELS:
            raise UsageError(f"{visible(kind)[:40]!r} is no kind of resource", f"kinds: {', '.join(LEVELS)}")
        find: dict[str, Callable[[str], Party]] = {
            "outcome": self.outcome,
            "kb": self.file,
            "handler": self.handler,
            "mail": self.party,
        }
        return Resource(kind, find[kind](name) if kind in find else name)

    def wanted(self, level: str, resource: str, scope: Uuid | None = None) -> Wanted:
        """A capability to be granted, on :meth:`resource`, at a level that it has."""
        about = self.resource(resource)
        rank(about, level)
        return Wanted(str(about), level, scope)

    def typed(self, template: str, *words: str) -> str:
        """A command to type, for whom this one acts."""
        if isinstance(self.principal, ByHandler):
            template, words = f"{template} --as {{}}", (*words, short(self.principal.handler))
        return command(template, *words)

    @property
    def shown(self) -> Shown:
        """What who acts is shown of it."""
        return Shown(self.principal, self.facts)

    def title(self, id: str) -> str:
        """A UUID, shortened, with its title as far as it is shown; a user by name."""
        title = self.shown.title(id)
        return f"{short(id)} {in_quotes(title)}" if title else short(id)

    def seen(self, file: Uuid, text: str) -> Seen | None:
        """``VERSION:HASH`` as it was shown, whose hash may be short; empty: None."""
        number, colon, hash = text.partition(":")
        if not text:
            return None
        is_number = number.isascii() and number.isdigit() and len(number) <= _LONGEST_NUMBER
        if not (colon and is_number and len(hash) >= _FEWEST):
            raise UsageError(
                f"{visible(text)[:60]!r} names no version", "write VERSION:HASH as it was shown, 2:1a2b3c4d"
            )
        version = self.facts.version(file, int(number))
        return Seen(int(number), version.hash if version and version.hash.startswith(hash) else hash)

    def look(self, value: Mapping[str, object] | Refused, lines: Callable[[Any], Sequence[str]]) -> None:
        """Show what was asked for, beyond a screen in a pager; a refusal ends the command."""
        if isinstance(value, Refused):
            self.refuse(value)
        self.env.page(dict(value), lambda: lines(value), self.agency.hub)

    def check_read(self, resource: Resource) -> None:
        """Who may not read it is refused."""
        if reason_for(self.principal, resource, "read", self.facts) is None:
            self.refuse(no_access(self.principal, resource, "read", self.facts))

    def may_write(self, file: Uuid) -> bool:
        """May who acts write over a file? Nobody over what is written in another way, or never."""
        from cn.agency.plan.files import NOT_WRITTEN_OVER

        row, resource = self.facts.file(file), Resource("kb", file)
        written = row is not None and row.kind not in NOT_WRITTEN_OVER
        return written and reason_for(self.principal, resource, "write", self.facts) is not None

    def check_above(self, handler: Uuid) -> None:
        """What is a handler's is seen by it, those above it, and users; others are refused."""
        if not self.shown.is_above(handler):
            named = self.title(handler) if self.shown.may_read(handler) else short(handler)
            boss = boss_of(self.principal, self.facts)
            self.refuse(not_below(named, self.principal, self.facts, self.title(boss) if boss else ""))

    def do(self, operation: Operation, remedies: Mapping[str, str] | None = None, said: str = "") -> Done | None:
        """Have it done, and told; None where it is only rehearsed. ``remedies``: by rule, what to type here."""
        from cn.agency.perform import Asked

        done = self.do_all([Asked(operation, self.principal, said=said)], remedies)
        return done[0] if done else None

    def do_all(self, asked: Sequence[Asked], remedies: Mapping[str, str] | None = None) -> list[Done]:
        """All of it, or none; nothing where it is only rehearsed. It is one request, if that has a name."""
        requests = [one._replace(request_id=name) for one, name in zip(asked, self._names(len(asked)), strict=True)]
        try:
            done, told = self.ask_all(requests, remedies)
        except Blocked as why:
            done, told = self._end_first(requests, remedies, why)
        else:
            told = [*told, *self._end_agents(done)]
        if any(not one.changes for one in done):
            self._show_again(requests, done, told)
        else:
            show_done(self.env, done, told, self.shown)
        if self.env.dry_run:
            return []
        self.agency.follow()
        return done

    def _end_agents(self, done: Sequence[Answer], *, room: bool = False) -> Told:
        """What leases that this ended leave running on this machine, where no server may see to it. ``room``: what
        they made goes at once.
        """
        from cn.agency.events import AgentEnded
        from cn.agency.perform import Done

        changes = [change for one in done if isinstance(one, Done) for change in one.changes]
        ended = [change.agent for change in changes if isinstance(change, AgentEnded)]
        if self.env.dry_run or not ended:
            return []
        from cn.agents.leftover import end_agents, make_room
        from cn.agents.workspace import folders_of

        folders = folders_of(self.agency.hub)
        told = end_agents(folders, ended)
        if room:
            make_room(folders, ended)
        return told

    def _end_first(
        self, asked: Sequence[Asked], remedies: Mapping[str, str] | None, why: Blocked
    ) -> tuple[list[Done], Told]:
        """Where nothing can be written, end the agents first whose leases this ends: they may have filled the disk.
        While they are ended no server writes, so none is started in their place before it is recorded.
        """
        ended: list[str] = []

        def first(answers: Sequence[Answer]) -> None:
            ended.extend(self._end_agents(answers, room=True))

        try:
            done, told = self.ask_all(asked, remedies, first)
        except Blocked as again:
            raise (Blocked(f"{again.text}; {'; '.join(ended)}", _UNRECORDED) if ended else why) from why
        return done, [*told, *ended]

    def _names(self, count: int) -> list[str]:
        """Of each part of the request: the first has its name, the others one that nobody takes for another request,
        and that is never too long.
        """
        name = self.env.request_id
        digits = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()
        return [f"part {number} of {digits}" if name and number > 1 else name for number in range(1, count + 1)]

    def entropy(self) -> bytes:
        """Of which ids are made that have to be known before they are asked for: the same for the same request, so that
        its answer names what was made then.
        """
        from cn.agency.operations import actor_of
        from cn.agency.perform import new_entropy

        random = new_entropy()
        whose = f"{actor_of(self.principal)}\0{self.env.request_id}".encode("utf-8", "surrogateescape")
        return hashlib.sha256(whose).digest()[: len(random)] if self.env.request_id else random

    def _show_again(self, requests: Sequence[Asked], done: Sequence[Done], told: Told) -> None:
        """With what happened then, of what was done before: maybe since these records were opened."""
        with self.agency.store.reading() as facts:
            again = [_read_again(one, answer, facts) for one, answer in zip(requests, done, strict=True)]
            said = [*told, "it was done before, and is not done again"]
            show_done(self.env, again, said, Shown(self.principal, facts), done_before=True)

    def ask_all(
        self,
        asked: Sequence[Asked],
        remedies: Mapping[str, str] | None = None,
        first: Callable[[Sequence[Answer]], None] = lambda _: None,
    ) -> tuple[list[Done], Told]:
        """The same without a word; sentences about what else had to be done. ``first`` as :func:`perform` takes it."""
        from cn.agency.perform import perform

        agency, rehearse = self.agency, self.env.dry_run
        performed = perform(
            *(agency.store, asked, agency.limits, agency.allowed_secrets), together=True, rehearse=rehearse, first=first
        )
        done = [self._accepted(one, remedies or {}) for one in performed.answers]
        self.env.did = self.env.did or not self.env.dry_run
        return done, [*performed.told, *(one.told for one in agency.misread)]

    def _accepted(self, answer: Answer, remedies: Mapping[str, str]) -> Done:
        if isinstance(answer, Refused):
            self.refuse(answer._replace(remedy=remedies.get(answer.rule, answer.remedy)))
        return answer

    def refuse(self, refused: Refused) -> NoReturn:
        """End the command: rule, reason, next step; as JSON too, where facts were asked for so."""
        if refused.remedy in TYPED:
            template, does = TYPED[refused.remedy]
            refused = refused._replace(remedy=f"{self.typed(template)} {does}")
        if self.env.json:
            from cn.cli.render.report import show_json

            show_json({"refused": refused._asdict()})
        reason, remedy = (with_titles(text, self.facts, short) for text in (refused.reason, refused.remedy))
        raise RefusedError(f"{refused.rule}: {reason}", remedy)

    def _one(self, kind: str, text: str, fits: Callable[[Uuid], bool]) -> Uuid:
        head = self.facts.head()
        if text == "root" and head:
            return head.root
        prefix = _digits(kind, text)
        found = [id for id in self.facts.find(prefix, 2**31) if fits(id)] if prefix else []
        return self._pick(kind, text, found)

    def _pick(self, kind: str, text: str, found: Sequence[Uuid]) -> Uuid:
        if len(found) == 1 or text in found:
            return Uuid(Party(text)) if text in found else found[0]
        if not found:
            raise RefusedError(f"there is no {kind} {visible(text)[:60]!r}", _WHERE[kind])
        shown = "; ".join(self.title(id) for id in found[:_SHOWN]) + ("; …" if len(found) > _SHOWN else "")
        raise RefusedError(f"{text!r} is the beginning of several: {shown}", "type more of its digits")


TYPED = {
    "look at your underlings": ("cn handler list", "shows who is active"),
    "look at your boss and your underlings": ("cn handler list", "shows who is active"),
    "look at your handlers": ("cn handler list", "shows who is active"),
    "look at the handlers": ("cn handler list", "shows who is active"),
    "read your inbox": ("cn mail", "shows what is"),
    "look at the inbox": ("cn mail", "shows what is"),
    "list those that do; what was delivered stays": (
        "cn mail waiting",
        "shows those that do; what was delivered stays",
    ),
    "look at its history": ("cn kb history FILE", "shows what versions it has"),
    "list outcomes, or search by title": ("cn outcome list", "shows them, with --search WORDS those that have these"),
}
"""By the next step of a refusal that names no command, for agents have tools: what to type, and what that does."""

_WHERE = {
    "outcome": "'cn outcome list' shows them, 'cn outcome list --search WORDS' finds one",
    "handler": "'cn handler list' shows them",
    "file": "'cn kb browse WORDS' finds one",
    "subject of events": "'cn agency log' shows outcomes, files, messages, capabilities and agents that events name",
    "capability": "'cn grant list' shows them",
    "message": "'cn mail' shows them",
    "waiting message": "'cn mail waiting' shows them",
}


def _read_again(asked: Asked, done: Done, facts: Facts) -> Done:
    """An answer with what happened then, where it was done before."""
    from cn.agency.operations import actor_of
    from cn.agency.store.look import events_of_request

    if done.changes or not asked.request_id:
        return done
    events = events_of_request(facts, actor_of(asked.principal), asked.request_id)
    return done._replace(changes=tuple(event.change for event in events))


def _digits(kind: str, text: str) -> str:
    """The beginning of a UUID, as it is typed; raises :class:`UsageError`."""
    digits = text.lower()
    if len(digits) < _FEWEST or set(digits) - _DIGITS:
        what = f"{visible(text)[:60]!r} names no {kind}"
        also = ", or 'root'" if kind in ("outcome", "handler", "file", "subject of events") else ""
        raise UsageError(what, f"type {_FEWEST} or more digits of its UUID{also}; {_WHERE[kind]}")
    return digits


def short(id: str) -> str:
    """As many digits of a UUID as are shown; anything else as it is."""
    return id[:SHORT] if is_uuid(id) else id


@contextmanager
def desk(env: Env, acting: str = "") -> Iterator[Desk]:
    """The hub's Agency, for its user, or for a handler for whom the user acts. It is closed at the end."""
    agency = open_agency(env.hub())
    try:
        with agency.store.reading() as facts:
            opened = Desk(env, agency, facts, agency.person, now())
            try:
                yield opened._replace(principal=_acting(opened, acting)) if acting else opened
            except (NameRefused, StampRefused) as refused:
                raise UsageError(refused.text, refused.hint) from None
    finally:
        agency.store.close()


def _acting(opened: Desk, acting: str) -> ByHandler:
    id = opened.handler(acting)
    row = opened.facts.handler(id)
    assert row is not None, "it was just found"
    if not (row.active or opened.env.request_id):  # what it asked for before its end can still be answered
        opened.refuse(_ended(opened, id, row.tenure))
    return ByHandler(id, row.tenure, f"user:{opened.agency.person.name}")


def _ended(opened: Desk, handler: Uuid, number: int) -> Refused:
    from cn.agency.plan.access import ACTIVE
    from cn.agency.plan.structure import owner

    heir = owner(handler, number, opened.facts)
    what = f"{opened.title(handler)} is no active handler any more"
    return Refused(ACTIVE, what, f"act for who has what it left: --as {short(heir)}")


def show_done(
    env: Env, done: Sequence[Done], told: Sequence[str], shown: Shown | None, *, done_before: bool = False
) -> None:
    """What was done, before or now, or would be: as JSON the answers, else a line for each change."""
    if env.json:
        from cn.agency.events import plain_of
        from cn.cli.render.report import show_json

        merged: dict[str, object] = {}
        for one in done:  # what was made first stays what it is about
            merged = {**one.answer, **merged}
        changes = [plain_of(change) for one in done for change in one.changes]
        show_json({"would": merged, "changes": changes} if env.dry_run else merged)
        for text in () if env.quiet else told:
            click.echo(f"· {text}", err=True)
        return
    from cn.cli.render.agency import sentence
    from cn.values.report import Report

    report = Report()
    for change in (change for one in done for change in one.changes):
        (report.plan if env.dry_run and not done_before else report.done)(sentence(change, shown))
    for text in told:
        report.info(text)
    env.tell(report)
