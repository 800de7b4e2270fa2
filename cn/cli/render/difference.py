"""Colours for the differences in a thread: which lines of it are added, removed, or head a hunk."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_FILE = re.compile(r"## .+ \((?:changed|deleted|renamed|type changed)\)")
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
HUNK = "cyan"
_MARKS = {"+": "green", "-": "red", " ": "", "": "", "\\": ""}
"""How a line of a hunk begins, and its colour; an editor may have taken the blank of an empty one."""


def line_colours(lines: Iterable[str]) -> Iterator[str]:
    """The colour of each line of what a peer proposes, as cn wrote it without its quotation marks; empty: none.

    A difference begins with the hunk that stands below the heading of a file, and each hunk has as many lines as
    its head says: a text that only looks like one has no colours.
    """
    begins, old, new = False, 0, 0
    for line in lines:
        mark = line[:1]
        if (old > 0 or new > 0) and mark in _MARKS:
            old, new = old - (mark in ("-", " ", "")), new - (mark in ("+", " ", ""))
            yield _MARKS[mark]
        elif begins and (hunk := _HUNK.match(line)):
            old, new = (int(count or 1) for count in hunk.groups())
            yield HUNK
        else:
            begins, old, new = bool(_FILE.fullmatch(line)) or (begins and mark in ("", "\\")), 0, 0
            yield ""
