"""Showing reports: plain lines, marks that are true, errors on standard error."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

import click

from cn.cli.render import COLOUR
from cn.cli.render.text import wrap_around_commands
from cn.values.report import Mark, Note, Report
from cn.values.text import redact, visible


def show_report(report: Report, *, json: bool, quiet: bool, verbose: bool, beside: bool = False) -> None:
    """Print a report; what was told before only with ``verbose``. ``beside``: all of it on standard error."""
    if json:
        show_json(report)
        return
    problems_told = [n for n in report.notes if n.mark in (Mark.REFUSED, Mark.FAILED)]
    new = {(n.source, n.text) for n in problems_told if not n.told_before}
    standing = len({(n.source, n.text) for n in problems_told if n.told_before} - new)
    if standing and not (quiet or verbose) and sys.stdout.isatty():
        problems = "1 problem stands" if standing == 1 else f"{standing} problems stand"
        click.echo(f"· {problems} as before; 'cn status' shows what, -v tells it again", err=beside)
    for whom, count in report.held.items() if not quiet and sys.stdout.isatty() else ():
        told = f"{count} {'waits' if count == 1 else 'wait'} in the outbox for {whom}; 'cn outbox flush' tries now"
        click.echo("\n".join(wrap_around_commands(f"· {told}")), err=beside)
    # Neighbours together: each echo is a write of its own, and 1,000 of them took 30 ms.
    for error, lines in groupby(_lines(report, quiet, verbose), key=itemgetter(0)):
        click.echo("\n".join(text for _, text in lines), err=error or beside)


def _lines(report: Report, quiet: bool, verbose: bool) -> Iterator[tuple[bool, str]]:
    """What is printed, line by line; True: on standard error."""
    for note in report.notes:
        if note.told_before and not verbose:
            continue
        error = note.mark in (Mark.REFUSED, Mark.FAILED)
        if quiet and not error:
            continue
        yield error, "\n".join(lines_of(note))
        if error and note.hint:
            yield True, "\n".join(wrap_around_commands(f"  → {redact(visible(note.hint))}", 4))


def lines_of(note: Note) -> list[str]:
    """One note, in lines that fit a terminal. ``✓`` stands only before what was read back."""
    text = redact(visible(note.text))
    if note.mark is Mark.PLAN:
        return [f"would {text}" if ": " not in text else f"would: {text}"]
    word, colour, gap = _MARKS[note.mark]
    first, *more = wrap_around_commands(f"{word}{gap}{text}")
    return [f"{click.style(word, fg=colour) if colour else word}{first.removeprefix(word)}", *more]


_MARKS = {
    Mark.DONE: ("✓", "green", " "),
    Mark.INFO: ("·", "", " "),
    Mark.REFUSED: ("refused", "yellow", ": "),
    Mark.FAILED: ("failed", "red", ": "),
}


def show_json(value: Any, kind: str = "") -> None:
    """Print a value's JSON shape; in ASCII when it holds characters that must not reach a terminal."""
    from cn.views.shapes import to_json

    data = to_json(value, kind)
    text = jsonlib.dumps(data, ensure_ascii=False, indent=2)
    click.echo(text if visible(text) == text else jsonlib.dumps(data, indent=2))


def show_error(text: str, hint: str) -> None:
    """Print an error of the whole command."""
    first, *more = wrap_around_commands(f"cn: {redact(visible(text))}", 4)
    said = [click.style("cn", fg="red") + first.removeprefix("cn"), *more]
    click.echo("\n".join(said), err=True, color=COLOUR)
    if hint:
        click.echo("\n".join(wrap_around_commands(f"  → {redact(visible(hint))}", 4)), err=True)
