"""The pages of an export that tell what no file says: who sent what to whom, who stood where, what happened.

What anybody wrote is data here: on one visible line, in a cell, or quoted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeAlias

from cn.agency.events import Event, MailDelivered, MailDone
from cn.agency.names import Party, Uuid, is_user, is_uuid
from cn.agency.operations import ByHandler
from cn.agency.plan.access import stands
from cn.agency.plan.mail import may_take_back
from cn.agency.plan.shown import Shown
from cn.agency.plan.titles import title_of
from cn.agency.rows import Deferred, Facts, File, Handler, Mail, Tenure
from cn.values.text import as_words, one_line, quote, words_cell, yaml_string
from cn.values.timestamps import format_second

Cells: TypeAlias = Callable[[Event, Shown], Sequence[str]]
"""How an event is told: when, who, what."""

_SHORT = 8
_LAST = 2**53
_ALL = 2**31
_END = datetime(9999, 12, 31, tzinfo=UTC)
_WIDE: Final = 1000
"""Characters of a cell that says what happened."""


class Sent(NamedTuple):
    """One message as its reader may know it; ``when`` it was delivered, or is due."""

    id: Uuid
    by: str
    to: str
    when: datetime
    state: str
    version: int


def who(text: str, facts: Facts) -> str:
    """``1a2b3c4d Build the site/user:ada``: a party or an actor, a handler with its title; UUIDs are short, as in the
    names of files.
    """
    return "/".join(_titled(part, facts) if is_uuid(part) else one_line(part) for part in text.split("/"))


def _titled(id: str, facts: Facts) -> str:
    return f"{id[:_SHORT]} {title_of(id, facts)}".rstrip()


def letters(files: Iterable[File], shown: Shown) -> dict[Uuid, list[Sent]]:
    """By file, the messages by which it was sent, or waits to be: those in an inbox, or by a sender, whose mail the
    principal may look at; of what waits, what it may take back.
    """
    facts = shown.facts
    found: dict[Uuid, list[Sent]] = {}
    for file in files:
        rows = [one for one in facts.mail_with(file.id) if _may_know(one, shown)]
        if rows:
            found[file.id] = [_delivered(one, facts) for one in sorted(rows, key=lambda one: one.seq)]
    for one in facts.due(_END, _ALL):
        if may_take_back(one, shown.principal, facts):
            found.setdefault(one.file, []).append(_waiting(one, facts))
    return found


def _may_know(mail: Mail, shown: Shown) -> bool:
    if not isinstance(shown.principal, ByHandler):
        return True
    return any(shown.is_above(Uuid(one)) for one in (mail.sender, mail.to) if not is_user(one))


def _delivered(mail: Mail, facts: Facts) -> Sent:
    """To whom it was delivered, also where another has it since."""
    events = facts.history(mail.id, _LAST, _ALL)
    to = next((one.change.to for one in events if isinstance(one.change, MailDelivered)), mail.to)
    done = next((f" {format_second(one.time)}" for one in events if isinstance(one.change, MailDone)), "")
    by = f"Agency, about {who(mail.sender, facts)}" if mail.letter else who(mail.sender, facts)
    state = "pending" if mail.pending else f"done{done}"
    state += f", now with {who(mail.to, facts)}" if to != mail.to else ""
    state += f"; {who_in(mail.note, facts)}" if mail.note else ""
    return Sent(mail.id, by, who(to, facts), mail.time, state, mail.version)


def who_in(sentence: str, facts: Facts) -> str:
    """A sentence of Agency's, whose UUIDs are told as :func:`who` does."""
    words = ((word, word.rstrip(",;")) for word in one_line(sentence, _WIDE).split(" "))
    return " ".join(_titled(bare, facts) + word[len(bare) :] if is_uuid(bare) else word for word, bare in words)


def _waiting(one: Deferred, facts: Facts) -> Sent:
    return Sent(one.id, who(one.sender, facts), who(one.to, facts), one.due, "deferred until then", one.version)


def mail_head(file: File, sent: Sequence[Sent], facts: Facts) -> str:
    """What stands above the text of a message."""
    written = facts.version(file.id, 1)
    lines = ["---", f"file: {file.id}", f"subject: {yaml_string(file.description)}"]
    if written:
        lines += [f"written: {format_second(written.time)}", f"by: {yaml_string(who(written.actor, facts))}"]
    lines.append("sent:" if sent else "sent: []")
    for one in sent:
        lines += [f"  - from: {yaml_string(one.by)}", f"    to: {yaml_string(one.to)}"]
        lines += [f"    time: {format_second(one.when)}", f"    state: {yaml_string(one.state)}"]
    return "\n".join([*lines, "---", "", ""])


def mail_page(sent: Iterable[tuple[File, Sent]], paths: Mapping[tuple[Uuid, int], str]) -> str:
    """All messages in one table, oldest first; ``paths`` are those of versions of files."""
    rows = sorted(sent, key=lambda row: row[1].when)
    cells = (
        (
            format_second(one.when),
            one.by,
            one.to,
            _linked(file, paths.get((file.id, one.version), "")),
            one.state,
            one.id,
        )
        for file, one in rows
    )
    return _page("Mail", ("Time", "From", "To", "What", "State", "Message"), cells)


def _linked(file: File, path: str) -> str:
    return _Raw(f"[{words_cell(file.description)}]({path})") if path else file.description


class _Raw(str):
    """A cell that is Markdown already."""

    __slots__ = ()


def handlers_page(handlers: Sequence[Handler], facts: Facts) -> str:
    """Each handler: what it is for, whose it is, its tenures, and what it was granted in each."""
    lines = ["# Handlers", ""]
    for row in handlers:
        lines += [f"## {as_words(title_of(row.id, facts)) or row.id}", "", f"- handler of outcome: {row.id}"]
        lines += [
            f"- {'active' if row.active else 'ended'}, in tenure {row.tenure}",
            f"- boss: {as_words(who(row.boss, facts), _WIDE)}",
        ]
        lines += [f"- handler above: {as_words(who(row.parent, facts), _WIDE)}"] if row.parent else []
        lines += [f"- runner: {as_words(row.runner) or 'the default'}"]
        lines += [f"- state document: {row.state}", f"- audit log: {row.audit}", ""]
        tenures = [one for number in range(1, row.tenure + 1) if (one := facts.tenure(row.id, number))]
        lines += _table(
            ("Tenure", "Begun", "Ended", "How", "Who has what it left"), (_tenure(t, facts) for t in tenures)
        )
        grants = [one for number in range(1, row.tenure + 1) for one in facts.grants_of(row.id, number)]
        heads = ("Tenure", "Level", "Resource", "From", "Granted", "While this is open", "Effective", "Capability")
        cells = (
            (
                *(str(one.holder_tenure), one.level, _resource(one.resource, facts), who(one.grantor, facts)),
                *(format_second(one.time), who(one.scope, facts), "yes" if stands(one, facts) else "no", one.id),
            )
            for one in grants
        )
        lines += _table(heads, cells) if grants else ["Nothing was granted to it, or all of that was taken back.", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _tenure(one: Tenure, facts: Facts) -> Sequence[str]:
    ended = format_second(one.ended) if one.ended else ""
    return str(one.number), format_second(one.started), ended, one.how, who(one.heir, facts) if one.heir else ""


def _resource(text: str, facts: Facts) -> str:
    kind, _, of = text.partition(":")
    return f"{kind}:{who(of, facts)}"


def log_page(events: Iterable[Event], tell: Cells, shown: Shown) -> str:
    """What happened, oldest first."""
    return _page("Log", ("Time (UTC)", "Who", "What"), (tell(event, shown) for event in events))


def history_part(events: Sequence[Event], tell: Cells, shown: Shown) -> str:
    """What became of an outcome, below its page."""
    rows = _table(("Time (UTC)", "Who", "What"), (tell(event, shown) for event in events))
    return "\n".join(["", "## History", "", *rows]) if events else ""


def audit_page(file: File, facts: Facts) -> str:
    """All entries of an audit log, oldest first."""
    lines = [f"# {as_words(file.description)}", ""]
    for one in facts.audit(Uuid(Party(file.owner)), _LAST, _ALL):
        lines += [f"## {format_second(one.time)} {as_words(who(one.actor, facts), _WIDE)}", "", quote(one.text), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _page(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join([f"# {title}", "", *_table(heads, rows)])


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield _row(heads)
    yield f"|{'---|' * len(heads)}"
    yield from map(_row, rows)
    yield ""


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(one if isinstance(one, _Raw) else words_cell(one, _WIDE) for one in cells)} |"
