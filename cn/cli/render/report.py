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
from cn.values.report import Mark, Note, Report
from cn.values.text import redact, visible


def show_report(report: Report, *, json: bool, quiet: bool, verbose: bool, beside: bool = False) -> None:
    """Print a report; what was told before only with ``verbose``. ``beside``: all of it on standard error."""
    if json:
        show_json(report)
        return
    standing = sum(n.told_before and n.mark in (Mark.REFUSED, Mark.FAILED) for n in report.notes)
    if standing and not (quiet or verbose) and sys.stdout.isatty():
        problems = "1 problem stands" if standing == 1 else f"{standing} problems stand"
        click.echo(f"· {problems} as before; 'cn status' shows what, -v tells it again", err=beside)
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
        yield error, line(note)
        if error and note.hint:
            yield True, f"  → {redact(visible(note.hint))}"


def line(note: Note) -> str:
    """One line for one note. ``✓`` stands only before what was read back."""
    text = redact(visible(note.text))
    if note.mark is Mark.PLAN:
        return f"would {text}" if ": " not in text else f"would: {text}"
    word, colour, gap = _MARKS[note.mark]
    return f"{click.style(word, fg=colour) if colour else word}{gap}{text}"


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
    click.echo(f"{click.style('cn', fg='red')}: {redact(visible(text))}", err=True, color=COLOUR)
    if hint:
        click.echo(f"  → {redact(visible(hint))}", err=True)
