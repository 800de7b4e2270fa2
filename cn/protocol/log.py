"""The two logs: markdown rows for people, JSON lines for machines (``docs/protocol/logs.md``)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from cn.values.names import HubPath
from cn.values.text import cell, redact, uncell, unix_lines
from cn.values.timestamps import format_day, format_second

FOLDER = HubPath("logs/inbox")
NOTHING = "—"
_ROW = re.compile(r"\| (\d\d:\d\d) \| ((?:\\.|[^|\\])*) \| ((?:\\.|[^|\\])*) \| ((?:\\.|[^|\\])*) \|")


class Row(NamedTuple):
    """One action. ``source`` is ``peer/topic``; the rest after ``executed`` is for machines.

    ``input`` is the id of what the agent was asked, where its answer led to this, ``note``
    what more there is to say of it.
    """

    at: datetime
    source: str
    decision: str
    executed: str = NOTHING
    thread: str = ""
    branch: str = ""
    head: str = ""
    outcome: str = ""
    commit: str = ""
    input: str = ""
    note: str = ""


def log_path(at: datetime) -> HubPath:
    """The day's file."""
    return HubPath(f"{FOLDER}/{format_day(at)}.md")


def format_row(row: Row) -> str:
    """One row of the table; no text in it can end the cell or the row."""
    cells = (cell(row.source), cell(redact(row.decision)), cell(redact(row.executed), 400))
    return f"| {row.at.astimezone(UTC):%H:%M} | " + " | ".join(cells) + " |"


def append_rows(text: str, rows: Sequence[Row]) -> str:
    """The day's file with more rows; a new file gets its heading."""
    if not text and rows:
        text = (
            f"# Inbox Log: {rows[0].at.astimezone(UTC):%Y-%m-%d}\n\n"
            "| Time | Source | Decision | Executed |\n|------|--------|----------|----------|\n"
        )
    text = unix_lines(text.removeprefix("\ufeff"))  # as a person's tools may have left it
    if text and not text.endswith("\n"):
        text += "\n"
    return text + "".join(format_row(row) + "\n" for row in rows)


def parse_rows(text: str, day: str) -> list[Row]:
    """The rows of one day's file; ``day`` is ``YYYYMMDD`` from its name. Other lines are skipped."""
    found = []
    for line in text.split("\n"):
        match = _ROW.fullmatch(line.rstrip(" \t\r"))
        if match:
            try:
                at = datetime.strptime(f"{day} {match[1]}", "%Y%m%d %H:%M").replace(tzinfo=UTC)
            except ValueError:
                continue  # somebody edited it
            found.append(Row(at, uncell(match[2]), uncell(match[3]), uncell(match[4])))
    return found


def format_event(row: Row) -> str:
    """The same action as one JSON line of ``logs/cn.log``, secrets taken out."""
    data = {name: value for name, value in row._asdict().items() if value and name != "at"}
    return json_line({"time": format_second(row.at), "event": "inbox", **data})


def json_line(data: Mapping[str, object]) -> str:
    """One JSON line, secrets taken out of each value: taken out of the line, they may take a quote along."""
    return json.dumps({key: redact(v) if isinstance(v, str) else v for key, v in data.items()}, ensure_ascii=True)
