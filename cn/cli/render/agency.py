"""How Agency looks: what happened in a sentence, lists of outcomes, trees."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import NamedTuple

from cn.agency.events import (
    Change,
    Delegated,
    Event,
    FileCreated,
    FileRead,
    FileWritten,
    Granted,
    HandlerEnded,
    HandlerMoved,
    MailDeferred,
    MailDelivered,
    MailPassed,
    OutcomeBlocked,
    OutcomeCreated,
    OutcomeLinked,
    OutcomesPassed,
    OutcomeUnlinked,
    type_of,
)
from cn.agency.names import Party, Uuid, is_uuid
from cn.agency.rows import Facts
from cn.cli.render.text import SHORT, clean, columns, cut, paint

_INDENT = "  "


def name(id: str, facts: Facts | None) -> str:
    """A UUID, shortened, and its title where it is known; a user as he is called."""
    if not is_uuid(id):
        return clean(id)
    row = facts.file(Uuid(Party(id))) if facts else None
    return f"{id[:SHORT]} {clean(row.description, 60)}" if row else id[:SHORT]


def sentence(change: Change, facts: Facts | None = None) -> str:
    """``outcome created: 1a2b3c4d Release 1.0``."""
    return f"{_WORDS.get(type_of(change), type_of(change).replace('_', ' '))}: {_about(change, facts)}"


_WORDS = {
    "delegated": "handler made",
    "granted": "capability granted",
    "revoked": "capability revoked",
    "founded": "Agency founded",
    "audit_submitted": "audit entry",
}


def _about(change: Change, facts: Facts | None) -> str:
    match change:
        case OutcomeCreated(outcome, title):
            return f"{outcome[:SHORT]} {clean(title, 60)}"
        case OutcomeLinked(child, parent) | OutcomeUnlinked(child, parent):
            word = "below" if isinstance(change, OutcomeLinked) else "no more below"
            return f"{name(child, facts)}, {word} {name(parent, facts)}"
        case OutcomeBlocked(outcome, reason, until):
            when = f" until {until:%Y-%m-%d %H:%M} UTC" if until else ""
            return f"{name(outcome, facts)}{when}, {clean(reason, 200)}"
        case OutcomesPassed(to, outcomes):
            return f"{len(outcomes)} to handler {name(to, facts)}"
        case MailPassed(to, mail):
            return f"{len(mail)} to {name(to, facts)}"
        case Delegated(handler, number, parent):
            again = f", tenure {number}" if number > 1 else ""
            return f"{name(handler, facts)}, below {parent[:SHORT]}{again}"
        case HandlerEnded(handler, _, how, heir):
            return f"{name(handler, facts)}, {how}; {heir[:SHORT]} has what it leaves"
        case HandlerMoved(handler, parent, boss):
            return f"{name(handler, facts)}, below {parent[:SHORT]}, boss {name(boss, facts)}"
        case Granted(id, holder, _, _, _, resource, level, scope):
            what = f"{id[:SHORT]} {level} on {_resource(resource, facts)}"
            return f"{what} to {holder[:SHORT]}, while {scope[:SHORT]} is open"
        case FileCreated(file, kind, description):
            return f"{file[:SHORT]} {clean(description, 60)}" + (f" ({kind})" if kind != "file" else "")
        case FileWritten(file, version) | FileRead(file, version):
            return f"{name(file, facts)}, version {version}"
        case MailDelivered(mail, file, _, _, to) | MailDeferred(mail, file, _, _, to):
            when = f", at {change.due:%Y-%m-%d %H:%M} UTC" if isinstance(change, MailDeferred) else ""
            subject = name(file, facts).partition(" ")[2] if facts and facts.file(file) else ""
            return f"{mail[:SHORT]} to {name(to, facts)}{when}" + (f": {subject}" if subject else "")
        case _:
            return _plain(change, facts)


def _resource(text: str, facts: Facts | None) -> str:
    kind, _, of = text.partition(":")
    return f"{kind}:{name(of, facts)}"


def _plain(change: Change, facts: Facts | None) -> str:
    """The first field by its title, and what else is a plain word."""
    first = getattr(change, fields(change)[0].name)
    ids = first if isinstance(first, tuple) else (first,)
    words = [getattr(change, key, "") for key in ("title", "rationale", "why", "text")]
    title = next((clean(str(word), 120) for word in words if word), "")
    about = ", ".join(name(str(id), None if hasattr(change, "title") else facts) for id in ids[:5])
    return f"{about}, {title}" if title and not hasattr(change, "title") else f"{about} {title}".strip()


def event_cells(event: Event, facts: Facts) -> tuple[str, str, str]:
    """Time, who and what, for a list."""
    return f"{event.time:%Y-%m-%d %H:%M}", actor_name(event.actor), sentence(event.change, facts)


def actor_name(actor: str) -> str:
    """``1a2b3c4d/user:ada``, ``user:ada``."""
    return "/".join(part[:SHORT] if is_uuid(part) else part for part in actor.split("/"))


class Branch(NamedTuple):
    """A line of a tree, in a colour, and what stands below it."""

    text: str
    children: Sequence[Branch] = ()
    colour: str = ""


def tree_lines(branches: Sequence[Branch]) -> list[str]:
    """Drawn on a terminal, indented in a pipe."""
    if not sys.stdout.isatty():
        return list(_indented(branches, ""))
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    def grow(tree: Tree, branch: Branch) -> None:
        for child in branch.children:
            grow(tree.add(Text(child.text, child.colour, no_wrap=True, overflow="ellipsis")), child)

    console = Console(width=columns(), force_terminal=True, highlight=False)
    with console.capture() as captured:
        for branch in branches:
            tree = Tree(Text(branch.text, branch.colour, no_wrap=True, overflow="ellipsis"), guide_style="dim")
            grow(tree, branch)
            console.print(tree)
    return captured.get().rstrip("\n").split("\n")


def _indented(branches: Sequence[Branch], indent: str) -> list[str]:
    lines: list[str] = []
    for branch in branches:
        lines.append(cut(indent + branch.text, columns()))
        lines += _indented(branch.children, indent + _INDENT)
    return lines


def heading(text: str) -> str:
    """A title above lines."""
    return paint(text, bold=True)
