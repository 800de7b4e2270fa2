"""How Agency looks: what happened in a sentence, lists of outcomes, trees."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from cn.agency.events import (
    AgentEnded,
    AgentLeased,
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
    ResourceUsed,
    type_of,
)
from cn.agency.names import is_uuid
from cn.agency.plan.shown import Shown
from cn.cli.render.text import SHORT, clean, columns, cut, paint, width
from cn.values.text import in_quotes

_FEWEST = 20
"""Columns of a branch at least."""


def name(id: str, shown: Shown | None) -> str:
    """A UUID, shortened, and its title as far as it is shown; a user as he is called."""
    if not is_uuid(id):
        return clean(id)
    title = shown.title(id) if shown else ""
    return f"{id[:SHORT]} {said(title, 60)}" if title else id[:SHORT]


def said(text: str, limit: int = 500) -> str:
    """What somebody wrote, an agent maybe, beside cn's own words: in quotation marks, or it could look like them."""
    return in_quotes(clean(text, limit))


def sender_of(letter: Mapping[str, Any], shown: Shown) -> str:
    """Who wrote a message of a list. Agency itself has a name that no handler can bear: theirs begin with digits."""
    return f"Agency, about {name(letter['about'], shown)}" if "about" in letter else name(letter["from"], shown)


def sentence(change: Change, shown: Shown | None = None) -> str:
    """``outcome created: 1a2b3c4d "Release 1.0"``."""
    return f"{_WORDS.get(type_of(change), type_of(change).replace('_', ' '))}: {_about(change, shown)}"


_WORDS = {
    "delegated": "handler made",
    "granted": "capability granted",
    "revoked": "capability revoked",
    "founded": "Agency founded",
    "audit_submitted": "audit entry",
}


def _about(change: Change, shown: Shown | None) -> str:
    match change:
        case OutcomeCreated(outcome, title):
            return f"{outcome[:SHORT]} {said(title, 60)}"
        case OutcomeLinked(child, parent) | OutcomeUnlinked(child, parent):
            word = "below" if isinstance(change, OutcomeLinked) else "no more below"
            return f"{name(child, shown)}, {word} {name(parent, shown)}"
        case OutcomeBlocked(outcome, reason, until):
            when = f" until {until:%Y-%m-%d %H:%M} UTC" if until else ""
            return f"{name(outcome, shown)}{when}, {said(reason, 200)}"
        case OutcomesPassed(to, outcomes):
            return f"{len(outcomes)} to handler {name(to, shown)}"
        case MailPassed(to, mail):
            return f"{len(mail)} to {name(to, shown)}"
        case Delegated(handler, number, parent):
            again = f", tenure {number}" if number > 1 else ""
            return f"{name(handler, shown)}, below {parent[:SHORT]}{again}"
        case HandlerEnded(handler, _, how, heir):
            return f"{name(handler, shown)}, {how}; {heir[:SHORT]} has what it leaves"
        case HandlerMoved(handler, parent, boss):
            below = f", below {parent[:SHORT]}" if parent else ""
            return f"{name(handler, shown)}{below}, boss {name(boss, shown)}"
        case Granted(id, holder, _, _, _, resource, level, scope):
            what = f"{id[:SHORT]} {level} on {_resource(resource, shown)}"
            return f"{what} to {holder[:SHORT]}, while {scope[:SHORT]} is open"
        case FileCreated(file, kind, description):
            return f"{file[:SHORT]} {said(description, 60)}" + (f" ({kind})" if kind != "file" else "")
        case AgentLeased(agent, handler):
            return f"{agent[:SHORT]} for {name(handler, shown)}"
        case AgentEnded(agent, why):
            row = shown.facts.agent(agent) if shown else None
            return f"{agent[:SHORT]}{f' of {name(row.handler, shown)}' if row else ''}, {clean(why, 200)}"
        case ResourceUsed(resource, level, what):
            return f"{level} {_resource(resource, shown)}, {clean(what, 120)}"
        case FileWritten(file, version) | FileRead(file, version):
            return f"{name(file, shown)}, version {version}"
        case MailDelivered(mail, file, _, _, to) | MailDeferred(mail, file, _, _, to):
            when = f", at {change.due:%Y-%m-%d %H:%M} UTC" if isinstance(change, MailDeferred) else ""
            subject = shown.title(file) if shown else ""
            return f"{mail[:SHORT]} to {name(to, shown)}{when}" + (f": {said(subject, 60)}" if subject else "")
        case _:
            return _plain(change, shown)


def _resource(text: str, shown: Shown | None) -> str:
    kind, _, of = text.partition(":")
    return f"{kind}:{name(of, shown)}"


def _plain(change: Change, shown: Shown | None) -> str:
    """The first field by its title, and what else is a plain word."""
    first = getattr(change, fields(change)[0].name)
    ids = first if isinstance(first, tuple) else (first,)
    words = [getattr(change, key, "") for key in ("title", "rationale", "text")]
    title = next((said(str(word), 120) for word in words if word), "")
    about = ", ".join(name(str(id), None if hasattr(change, "title") else shown) for id in ids[:5])
    return f"{about}, {title}" if title and not hasattr(change, "title") else f"{about} {title}".strip()


def event_cells(event: Event, shown: Shown) -> tuple[str, str, str]:
    """Time, who and what, for a list."""
    return f"{event.time:%Y-%m-%d %H:%M}", actor_name(event.actor), sentence(event.change, shown)


def actor_name(actor: str) -> str:
    """``1a2b3c4d/user:ada``, ``user:ada``."""
    return "/".join(part[:SHORT] if is_uuid(part) else part for part in actor.split("/"))


class Branch(NamedTuple):
    """A line of a tree, in a colour, and what stands below it.

    Where it is too long, ``text`` is cut, and ``end`` stays; with ``whole`` it goes on in the next line.
    """

    text: str
    children: Sequence[Branch] = ()
    colour: str = ""
    end: str = ""
    whole: bool = False


def tree_lines(branches: Sequence[Branch]) -> list[str]:
    """Drawn on a terminal, indented in a pipe."""
    guides = _DRAWN if sys.stdout.isatty() else _INDENTED
    return [line for branch in branches for line in _grown(branch, "", "", guides)]


class _Guides(NamedTuple):
    """What stands before a branch and the last one, and before what is below either."""

    one: str
    last: str
    below: str
    below_last: str


_DRAWN = _Guides("├── ", "└── ", "│   ", "    ")
_INDENTED = _Guides("  ", "  ", "  ", "  ")


def _grown(branch: Branch, first: str, rest: str, guides: _Guides) -> list[str]:
    """A branch behind ``first``, further lines of it and what stands below it behind ``rest``."""
    more = rest + (guides.below if branch.children else guides.below_last)
    texts = _fitting(branch, columns() - len(more if branch.whole else first))
    lines = [(first if number == 0 else more) + paint(text, branch.colour) for number, text in enumerate(texts)]
    for number, child in enumerate(branch.children, 1):
        is_last = number == len(branch.children)
        before, after = (guides.last, guides.below_last) if is_last else (guides.one, guides.below)
        lines += _grown(child, rest + before, rest + after, guides)
    return lines


def _fitting(branch: Branch, room: int) -> list[str]:
    if branch.whole:
        from textwrap import wrap

        return wrap(branch.text, max(room, _FEWEST), break_on_hyphens=False)
    return [cut(cut(branch.text, max(room - width(branch.end), _FEWEST)) + branch.end, room)]


def heading(text: str) -> str:
    """A title above lines."""
    return paint(text, bold=True)
