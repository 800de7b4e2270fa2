"""Colours for the differences in a thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cn.views.difference import line_kinds

HUNK = "cyan"
_COLOURS = {"added": "green", "removed": "red", "hunk": HUNK, "": ""}


def line_colours(lines: Sequence[str]) -> Iterator[str]:
    """The colour of each line of what a peer proposes; empty: none (:func:`cn.views.difference.line_kinds`)."""
    return (_COLOURS[kind] for kind in line_kinds(lines))
