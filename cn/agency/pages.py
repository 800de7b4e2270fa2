"""The derived pages, as pure text of rows: for people, and for agents that read files.

What anybody wrote is data here: on one visible line, or behind what cannot end a section.
"""

from __future__ import annotations

from collections.abc import Sequence

from cn.agency.events import (
    Change,
    Delegated,
    Event,
    Founded,
    HandlerEnded,
    HandlerMoved,
    OutcomeBlocked,
    OutcomeClosed,
    OutcomeCompleted,
    OutcomeCreated,
    OutcomeLinked,
    OutcomeUnblocked,
    OutcomeUnlinked,
    OutcomeUpdated,
    type_of,
)
from cn.agency.names import AUDIT, OPEN, OUTCOME, Uuid
from cn.agency.rows import AuditEntry, Facts, File, Outcome, Version
from cn.values.text import cell, one_line, quote, unix_lines, yaml_string
from cn.values.timestamps import format_second

SHOWN = 50
"""How many versions, events or entries a page shows, the latest; all of them are in git's log."""

SHOWN_TEXT = 16 << 10
"""How many bytes of an audit log's entries its page shows, the latest."""

_LAST = 2**53
"""No event has this number."""

README = """\
# Agency's records

This repository is written by cn; read it with git alone.

- `git log` is the audit log: each commit's message holds what happened, one JSON object a line.
- `kb/a/b/c/<uuid>/<sha256>` is one version of a file, named by the SHA-256 of its content.
- `FILE.md` beside it says what the file is: its versions, its links, and of an outcome its history.

What counts are the messages; the pages follow from them. Change nothing here by hand.
"""


def folder_of(file: Uuid) -> str:
    """Where a file's versions and its page stand."""
    return f"kb/{file[0]}/{file[1]}/{file[2]}/{file}"


def outcome_page(outcome: Outcome, parents: Sequence[Uuid], children: Sequence[Uuid]) -> str:
    """An outcome as Markdown: frontmatter, its text, and of an ended one why it ended."""
    head = [
        "---",
        f"outcome: {outcome.id}",
        f"title: {yaml_string(outcome.title)}",
        f"status: {outcome.status}",
        f"responsible: {outcome.responsible}",
        *_listed("parents", parents),
        *_listed("children", children),
    ]
    if outcome.blocked:
        head.append(f"blocked: {yaml_string(outcome.blocked)}")
        head += [f"until: {format_second(outcome.until)}"] if outcome.until else []
    body = unix_lines(outcome.text).strip("\n")
    end = f"\n## Why it is {outcome.status}\n\n{quote(outcome.rationale)}\n" if outcome.status != OPEN else ""
    return "\n".join([*head, "---", "", f"# {one_line(outcome.title)}", "", *([body, ""] if body else [])]) + end


def _listed(name: str, ids: Sequence[Uuid]) -> list[str]:
    return [f"{name}:", *(f"  - {id}" for id in ids)] if ids else [f"{name}: []"]


def page_of(facts: Facts, file: File) -> str:
    """``FILE.md`` of a file as the state is now."""
    return file_page(
        file,
        facts.versions(file.id),
        facts.references(file.id),
        facts.referenced_by(file.id),
        _history(file.id, facts) if file.kind == OUTCOME else (),
        facts.audit(Uuid(file.owner), _LAST, SHOWN) if file.kind == AUDIT else (),
    )


def _history(outcome: Uuid, facts: Facts) -> list[Event]:
    """The last events that its page tells, oldest first; between them there may be many that only name it."""
    found: list[Event] = []
    before = _LAST
    while len(found) < SHOWN and (events := facts.history(outcome, before, 4 * SHOWN)):
        found = [event for event in events if outcome in told_of(event.change)] + found
        before = events[0].seq
    return found[-SHOWN:]


def told_of(change: Change) -> tuple[Uuid, ...]:
    """The outcome whose page tells of a change.

    A page is written with each such change: so not with those that are about hundreds, or that only name it.
    """
    match change:
        case Founded(outcome) | OutcomeCreated(outcome) | OutcomeUpdated(outcome):
            return (outcome,)
        case OutcomeCompleted(outcome) | OutcomeClosed(outcome) | OutcomeBlocked(outcome) | OutcomeUnblocked(outcome):
            return (outcome,)
        case OutcomeLinked(outcome) | OutcomeUnlinked(outcome):
            return (outcome,)
        case Delegated(outcome) | HandlerEnded(outcome) | HandlerMoved(outcome):
            return (outcome,)
        case _:
            return ()


def file_page(
    file: File,
    versions: Sequence[Version],
    references: Sequence[Uuid],
    referenced_by: Sequence[Uuid],
    history: Sequence[Event] = (),
    entries: Sequence[AuditEntry] = (),
) -> str:
    """``FILE.md``: what the file is. ``history`` is an outcome's, ``entries`` an audit log's."""
    lines = [f"# {one_line(file.description) or file.id}", "", f"- File: {file.id}", f"- Kind: {file.kind}", ""]
    lines += _table(("Version", "SHA-256", "Bytes", "Time", "By"), [_version_cells(one) for one in versions[-SHOWN:]])
    lines += _links("Names", references) + _links("Named by", referenced_by)
    if file.kind == OUTCOME:
        lines += ["## History", "", *_table(("Event", "Time", "By", "What"), [_cells(e) for e in history[-SHOWN:]])]
    if file.kind == AUDIT:
        lines += _entry_lines(entries[-SHOWN:])
    return "\n".join(lines).rstrip("\n") + "\n"


def _entry_lines(entries: Sequence[AuditEntry]) -> list[str]:
    """The last ones that take no more than :data:`SHOWN_TEXT` together, of one that is longer the beginning: this is
    written anew with each entry.
    """
    found, room = list[list[str]](), SHOWN_TEXT
    for entry in reversed(entries):
        text = quote(entry.text)
        size = len(text.encode())
        if size > room and found:
            break
        if size > room:
            text = text.encode()[:room].decode(errors="ignore") + "\n\n(all of it is in git's log)"
        found.append([f"## {format_second(entry.time)} {entry.actor}", "", text, ""])
        room -= size
    return [line for one in reversed(found) for line in one]


def _version_cells(version: Version) -> tuple[str, ...]:
    return str(version.number), version.hash, str(version.size), format_second(version.time), version.actor


def _cells(event: Event) -> tuple[str, ...]:
    return str(event.seq), format_second(event.time), event.actor, type_of(event.change)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    return [f"| {' | '.join(map(cell, row))} |" for row in (heads,)] + [
        f"|{'---|' * len(heads)}",
        *(f"| {' | '.join(map(cell, row))} |" for row in rows),
        "",
    ]


def _links(words: str, ids: Sequence[Uuid]) -> list[str]:
    return [f"{words}: {', '.join(f'kb://{id}' for id in ids)}", ""] if ids else []
