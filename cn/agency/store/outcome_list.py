"""Outcomes in a list, workable ones first: one question to the index, whose answer a person waits for.

It imports next to nothing. :func:`open_quickly` finds out without git whether the index may be asked as it is.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from cn import __version__

if TYPE_CHECKING:
    from cn.agency.names import Uuid

    Ready = tuple[Uuid, Uuid, str]
    """A workable outcome: its UUID, who is responsible, its title."""
    Other = tuple[Uuid, Uuid, str, str, str]
    """The same of another, what can be done about it (if it ended, its status), and the reason why it is blocked.

    Plain tuples: ten thousand named ones take as long as the question."""

OPEN, WORKABLE, WAITING, BLOCKED = "open", "workable", "waiting", "blocked"
"""What an open outcome can be: something can be done about it, about one below it, or not now."""

_HELD = "o.blocked <> '' AND (o.until IS NULL OR o.until > :now)"
_HAS_OPEN_CHILD = """EXISTS (SELECT 1 FROM link JOIN outcome c ON c.id = link.child
                             WHERE link.parent = o.id AND c.status = 'open')"""
IS_WORKABLE = f"o.status = 'open' AND NOT ({_HELD}) AND NOT {_HAS_OPEN_CHILD}"
"""Is the row ``o`` of ``outcome`` workable at the second ``:now``, by whoever is responsible?"""
STATE = f"""CASE WHEN o.status <> 'open' THEN o.status WHEN {_HELD} THEN 'blocked'
                 WHEN {_HAS_OPEN_CHILD} THEN 'waiting' ELSE 'workable' END"""
"""The state of the row ``o`` of ``outcome`` at the second ``:now``."""
_PARENTS = f"SELECT o.id FROM (SELECT DISTINCT parent AS id FROM link) o WHERE {_HAS_OPEN_CHILD}"  # noqa: S608
"""Outcomes with an open child. Few are parents: they are asked for by themselves, not of each outcome."""
_BELOW = """WITH RECURSIVE below (id, depth) AS (
  SELECT :top, 0 UNION
  SELECT link.child, depth + 1 FROM below JOIN link ON link.parent = below.id WHERE depth < :depth) """

SIDES = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a database (sqlite.org/tempfiles.html)."""


class Listed(NamedTuple):
    """The first outcomes, those that are workable before all others, and how many there are in all."""

    workable: list[Ready]
    others: list[Other]
    total: int


class Wanted(NamedTuple):
    """Which outcomes are listed: of a handler, workable, ended ones too, with words in title or text, not too deep."""

    handler: Uuid | None = None
    workable: bool = False
    ended: bool = False
    words: str = ""
    depth: int | None = None


def list_outcomes(database: sqlite3.Connection, wanted: Wanted, now: int, most: int) -> Listed:
    """What is workable first, then oldest first; at most ``most``. ``now`` in seconds since 1970."""
    waiting = {row[0] for row in database.execute(_PARENTS)}
    ready = _ask(database, wanted, now, "", f"o.status = 'open' AND NOT ({_HELD})")
    ready = [row for row in ready if row[0] not in waiting]
    others = []
    if not wanted.workable:
        where = f"(o.status <> 'open' OR {_HELD} OR o.id IN ({_PARENTS}))"
        reason = f"CASE WHEN {_HELD} THEN o.blocked ELSE '' END"
        others = _ask(
            database, wanted, now, f", {STATE}, {reason}", where if wanted.ended else f"o.status = 'open' AND {where}"
        )
    return Listed(ready[:most], others[: max(0, most - len(ready))], len(ready) + len(others))


def _ask(database: sqlite3.Connection, wanted: Wanted, now: int, more: str, where: str) -> list[Any]:
    """Outcomes for which ``where`` holds, as they were made. Each column costs: they are no more than what is shown."""
    if wanted.handler:
        where += " AND o.responsible = :handler"
    if wanted.depth is not None:
        where += " AND o.id IN (SELECT id FROM below)"
    given = {"now": now, "handler": wanted.handler, "depth": wanted.depth, "top": wanted.handler or _root(database)}
    found = database.execute(
        f"{_BELOW if wanted.depth is not None else ''}"  # noqa: S608  no word of a caller
        f"SELECT o.id, o.responsible, o.title{more}{', o.text' if wanted.words else ''} FROM outcome o"
        f" WHERE {where} ORDER BY o.rowid",
        given,
    ).fetchall()
    if not wanted.words:
        return found
    words = dict.fromkeys(wanted.words.casefold().split())
    return [row[:-1] for row in found if all(word in f"{row[2]}\n{row[-1]}".casefold() for word in words)]


def _root(database: sqlite3.Connection) -> str:
    (root,) = database.execute("SELECT root FROM head").fetchone() or ("",)
    return str(root)


def find_state(start: str) -> str:
    """The ``.git/cn`` of the hub around an absolute folder, if it is plainly ours. Empty: git has to be asked."""
    folder = start
    try:
        while not os.path.isfile(f"{folder}/.cn/hub.yaml"):
            if folder == (folder := os.path.dirname(folder)):
                return ""
        places = (f"{folder}/.cn/hub.yaml", folder, f"{folder}/.git")
        ours = all(os.stat(place).st_uid == os.geteuid() for place in places) and os.path.isdir(places[2])
    except OSError:
        return ""
    return f"{folder}/.git/cn" if ours else ""


def open_quickly(state: str) -> sqlite3.Connection | None:
    """The index below a hub's ``.git/cn``, if this cn made it and it is of main's tip. None: the store has to look, as
    where git would open no repository.
    """
    database = None
    head, ref = f"{state}/agency.git/HEAD", f"{state}/agency.git/refs/heads/main"
    place = f"{state}/agency/index.sqlite"
    try:
        names = ("agency.git", "agency.git/objects", "agency")
        folders = [stat.S_ISDIR(_mode_of_ours(f"{state}/{name}")) for name in names]
        files = [stat.S_ISREG(_mode_of_ours(path)) for path in (head, ref, place)]
        if not all(folders + files) or not all(is_plain(place + side) for side in SIDES):
            return None
        with open(head, encoding="ascii") as file:
            if file.read().strip() != "ref: refs/heads/main":
                return None
        with open(ref, encoding="ascii") as file:
            tip = file.read().strip()
        for mark in "%?#":  # what means something in a URI of SQLite (sqlite.org/uri.html)
            place = place.replace(mark, f"%{ord(mark):02x}")
        database = sqlite3.connect(f"file:{place}?mode=ro", uri=True, isolation_level=None)
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


def _mode_of_ours(path: str) -> int:
    """Of what is there itself, be it a link; 0 of what is another user's."""
    found = os.lstat(path)
    return found.st_mode if found.st_uid == os.geteuid() else 0


def is_plain(path: str) -> bool:
    """None, or a regular file of ours or of the folder's owner: SQLite waits for a pipe, and no signal ends that."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return True
    owners = (os.geteuid(), os.lstat(os.path.dirname(path)).st_uid)
    return stat.S_ISREG(found.st_mode) and found.st_uid in owners


def version_of(schema: list[str]) -> int:
    """What ``PRAGMA user_version`` says of an index that this cn made with these statements (``index.py``)."""
    return zlib.crc32("\n".join([__version__, *schema]).encode()) & 0x7FFFFFFF
