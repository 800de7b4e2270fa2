"""The log: what happened, latest first, each row leading to what explains it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from cn.protocol.log import NOTHING, Row
from cn.views.log import LoggedAction
from cn.web.page import Page, Part

ROWS = 100


class Asked(NamedTuple):
    """What the log is asked for. ``page`` counts from 1."""

    peer: str = ""
    thread: str = ""
    since: str = ""
    text: str = ""
    page: int = 1


def read_asked(query: Mapping[str, str]) -> Asked:
    """The filters of a query."""
    peer, thread, since, text = (query.get(key, "")[:200].strip() for key in ("peer", "thread", "since", "text"))
    page = query.get("page", "1")
    return Asked(
        peer, thread, since, text, page=max(1, int(page)) if page.isascii() and page.isdigit() and len(page) < 6 else 1
    )


def log_page(
    rows: Sequence[LoggedAction], peers: Sequence[str], asked: Asked, is_ours: Callable[[str], bool], problem: str = ""
) -> Page:
    """The page; ``rows`` are oldest first, ``problem`` is what is wrong with what was asked.

    ``is_ours``: can a source be explained? A refused branch has neither a thread nor anything that we sent.
    """
    text = asked.text.casefold()
    found = [one for one in reversed(rows) if not text or text in _words(one.row)]
    start = (asked.page - 1) * ROWS
    given = {
        "rows": found[start : start + ROWS],
        "count": len(found),
        "asked": asked,
        "pages": max(1, -(-len(found) // ROWS)),
        "problem": problem,
        "explained_by": lambda one: explained_by(one, is_ours),
        "nothing": NOTHING,
    }
    parts = (
        Part("filters", "log-filters", {"asked": asked, "peers": peers}, live=False),
        Part("rows", "log-rows", given),
    )
    return Page("Log", "log", parts, status=400 if problem else 200)


def explained_by(happened: LoggedAction, is_ours: Callable[[str], bool]) -> str:
    """What 'cn why' explains a row by: the item, the thread, or what we sent; empty: nothing does."""
    row = happened.row
    return row.input or row.thread or (row.source if "/" in row.source and is_ours(row.source) else "")


def _words(row: Row) -> str:
    return f"{row.source} {row.decision} {row.executed} {row.thread} {row.branch}".casefold()
