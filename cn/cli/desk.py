"""What the commands of Agency share: the records opened for somebody, words resolved to UUIDs, answers shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from cn.agency.agency import Agency, open_agency
from cn.agency.names import LEVELS, NameRefused, Party, Resource, Uuid, is_user, is_uuid, parse_party
from cn.agency.operations import ByHandler, Operation, Principal, Seen
from cn.agency.plan.access import no_access, reason_for
from cn.agency.plan.result import Refused
from cn.agency.rows import Facts
from cn.cli.options import Env
from cn.cli.render.text import SHORT
from cn.system.clock import now
from cn.values.errors import Refused as RefusedError
from cn.values.errors import UsageError
from cn.values.text import visible
from cn.values.timestamps import StampRefused

if TYPE_CHECKING:  # looking needs none of it
    from cn.agency.perform import Answer, Asked, Done

    Told = Sequence[str]

_FEWEST = 4
_SHOWN = 5
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

    def grant(self, text: str) -> Uuid:
        """The capability."""
        from cn.agency.store.look import grants_like

        return self._pick("capability", text, grants_like(self.facts, _digits("capability", text), _SHOWN + 1))

    def mail(self, text: str) -> Uuid:
        """The message that was delivered, done or not."""
        from cn.agency.store.look import mail_like

        return self._pick("message", text, mail_like(self.facts, _digits("message", text), _SHOWN + 1))

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

    def title(self, id: str) -> str:
        """A UUID, shortened, with its title; a user by name."""
        row = self.facts.file(Uuid(Party(id))) if is_uuid(id) else None
        return f"{short(id)} {row.description}" if row else short(id)

    def seen(self, file: Uuid, text: str) -> Seen | None:
        """``VERSION:HASH`` as it was shown, whose hash may be short; empty: None."""
        number, colon, hash = text.partition(":")
        if not text:
            return None
        if not (colon and number.isascii() and number.isdigit() and len(hash) >= _FEWEST):
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

    def do(self, operation: Operation, remedies: Mapping[str, str] | None = None) -> Done | None:
        """Have it done, and told; None where it is only rehearsed. ``remedies``: by rule, what to type here."""
        from cn.agency.perform import Asked

        done = self.do_all([Asked(operation, self.principal)], remedies)
        return done[0] if done else None

    def do_all(self, asked: Sequence[Asked], remedies: Mapping[str, str] | None = None) -> list[Done]:
        """All of it, or none; nothing where it is only rehearsed."""
        done, told = self.ask_all(asked, remedies)
        show_done(self.env, done, told, self.facts)
        if self.env.dry_run:
            return []
        self.agency.follow()
        return done

    def ask_all(self, asked: Sequence[Asked], remedies: Mapping[str, str] | None = None) -> tuple[list[Done], Told]:
        """The same without a word; sentences about what else had to be done."""
        from cn.agency.perform import perform

        agency = self.agency
        performed = perform(
            agency.store, asked, agency.limits, agency.allowed_secrets, together=True, rehearse=self.env.dry_run
        )
        return [self._accepted(one, remedies or {}) for one in performed.answers], performed.told

    def _accepted(self, answer: Answer, remedies: Mapping[str, str]) -> Done:
        if isinstance(answer, Refused):
            self.refuse(answer._replace(remedy=remedies.get(answer.rule, answer.remedy)))
        return answer

    def refuse(self, refused: Refused) -> NoReturn:
        """End the command: rule, reason, next step; as JSON too, where facts were asked for so."""
        if self.env.json:
            from cn.cli.render.report import show_json

            show_json({"refused": refused._asdict()})
        raise RefusedError(f"{refused.rule}: {refused.reason}", refused.remedy)

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


_WHERE = {
    "outcome": "'cn outcome list' shows them, 'cn outcome list --search WORDS' finds one",
    "handler": "'cn handler list' shows them",
    "file": "'cn kb browse WORDS' finds one",
    "capability": "'cn grant list' shows them",
    "message": "'cn mail' shows them",
}


def _digits(kind: str, text: str) -> str:
    """The beginning of a UUID, as it is typed; raises :class:`UsageError`."""
    digits = text.lower()
    if len(digits) < _FEWEST or set(digits) - _DIGITS:
        what = f"{visible(text)[:60]!r} names no {kind}"
        also = ", or 'root'" if kind in ("outcome", "handler", "file") else ""
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
    return ByHandler(id, row.tenure, f"user:{opened.agency.person.name}")


def show_done(env: Env, done: Sequence[Done], told: Sequence[str], facts: Facts | None) -> None:
    """What was done, or would be: as JSON the answers, else a line for each change."""
    if env.json:
        from cn.cli.render.report import show_json

        merged = {key: value for one in done for key, value in one.answer.items()}
        show_json({"would": merged} if env.dry_run else merged)
        return
    from cn.cli.render.agency import sentence
    from cn.values.report import Report

    report = Report()
    for change in (change for one in done for change in one.changes):
        (report.plan if env.dry_run else report.done)(sentence(change, facts))
    for text in told:
        report.info(text)
    env.tell(report)
