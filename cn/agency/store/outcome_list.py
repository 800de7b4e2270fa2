"""Outcomes in a list, workable ones first: one question to the index, whose answer a person waits for.

It imports next to nothing. :func:`open_quickly` finds out without git whether the index may be asked as it is.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cn import __version__

if TYPE_CHECKING:
    from cn.agency.names import Uuid

OPEN, WORKABLE, WAITING, BLOCKED = "open", "workable", "waiting", "blocked"
"""What an open outcome can be: something can be done about it, about one below it, or not now."""

_HELD = "o.blocked <> '' AND (o.until IS NULL OR o.until > :now)"
_HAS_OPEN_CHILD = """EXISTS (SELECT 1 FROM link JOIN outcome c ON c.id = link.child
                             WHERE link.parent = o.id AND c.status = 'open')"""
STATE = f"""CASE WHEN o.status <> 'open' THEN o.status WHEN {_HELD} THEN 'blocked'
                 WHEN {_HAS_OPEN_CHILD} THEN 'waiting' ELSE 'workable' END"""
"""The state of the row ``o`` of ``outcome`` at the second ``:now``."""
_BELOW = """WITH RECURSIVE below (id, depth) AS (
  SELECT :top, 0 UNION
  SELECT link.child, depth + 1 FROM below JOIN link ON link.parent = below.id WHERE depth < :depth) """


class Row(NamedTuple):
    """An outcome in a list. ``state`` is what can be done about it, of an ended one its status."""

    id: Uuid
    title: str
    responsible: Uuid
    state: str
    blocked: str


class Listed(NamedTuple):
    """The first rows, and how many there are in all."""

    rows: list[Row]
    total: int


class Wanted(NamedTuple):
    """Which outcomes are listed: of a handler, workable, ended ones too, with words in title or text, not too deep."""

    handler: Uuid | None = None
    workable: bool = False
    ended: bool = False
    words: str = ""
    depth: int | None = None


def list_outcomes(database: sqlite3.Connection, wanted: Wanted, now: int, most: int) -> Listed:
    """What is workable first, then oldest first; at most ``most`` rows. ``now`` in seconds since 1970."""
    where = [] if wanted.ended else ["o.status = 'open'"]
    if wanted.workable:
        where = [f"o.status = 'open' AND NOT ({_HELD}) AND NOT {_HAS_OPEN_CHILD}"]
    if wanted.handler:
        where.append("o.responsible = :handler")
    if wanted.depth is not None:
        where.append("o.id IN (SELECT id FROM below)")
    state = "'workable'" if wanted.workable else STATE
    given = {"now": now, "handler": wanted.handler, "depth": wanted.depth, "top": wanted.handler or _root(database)}
    found = database.execute(
        f"{_BELOW if wanted.depth is not None else ''}"  # noqa: S608  no word of a caller
        f"SELECT o.id, o.title, o.responsible, {state}, o.blocked{', o.text' if wanted.words else ''} FROM outcome o"
        f" WHERE {' AND '.join(where) or '1'} ORDER BY o.since, o.id",
        given,
    ).fetchall()
    if wanted.words:
        words = wanted.words.casefold().split()
        found = [row[:5] for row in found if all(word in f"{row[1]}\n{row[5]}".casefold() for word in words)]
    if not wanted.workable:
        found.sort(key=lambda row: row[3] != WORKABLE)
    return Listed(list(map(Row._make, found[:most])), len(found))


def _root(database: sqlite3.Connection) -> str:
    (root,) = database.execute("SELECT root FROM head").fetchone() or ("",)
    return str(root)


def find_state(start: Path) -> Path | None:
    """The ``.git/cn`` of the hub around a folder, if it is plainly ours. None: git has to be asked."""
    try:
        for folder in (start, *start.parents):
            places = (folder / ".cn/hub.yaml", folder, folder / ".git")
            if places[0].is_file():
                ours = all(place.stat().st_uid == os.geteuid() for place in places) and places[2].is_dir()
                return places[2] / "cn" if ours else None
    except OSError:
        pass
    return None


def open_quickly(state: Path) -> sqlite3.Connection | None:
    """The index below a hub's ``.git/cn``, if this cn made it and it is of main's tip. None: the store has to look."""
    database = None
    try:
        tip = (state / "agency.git/refs/heads/main").read_text().strip()
        place = (state / "agency/index.sqlite").absolute().as_uri()
        database = sqlite3.connect(f"{place}?mode=ro", uri=True, isolation_level=None)
        database.execute("BEGIN")
        (made_from,) = database.execute("SELECT tip FROM made_from").fetchone()
        (version,) = database.execute("PRAGMA user_version").fetchone()
        schema = [row[0] for row in database.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL ORDER BY rowid")]
        if tip and made_from == tip and version == version_of(schema):
            return database
    except (OSError, ValueError, TypeError, sqlite3.Error):
        pass
    if database is not None:
        database.close()
    return None


def version_of(schema: list[str]) -> int:
    """What ``PRAGMA user_version`` says of an index that this cn made with these statements (``index.py``)."""
    return zlib.crc32("\n".join([__version__, *schema]).encode()) & 0x7FFFFFFF
