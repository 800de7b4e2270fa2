"""Showing reports: plain lines, marks that are true, errors on standard error."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, assert_never

import click

from cn.cli.render.terminal import colour
from cn.values.report import Mark, Note, Report
from cn.values.text import redact, visible


def show_report(report: Report, *, json: bool, quiet: bool, verbose: bool) -> None:
    """Print a report; what was told before only with ``verbose``."""
    if json:
        from cn.views.shapes import report_json

        show_json(report_json(report))
        return
    standing = sum(n.told_before and n.mark in (Mark.REFUSED, Mark.FAILED) for n in report.notes)
    if standing and not (quiet or verbose) and sys.stdout.isatty():
        problems = "1 problem stands" if standing == 1 else f"{standing} problems stand"
        click.echo(f"· {problems} as before; 'cn status' shows what, -v tells it again")
    # Neighbours together: each echo is a write of its own, and 1,000 of them took 30 ms.
    for error, lines in groupby(_lines(report, quiet, verbose), key=itemgetter(0)):
        click.echo("\n".join(text for _, text in lines), err=error)


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
    match note.mark:
        case Mark.DONE:
            return f"{click.style('✓', fg='green')} {text}"
        case Mark.INFO:
            return f"· {text}"
        case Mark.PLAN:
            return f"would {text}" if ": " not in text else f"would: {text}"
        case Mark.REFUSED:
            return f"{click.style('refused', fg='yellow')}: {text}"
        case Mark.FAILED:
            return f"{click.style('failed', fg='red')}: {text}"
        case _:
            assert_never(note.mark)


def show_json(data: Any) -> None:
    """Print one JSON value; in ASCII when it holds characters that must not reach a terminal."""
    text = jsonlib.dumps(data, ensure_ascii=False, indent=2)
    click.echo(text if visible(text) == text else jsonlib.dumps(data, indent=2))


def show_error(text: str, hint: str) -> None:
    """Print an error of the whole command."""
    click.echo(f"{click.style('cn', fg='red')}: {redact(visible(text))}", err=True, color=colour())
    if hint:
        click.echo(f"  → {redact(visible(hint))}", err=True)
