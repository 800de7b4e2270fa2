"""The state of Agency as tables of SQLite: each kind of row of :mod:`cn.agency.rows` one table, made from its fields.

Everything in it is derived from the repository (``derived.py``). Each question stands in
:class:`cn.agency.rows.Facts`.
"""

from __future__ import annotations

import sqlite3
import types
import zlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, get_args, get_type_hints

import cn
from cn.agency.events import Event, format_event, parse_event
from cn.agency.names import OPEN, Party, Uuid
from cn.agency.rows import (
    KEYS,
    Agent,
    AuditEntry,
    Capability,
    Deferred,
    File,
    Grant,
    Mail,
    Row,
    RowOf,
    Rows,
    Tenure,
    Version,
    minute_of,
)
from cn.values.names import Oid


class _Table(NamedTuple):
    """How rows of a kind are kept: the statements, and what becomes of a value on its way in and out."""

    name: str
    create: str
    put: str
    drop: str
    get: str
    keys: int
    store: tuple[tuple[int, Callable[[Any], Any]], ...]
    load: tuple[tuple[int, Callable[[Any], Any]], ...]


def _to_seconds(at: datetime | None) -> int | None:
    return None if at is None else int(at.timestamp())


def _from_seconds(seconds: int | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _make_table(kind: type[Row]) -> _Table:
    hints = get_type_hints(kind)
    fields, keys = kind._fields, KEYS[kind]
    name = "".join(f"_{c.lower()}" if c.isupper() else c for c in kind.__name__).lstrip("_")
    columns = [f'"{field}"' for field in fields]
    store, load = list[tuple[int, Callable[[Any], Any]]](), list[tuple[int, Callable[[Any], Any]]]()
    for number, field in enumerate(fields):
        hint = hints[field]
        parts = get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        if datetime in parts:
            store.append((number, _to_seconds))
            load.append((number, _from_seconds))
        elif bool in parts:
            load.append((number, bool))
    where = " AND ".join(f"{column} = ?" for column in columns[:keys]) or "rowid = 1"
    extra = ", PRIMARY KEY ({})".format(", ".join(columns[:keys])) if keys else ""
    rowid, one = ("", "") if keys else ("rowid, ", "1, ")
    target = ", ".join(columns[:keys]) or "rowid"
    rest = ", ".join(f"{column} = excluded.{column}" for column in columns[keys:])
    put = f"INSERT INTO {name} ({rowid}{', '.join(columns)}) VALUES ({one}{', '.join('?' * len(columns))})"  # noqa: S608
    return _Table(
        name,
        f"CREATE TABLE {name} ({', '.join(columns)}{extra})",
        f"{put} ON CONFLICT ({target}) DO " + (f"UPDATE SET {rest}" if rest else "NOTHING"),
        f"DELETE FROM {name} WHERE {where}",  # noqa: S608
        f"SELECT {', '.join(columns)} FROM {name} WHERE {where}",  # noqa: S608
        keys,
        tuple(store),
        tuple(load),
    )


_TABLES: Final[Mapping[type[Row], _Table]] = {kind: _make_table(kind) for kind in KEYS}
_MORE = (
    "CREATE TABLE made_from (tip TEXT)",
    "CREATE TABLE event (seq INTEGER PRIMARY KEY, line TEXT)",
    "CREATE TABLE subject (subject TEXT, seq INTEGER, PRIMARY KEY (subject, seq)) WITHOUT ROWID",
    "CREATE INDEX link_parent ON link (parent)",
    f"CREATE INDEX outcome_open ON outcome (responsible, inbox, since) WHERE status = '{OPEN}'",
    "CREATE INDEX handler_parent ON handler (parent) WHERE active",
    "CREATE INDEX tenure_heir ON tenure (heir, heir_tenure) WHERE ended IS NOT NULL",
    'CREATE INDEX grant_holder ON "grant" (holder, holder_tenure, resource)',
    'CREATE INDEX grant_grantor ON "grant" (grantor, grantor_tenure)',
    "CREATE INDEX file_owner ON file (owner, owner_tenure, since)",
    "CREATE INDEX file_since ON file (since)",
    "CREATE INDEX reference_target ON reference (target)",
    "CREATE INDEX mail_file ON mail (file)",
    'CREATE INDEX mail_to ON mail ("to", to_tenure, seq)',
    'CREATE INDEX mail_pending ON mail ("to", seq) WHERE pending',
    "CREATE INDEX deferred_due ON deferred (due)",
    "CREATE INDEX deferred_sender ON deferred (sender, due)",
    "CREATE INDEX agent_live ON agent (handler) WHERE live",
    "CREATE INDEX agent_handler ON agent (handler)",
    "CREATE INDEX agent_token ON agent (token) WHERE live",
)
_SCHEMA: Final = tuple(table.create for table in _TABLES.values()) + _MORE
VERSION: Final = zlib.crc32("\n".join([cn.__version__, *_SCHEMA]).encode()) & 0x7FFFFFFF
"""What ``PRAGMA user_version`` says of an index that this cn made: another one is made anew."""


class Index(Rows):
    """The rows in a database; changes belong to a transaction that its user opens (:meth:`changing`)."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database
        self._ask = database.execute

    @classmethod
    def in_memory(cls, copy_of: Index | None = None) -> Index:
        """One that nobody else sees: empty, or with what another one holds."""
        made = cls(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False))
        if copy_of is None:
            made.create()
        else:
            copy_of.database.backup(made.database)
        return made

    def create(self) -> None:
        """Make the tables, in the transaction that is open."""
        for statement in _SCHEMA:
            self._ask(statement)
        self._ask("INSERT INTO made_from VALUES ('')")
        self._ask(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def changing(self) -> Iterator[None]:
        """A transaction, or a part of the one that is open: what raises leaves nothing of it behind."""
        inside = self.database.in_transaction
        self._ask("SAVEPOINT part" if inside else "BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if inside:
                self._ask("ROLLBACK TO part")
                self._ask("RELEASE part")
            elif self.database.in_transaction:
                self._ask("ROLLBACK")
            raise
        self._ask("RELEASE part" if inside else "COMMIT")

    @property
    def tip(self) -> Oid | None:
        """The commit whose state it is; None: of none."""
        row = self._ask("SELECT tip FROM made_from").fetchone()
        return Oid(row[0]) if row and row[0] else None

    def set_tip(self, tip: Oid) -> None:
        """It now is the state of this commit."""
        self._ask("UPDATE made_from SET tip = ?", (tip,))

    def dump(self) -> Iterator[tuple[object, ...]]:
        """Everything it holds but its tip, ordered by its contents alone: the table's name, and the row's values."""
        for name, keys in [*((t.name, t.keys) for t in _TABLES.values()), ("event", 1), ("subject", 2)]:
            order = ", ".join(str(number + 1) for number in range(keys)) or "rowid"
            for row in self._ask(f'SELECT * FROM "{name}" ORDER BY {order}'):  # noqa: S608  a table's name
                yield (name, *row)

    def put(self, row: Row) -> None:
        """See :class:`cn.agency.rows.Rows`."""
        table = _TABLES[type(row)]
        if not table.store:
            self._ask(table.put, row)
            return
        values = list(row)
        for number, convert in table.store:
            values[number] = convert(values[number])
        self._ask(table.put, values)

    def drop(self, row: Row) -> None:
        """See :class:`cn.agency.rows.Rows`."""
        table = _TABLES[type(row)]
        if self._ask(table.drop, row[: table.keys]).rowcount != 1:
            raise KeyError(row)

    def record(self, event: Event, subjects: Sequence[str]) -> None:
        """See :class:`cn.agency.rows.Rows`."""
        self._ask("INSERT INTO event VALUES (?, ?)", (event.seq, format_event(event)))
        for subject in dict.fromkeys(subjects):
            self._ask("INSERT INTO subject VALUES (?, ?)", (subject, event.seq))

    def get(self, kind: type[RowOf], *key: Hashable) -> RowOf | None:
        """See :class:`cn.agency.rows.Facts`, as for all that follow."""
        table = _TABLES[kind]  # type: ignore[index]
        row = self._ask(table.get, key).fetchone()
        return None if row is None else _load(kind, table, row)

    def _list(self, kind: type[RowOf], rest: str, *values: object) -> list[RowOf]:
        table = _TABLES[kind]  # type: ignore[index]
        return [_load(kind, table, row) for row in self._ask(f'SELECT * FROM "{table.name}" {rest}', values)]  # noqa: S608

    def _ids(self, statement: str, *values: object) -> list[Uuid]:
        return [row[0] for row in self._ask(statement, values)]

    def _one(self, statement: str, *values: object) -> Any:
        row = self._ask(statement, values).fetchone()
        return row[0] if row else None

    def children(self, outcome: Uuid) -> Sequence[Uuid]:
        """As they were linked."""
        return self._ids("SELECT child FROM link WHERE parent = ? ORDER BY rowid", outcome)

    def parents(self, outcome: Uuid) -> Sequence[Uuid]:
        """As they were linked."""
        return self._ids("SELECT parent FROM link WHERE child = ? ORDER BY rowid", outcome)

    def has_open_child(self, outcome: Uuid) -> bool:
        """Is there one?"""
        rows = "SELECT 1 FROM link JOIN outcome ON outcome.id = link.child WHERE link.parent = ? AND status = ? LIMIT 1"
        return self._one(rows, outcome, OPEN) is not None

    def open_outcomes(self, handler: Uuid) -> Sequence[Uuid]:
        """Oldest first."""
        return self._ids(f"SELECT id {_OPEN_OF} ORDER BY since, id", handler)

    def count_open(self, handler: Uuid) -> int:
        """How many."""
        return int(self._one(f"SELECT COUNT(*) {_OPEN_OF}", handler))

    def open_inbox(self, handler: Uuid) -> Uuid | None:
        """Its outcome for its mail."""
        rows = "SELECT id FROM outcome WHERE responsible = ? AND inbox AND status = ?"
        return next(iter(self._ids(rows, handler, OPEN)), None)

    def underlings(self, handler: Uuid) -> Sequence[Uuid]:
        """The active ones."""
        return self._ids("SELECT id FROM handler WHERE parent = ? AND active ORDER BY id", handler)

    def capabilities(self, holder: Uuid, tenure: int, resource: str) -> Sequence[Capability]:
        """By one question for all links of all chains."""
        rows = self._ask(CHAINS, (holder, tenure, resource))
        table = _TABLES[Grant]
        return [Capability(_load(Grant, table, row[:-2]), bool(row[-2]), bool(row[-1])) for row in rows]

    def grants_of(self, holder: Uuid, tenure: int) -> Sequence[Grant]:
        """Oldest first."""
        return self._list(Grant, "WHERE holder = ? AND holder_tenure = ? ORDER BY rowid", holder, tenure)

    def grants_by(self, grantor: Party, tenure: int) -> Sequence[Grant]:
        """Oldest first."""
        return self._list(Grant, "WHERE grantor = ? AND grantor_tenure = ? ORDER BY seq, id", grantor, tenure)

    def versions(self, file: Uuid) -> Sequence[Version]:
        """Oldest first."""
        return self._list(Version, "WHERE file = ? ORDER BY rowid", file)

    def files_of(self, owner: Party, tenure: int) -> Sequence[File]:
        """Oldest first."""
        return self._list(File, "WHERE owner = ? AND owner_tenure = ? ORDER BY since, id", owner, tenure)

    def written(self, handler: Uuid, since: datetime) -> int:
        """A few rows."""
        rows = "SELECT TOTAL(counted) FROM written WHERE handler = ? AND minute > ?"
        return int(self._one(rows, handler, minute_of(since)))

    def left_to(self, heir: Uuid, tenure: int) -> Sequence[Tenure]:
        """The ended ones."""
        return self._list(
            Tenure, "WHERE heir = ? AND heir_tenure = ? AND ended IS NOT NULL ORDER BY handler, number", heir, tenure
        )

    def files(self) -> Iterator[File]:
        """All of them."""
        table = _TABLES[File]
        return (_load(File, table, row) for row in self._ask("SELECT * FROM file ORDER BY rowid"))

    def files_like(self, words: str, after: int, limit: int) -> Sequence[File]:
        """By their descriptions."""
        found: list[File] = []
        folded = dict.fromkeys(words.casefold().split())
        rows = self._ask("SELECT * FROM file WHERE since > ? ORDER BY since, id", (after,))
        for file in map(File._make, rows):
            if len(found) == limit:
                break
            text = file.description.casefold()
            if all(word in text for word in folded):
                found.append(file)
        return found

    def references(self, source: Uuid) -> Sequence[Uuid]:
        """What it names."""
        return self._ids("SELECT target FROM reference WHERE source = ? ORDER BY rowid", source)

    def referenced_by(self, target: Uuid) -> Sequence[Uuid]:
        """Who names it."""
        return self._ids("SELECT source FROM reference WHERE target = ? ORDER BY source", target)

    def mail_with(self, file: Uuid) -> Sequence[Mail]:
        """Its deliveries, oldest first."""
        return self._list(Mail, "WHERE file = ? ORDER BY seq, id", file)

    def mail_to(self, party: Party, tenure: int) -> Sequence[Mail]:
        """Oldest first."""
        return self._list(Mail, 'WHERE "to" = ? AND to_tenure = ? ORDER BY seq, id', party, tenure)

    def pending(self, party: Party) -> Sequence[Mail]:
        """Oldest first."""
        return self._list(Mail, 'WHERE "to" = ? AND pending ORDER BY seq, id', party)

    def deferred_by(self, sender: Party) -> Sequence[Deferred]:
        """The earliest first."""
        return self._list(Deferred, "WHERE sender = ? ORDER BY due, id", sender)

    def due(self, now: datetime, limit: int) -> Sequence[Deferred]:
        """The earliest first."""
        return self._list(Deferred, "WHERE due <= ? ORDER BY due, id LIMIT ?", _to_seconds(now), limit)

    def live_agent(self, handler: Uuid) -> Agent | None:
        """The instance."""
        return next(iter(self._list(Agent, "WHERE handler = ? AND live", handler)), None)

    def agent_of(self, token: str) -> Agent | None:
        """The instance."""
        return next(iter(self._list(Agent, "WHERE token = ? AND live ORDER BY rowid", token)), None)

    def count_live(self) -> int:
        """How many."""
        return int(self._one("SELECT COUNT(*) FROM agent WHERE live"))

    def audit(self, handler: Uuid, before: int, limit: int) -> Sequence[AuditEntry]:
        """The last ones."""
        where = "WHERE handler = ? AND seq < ? ORDER BY seq DESC LIMIT ?"
        return self._list(AuditEntry, where, handler, before, limit)[::-1]

    def history(self, subject: str, before: int, limit: int) -> Sequence[Event]:
        """The last events."""
        rows = "SELECT line FROM subject JOIN event USING (seq) WHERE subject = ? AND seq < ? ORDER BY seq DESC LIMIT ?"
        return [parse_event(row[0]) for row in self._ask(rows, (subject, before, limit))][::-1]

    def find(self, prefix: str, limit: int) -> Sequence[Uuid]:
        """UUIDs that begin so, in their order."""
        rows = "SELECT id FROM file WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"
        return self._ids(rows, prefix, f"{prefix}~", limit)

    def close(self) -> None:
        """Let go of the database."""
        self.database.close()


_OPEN_OF = f"FROM outcome WHERE responsible = ? AND NOT inbox AND status = '{OPEN}'"


CHAINS: Final = f"""WITH RECURSIVE chain (link, seq, grantor, grantor_tenure) AS (
    SELECT rowid, seq, grantor, grantor_tenure FROM "grant" WHERE holder = ?1 AND holder_tenure = ?2 AND resource = ?3
    UNION SELECT g.rowid, g.seq, g.grantor, g.grantor_tenure FROM chain JOIN "grant" g
    ON g.holder = chain.grantor AND g.holder_tenure = chain.grantor_tenure AND g.resource = ?3 AND g.seq < chain.seq
) SELECT g.*, o.status = '{OPEN}', h.active AND h.tenure = g.grantor_tenure
FROM chain JOIN "grant" g ON g.rowid = link
LEFT JOIN outcome o ON o.id = g.scope LEFT JOIN handler h ON h.id = g.grantor"""  # noqa: S608
"""UNION takes a row once, however many chains lead to it (sqlite.org/lang_with.html)."""


def _load(kind: type[RowOf], table: _Table, row: tuple[Any, ...]) -> RowOf:
    if table.load:
        values = list(row)
        for number, convert in table.load:
            values[number] = convert(values[number])
        row = tuple(values)
    made: RowOf = kind._make(row)  # type: ignore[assignment]
    return made
