"""Threads: all of them, of peers and our own, waiting and done, with filters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from cn.threads.store import OwnDocument
from cn.views.done import DoneRow
from cn.views.threads import ThreadView
from cn.views.words import state_text
from cn.web.page import Page, Part

ROWS = 100
"""Threads on a page."""
STATES = (
    "waiting",
    "pending",
    "queued",
    "claimed",
    "decided",
    "refused",
    "dead",
    "answered",
    "withdrawn",
    "deferred",
    "assigned",
    "done",
)
AGES: Mapping[str, timedelta] = {"1d": timedelta(days=1), "7d": timedelta(days=7), "30d": timedelta(days=30)}


class Row(NamedTuple):
    """A thread in the list. ``state`` is for its colour, ``words`` for people; ``ended`` when it was decided."""

    name: str
    title: str
    source: str
    peer: str
    kind: str
    state: str
    words: str
    since: datetime | None
    ended: datetime | None = None
    reason: str = ""


class Filters(NamedTuple):
    """What is asked for; an empty one leaves everything in. ``page`` counts from 1."""

    peer: str = ""
    state: str = "waiting"
    age: str = ""
    text: str = ""
    page: int = 1


def read_filters(query: Mapping[str, str]) -> Filters:
    """The filters of a query; what it cannot mean is left out."""
    state, age, page = query.get("state", "waiting"), query.get("age", ""), query.get("page", "1")
    return Filters(
        query.get("peer", "")[:100],
        state if state in (*STATES, "all") else "waiting",
        age if age in AGES else "",
        query.get("text", "")[:200].strip(),
        min(max(1, int(page)), 10_000) if page.isascii() and page.isdigit() and len(page) < 6 else 1,
    )


def threads_page(
    pending: Iterable[ThreadView],
    own: Iterable[OwnDocument],
    done: Sequence[DoneRow],
    peers: Sequence[str],
    filters: Filters,
    now: datetime,
) -> Page:
    """The page of what the filters leave: what waits, oldest first, then what is done, in the order of ``done``."""
    first = [*map(_pending_row, pending), *map(_own_row, own)] if filters.state != "done" else []
    waiting = [row for row in first if _fits(row, filters, now)]
    ended = _ended(done, filters, now) if filters.state in ("done", "all") else ()
    start = (filters.page - 1) * ROWS
    end = start + ROWS
    rest = ended[max(0, start - len(waiting)) : max(0, end - len(waiting))]
    count = len(waiting) + len(ended)
    given = {
        "rows": [*waiting[start:end], *map(_done_row, rest)],  # of ten thousand only those are made that are shown
        "count": count,
        "start": start,
        "filters": filters,
        "pages": max(1, -(-count // ROWS)),
    }
    asked = {"filters": filters, "peers": peers, "states": STATES, "ages": AGES}
    parts = Part("filters", "threads-filters", asked, live=False), Part("rows", "threads-rows", given)
    return Page("Threads", "threads", parts)


def _fits(row: Row, filters: Filters, now: datetime) -> bool:
    if filters.peer and row.peer != filters.peer:
        return False
    if filters.state not in ("waiting", "all", row.state):
        return False
    if filters.age and (row.since is None or now - row.since > AGES[filters.age]):
        return False
    text = filters.text.casefold()
    return not text or any(text in word.casefold() for word in (row.title, row.source, row.words))


def _ended(done: Sequence[DoneRow], filters: Filters, now: datetime) -> Sequence[DoneRow]:
    """The same for what is done; its age is that of its end."""
    if filters.peer:
        done = [row for row in done if row.peer == filters.peer]
    if filters.age:
        done = [row for row in done if now - row.decided <= AGES[filters.age]]
    if text := filters.text.casefold():
        done = [row for row in done if text in f"{row.subject} {row.source} {row.status} {row.actor}".casefold()]
    return done


def _pending_row(one: ThreadView) -> Row:
    words = state_text(one)
    return Row(
        one.thread, one.subject, one.source, one.peer, one.kind, one.state, words, one.received, None, one.reason
    )


def _own_row(one: OwnDocument) -> Row:
    own = one.own
    words = own.state if one.committed else f"{own.state}, not committed"
    return Row(own.path, own.title, own.source, "", own.cadence.value, own.state, words, own.opened)


def _done_row(one: DoneRow) -> Row:
    words = f"{one.status or one.decision} by {one.actor}" if one.actor else one.status
    return Row(one.thread, one.subject, one.source, one.peer, one.kind, "done", words, one.received, one.decided)
