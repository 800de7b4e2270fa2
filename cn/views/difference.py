"""Differences in what a peer proposes: which lines of it are added, removed, or head a hunk. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Literal

from cn.protocol.proposal_text import INDENT, NEW_TEXT, read_heading, read_sections

Kind = Literal["", "added", "removed", "hunk"]
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_MARKS: dict[str, Kind] = {"+": "added", "-": "removed", " ": "", "": "", "\\": ""}
"""How a line of a hunk begins; an editor may have taken the blank of an empty one."""


def hunk_kinds(lines: Iterable[str]) -> Iterator[Kind]:
    """What each line of a file's difference is. Each hunk has as many lines as its head says."""
    begins, old, new = True, 0, 0
    for line in lines:
        mark = line[:1]
        if (old > 0 or new > 0) and mark in _MARKS:
            old, new = old - (mark in ("-", " ", "")), new - (mark in ("+", " ", ""))
            yield _MARKS[mark]
        elif begins and (hunk := _HUNK.match(line)):
            old, new = (int(count or 1) for count in hunk.groups())
            yield "hunk"
        else:
            begins = begins and mark in ("", "\\")
            old = new = 0
            yield ""


def line_kinds(lines: Sequence[str]) -> Iterator[Kind]:
    """What each line of a quotation is, without its marks: a difference stands indented below the heading of its file.

    A text in another form than that of a proposal has none, whatever it looks like.
    """
    sections = read_sections(lines)
    yield from repeat("", len(lines) - sum(1 + len(body) for _, body in sections))
    for head, body in sections:
        named = read_heading(head)
        yield ""
        if named is None or named[1] == "added" or NEW_TEXT in body:
            yield from repeat("", len(body))
        else:
            yield from hunk_kinds(line.removeprefix(INDENT) for line in body)
