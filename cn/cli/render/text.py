"""Plain text for people: colours where they make sense, aligned columns, wrapped reasons."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from cn.cli.render import has_colours
from cn.values.shell_words import command
from cn.values.text import clean as clean
from cn.values.text import visible

if TYPE_CHECKING:  # a list of titles needs no time
    from datetime import datetime

SHORT = 8
"""Digits of a UUID that are shown; four or more are taken where they are unique."""
_UNBOUNDED = 10_000
_REMEDY = 4000
"""A command that was cut off cannot be typed; only what is no remedy of cn's is longer."""
_NARROWEST = 40
_FEWEST = 10
_LINE = 80
_LONG, _LAST, _WANTED = 18, 20, 34
"""The least that is left for a long cell and for the last column, and what that one should get."""


def columns() -> int:
    """The width to fit into; without a terminal lines are as long as they are."""
    if not sys.stdout.isatty():
        return _UNBOUNDED
    from shutil import get_terminal_size

    return max(_NARROWEST, get_terminal_size().columns)


def rows_that_fit() -> int:
    """How many rows a list may have on this screen beside what stands around it; without a terminal any number."""
    if not sys.stdout.isatty():
        return sys.maxsize
    from shutil import get_terminal_size

    return max(_FEWEST, get_terminal_size().lines - 4)


def paint(text: str, fg: str = "", *, bold: bool = False, dim: bool = False) -> str:
    """The text in a colour, where there are colours."""
    if not text or not has_colours():
        return text
    return click.style(text, fg=fg or None, bold=bold or None, dim=dim or None)


def width(text: str) -> int:
    """The columns a text takes (Unicode, East Asian Width)."""
    if text.isascii():
        return len(text)
    narrow = (c for c in text if not unicodedata.combining(c))
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in narrow)


def cut(text: str, to: int) -> str:
    """The text in at most so many columns; what is cut off ends with an ellipsis."""
    if width(text) <= to:
        return text
    while width(text) >= to:
        text = text[:-1]
    return f"{text}…"


def pad(text: str, to: int) -> str:
    """The text filled up with spaces."""
    return text + " " * max(0, to - width(text))


def align(rows: Sequence[Sequence[str]], gap: int = 2) -> list[list[str]]:
    """The cells of each column padded to one width, the last column as it is."""
    if not rows:
        return []
    widths = [max(width(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    return [[*(pad(c, w + gap) for c, w in zip(row, widths, strict=False)), row[-1]] for row in rows]


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of aligned cells; the first is the head."""
    head, *lines = ("".join(row).rstrip() for row in align(rows))
    return [paint(head, dim=True), *lines]


def grid(rows: Sequence[Sequence[str]], long: int, colours: Sequence[str], wanted: int = _WANTED) -> list[list[str]]:
    """The lines of each row of a table that fits the width.

    The last column, in its colour, is wrapped, in ``wanted`` columns if there is room. A cell of column ``long``
    that would push it out stands alone on its line.
    """
    if not rows:
        return []
    gap = 2
    widths = [max(width(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    others = sum(w + gap for i, w in enumerate(widths) if i != long)
    widths[long] = min(widths[long], max(_LONG, columns() - others - gap - wanted))
    indent = sum(w + gap for w in widths)
    found = []
    for row, colour in zip(rows, colours, strict=True):
        cells = [pad(cell, w + gap) for cell, w in zip(row, widths, strict=False)]
        lines = []
        if width(row[long]) > widths[long]:
            lines.append("".join(cells[: long + 1]).rstrip())
            cells[: long + 1] = [" " * sum(w + gap for w in widths[: long + 1])]
        found.append([*lines, *wrap("".join(cells), row[-1], indent, colour)])
    return found


def wrap(first: str, text: str, indent: int | None = None, colour: str = "") -> list[str]:
    """``first``, and the text behind it in a colour, further lines indented below the text."""
    at = width(first) if indent is None else indent
    room = columns() - at
    if room < min(_LAST, width(text)):
        at, room = 4, columns() - 4
    lines = [paint(line, colour) for line in _broken(text, room)]
    if width(first) > at:
        return [first.rstrip(), *(" " * at + line for line in lines)]
    return [(pad(first, at) + lines[0]).rstrip(), *(" " * at + line for line in lines[1:])]


def rule(title: str) -> str:
    """A line across the screen with a title in it."""
    head = f"── {cut(title, columns() - 6)} "
    return paint(head + "─" * (min(columns(), _LINE) - width(head)), bold=True)


def next_step(remedy: str, indent: int = 2) -> list[str]:
    """What to do, if there is something; no command in it is broken, so that it can be copied."""
    return wrap_around_commands(f"{' ' * indent}→ {clean(remedy, _REMEDY)}", indent + 2) if remedy else []


_COMMAND = re.compile(r"(?<!\w)'[^']+'(?!\w)")
_GIT = r"(^'|&& )git (?!-C )"
_PATHS = " -- "
"""What stands before files in a command of git (gitcli(7))."""
_JOIN = "\x00"


_elsewhere: list[str] = []
"""The hub, where the command was started in another folder."""


def started_elsewhere(root: str) -> None:
    """Note that the hub is at ``root``, and the command was started in another folder, maybe in another repository."""
    _elsewhere[:] = [root]


_named: list[str] = []
"""The hub, where a command of cn that is typed in this folder works on it only if it names it."""


def name_hub(root: str) -> None:
    """Note that the hub at ``root`` was named, and that without its name cn works on another one in this folder."""
    _named[:] = [root]


def _naming_hub(found: re.Match[str]) -> str:
    """A command of cn with the hub, unless it names one, or is what a peer's people run."""
    step = found[0]
    named = command("--hub {}", _named[0])
    if not re.match("'cn (?!peer add )", step) or re.search(r" --(hub)? |\\'$", step) or not named.endswith("'"):
        return step
    return f"{step[:-1]} {named[1:]}"


def typed_here(text: str) -> str:
    """The text with commands of git that take files of the hub, wherever they are typed. All others may be for a clone
    in which somebody works, or a peer's words. Those of cn name the hub where :func:`name_hub` was told so.
    """
    if _named:
        text = _COMMAND.sub(_naming_hub, text)
    return _COMMAND.sub(lambda step: _at_hub(step[0]) if _PATHS in step[0] else step[0], text)


def _at_hub(step: str) -> str:
    """A command of git with the folder of the hub, where that is another; but for one that cannot be typed as it is."""
    there = command("git -C {}", _elsewhere[0]) if _elsewhere else ""
    return re.sub(_GIT, lambda word: f"{word[1]}{there[1:-1]} ", step) if there.endswith("'") else step


def at_hub(remedy: str) -> str:
    """What mends a hub in which no run can work, with the place where it is typed."""
    there = _elsewhere and "'git " in remedy and not remedy.startswith("in ")
    return f"in {visible(_elsewhere[0])}: {_COMMAND.sub(lambda step: _at_hub(step[0]), remedy)}" if there else remedy


def wrap_around_commands(text: str, indent: int = 2) -> list[str]:
    """The text in lines that fit the terminal, all but the first indented; what is quoted in it stays whole."""
    text = typed_here(text)
    if width(text) <= columns():
        return [text]
    from textwrap import wrap as break_lines

    joined = _COMMAND.sub(lambda match: match[0].replace(" ", _JOIN), text)
    margin = " " * indent
    lines = break_lines(joined, columns(), subsequent_indent=margin, break_on_hyphens=False, break_long_words=False)
    return [line.replace(_JOIN, " ") for line in lines]


def _broken(text: str, room: int) -> list[str]:
    """The text in lines that fit, at least one."""
    if len(text) <= room and text.isprintable() and text == text.strip():
        return [text]
    from textwrap import wrap as break_lines

    return break_lines(text, room, break_on_hyphens=False) or [""]


def age(at: datetime, now: datetime) -> str:
    """``5m``, ``3h``, ``12d``."""
    from cn.values.timestamps import format_age

    return format_age(now - at)


def since(at: datetime | None, now: datetime) -> str:
    """``since 3h``."""
    return f"since {age(at, now)}" if at else "since some time"
