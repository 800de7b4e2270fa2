"""The state of Agency in dictionaries: what the index is compared with, and quick enough for thousands of histories."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import datetime
from typing import Any

from cn.agency.events import Event
from cn.agency.names import Party, Uuid
from cn.agency.rows import (
    KEYS,
    Agent,
    AuditEntry,
    Capability,
    Deferred,
    File,
    Grant,
    Handler,
    Link,
    Mail,
    Outcome,
    Reference,
    Row,
    RowOf,
    Rows,
    Tenure,
    Version,
    Written,
    minute_of,
)

_INDEXES: dict[str, tuple[type[Row], Callable[[Any], Hashable]]] = {
    "children": (Link, lambda row: row.parent),
    "parents": (Link, lambda row: row.child),
    "open": (Outcome, lambda row: row.responsible if row.is_open and not row.inbox else None),
    "inbox": (Outcome, lambda row: row.responsible if row.is_open and row.inbox else None),
    "underlings": (Handler, lambda row: row.parent if row.active else None),
    "grants_on": (Grant, lambda row: (row.holder, row.holder_tenure, row.resource)),
    "grants_of": (Grant, lambda row: (row.holder, row.holder_tenure)),
    "grants_by": (Grant, lambda row: (row.grantor, row.grantor_tenure)),
    "versions": (Version, lambda row: row.file),
    "files_of": (File, lambda row: (row.owner, row.owner_tenure)),
    "left_to": (Tenure, lambda row: (row.heir, row.heir_tenure) if row.ended else None),
    "references": (Reference, lambda row: row.source),
    "referenced_by": (Reference, lambda row: row.target),
    "mail_with": (Mail, lambda row: row.file),
    "mail_to": (Mail, lambda row: (row.to, row.to_tenure)),
    "pending": (Mail, lambda row: row.to if row.pending else None),
    "live": (Agent, lambda row: row.handler if row.live else None),
    "tokens": (Agent, lambda row: row.token if row.live else None),
    "audit": (AuditEntry, lambda row: row.handler),
}
"""Name → the kind of row, and the bucket in which a row stands; None: in none."""


_OF_KIND = {kind: [(name, where) for name, (of, where) in _INDEXES.items() if of is kind] for kind in KEYS}


class Memory(Rows):
    """Rows in dictionaries, with the indexes that the questions need."""

    def __init__(self) -> None:
        self._tables: dict[type[Row], dict[Hashable, Row]] = {kind: {} for kind in KEYS}
        self._buckets: dict[str, dict[Hashable, dict[Hashable, Row]]] = {name: defaultdict(dict) for name in _INDEXES}
        self._history: dict[str, list[Event]] = defaultdict(list)

    def put(self, row: Row) -> None:
        key = _key(row)
        self._unlist(key, self._tables[type(row)].get(key), row)
        self._tables[type(row)][key] = row
        for name, bucket in _buckets_of(row):
            self._buckets[name][bucket][key] = row

    def drop(self, row: Row) -> None:
        key = _key(row)
        self._unlist(key, self._tables[type(row)].pop(key), None)

    def _unlist(self, key: Hashable, old: Row | None, new: Row | None) -> None:
        """Take the old row out of the buckets in which the new one does not stand."""
        stays = set(_buckets_of(new)) if new else set()
        for name, bucket in _buckets_of(old) if old else ():
            if (name, bucket) not in stays:
                del self._buckets[name][bucket][key]

    def record(self, event: Event, subjects: Sequence[str]) -> None:
        for subject in subjects:
            self._history[subject].append(event)

    def rows(self) -> dict[type[Row], dict[Hashable, Row]]:
        """All rows, to be compared."""
        return {kind: dict(table) for kind, table in self._tables.items()}

    def of(self, kind: type[RowOf]) -> Iterator[RowOf]:
        """All rows of a kind."""
        yield from self._tables[kind].values()  # type: ignore[index, misc]

    def get(self, kind: type[RowOf], *key: Hashable) -> RowOf | None:
        return self._tables[kind].get(key)  # type: ignore[index, return-value]

    def _in(self, name: str, bucket: Hashable) -> list[Any]:
        return list(self._buckets[name].get(bucket, {}).values())

    def children(self, outcome: Uuid) -> Sequence[Uuid]:
        return [link.child for link in self._in("children", outcome)]

    def parents(self, outcome: Uuid) -> Sequence[Uuid]:
        return [link.parent for link in self._in("parents", outcome)]

    def has_open_child(self, outcome: Uuid) -> bool:
        return any((found := self.outcome(child)) and found.is_open for child in self.children(outcome))

    def open_outcomes(self, handler: Uuid) -> Sequence[Uuid]:
        return [row.id for row in sorted(self._in("open", handler), key=lambda row: (row.since, row.id))]

    def count_open(self, handler: Uuid) -> int:
        return len(self._buckets["open"].get(handler, {}))

    def open_inbox(self, handler: Uuid) -> Uuid | None:
        return next((row.id for row in self._in("inbox", handler)), None)

    def underlings(self, handler: Uuid) -> Sequence[Uuid]:
        return sorted(row.id for row in self._in("underlings", handler))

    def capabilities(self, holder: Uuid, tenure: int, resource: str) -> Sequence[Capability]:
        found: dict[Uuid, Capability] = {}
        todo: list[tuple[Party, int, float]] = [(holder, tenure, math.inf)]
        for party, number, before in todo:
            for one in self._in("grants_on", (party, number, resource)):
                if one.seq < before and one.id not in found:
                    scope, grantor = self.outcome(one.scope), self.get(Handler, one.grantor)
                    current = grantor is not None and grantor.active and grantor.tenure == one.grantor_tenure
                    found[one.id] = Capability(one, scope is not None and scope.is_open, current)
                    todo.append((one.grantor, one.grantor_tenure, one.seq))
        return list(found.values())

    def grants_of(self, holder: Uuid, tenure: int) -> Sequence[Grant]:
        return self._in("grants_of", (holder, tenure))

    def grants_by(self, grantor: Party, tenure: int) -> Sequence[Grant]:
        return sorted(self._in("grants_by", (grantor, tenure)), key=lambda row: (row.seq, row.id))

    def versions(self, file: Uuid) -> Sequence[Version]:
        return self._in("versions", file)

    def files_of(self, owner: Party, tenure: int) -> Sequence[File]:
        return sorted(self._in("files_of", (owner, tenure)), key=lambda row: (row.since, row.id))

    def written(self, handler: Uuid, since: datetime) -> int:
        found = (row for row in self.of(Written) if row.handler == handler)
        return sum(row.counted for row in found if row.minute > minute_of(since))

    def left_to(self, heir: Uuid, tenure: int) -> Sequence[Tenure]:
        return sorted(self._in("left_to", (heir, tenure)))

    def files_like(self, words: str, after: int, limit: int) -> Sequence[File]:
        wanted = words.casefold().split()
        found = (row for row in self.of(File) if row.since > after)
        fitting = [row for row in found if all(word in row.description.casefold() for word in wanted)]
        return sorted(fitting, key=lambda row: (row.since, row.id))[:limit]

    def references(self, source: Uuid) -> Sequence[Uuid]:
        return [row.target for row in self._in("references", source)]

    def referenced_by(self, target: Uuid) -> Sequence[Uuid]:
        return sorted(row.source for row in self._in("referenced_by", target))

    def mail_with(self, file: Uuid) -> Sequence[Mail]:
        return sorted(self._in("mail_with", file), key=lambda row: (row.seq, row.id))

    def mail_to(self, party: Party, tenure: int) -> Sequence[Mail]:
        return sorted(self._in("mail_to", (party, tenure)), key=lambda row: (row.seq, row.id))

    def pending(self, party: Party) -> Sequence[Mail]:
        return sorted(self._in("pending", party), key=lambda row: (row.seq, row.id))

    def deferred_by(self, sender: Party) -> Sequence[Deferred]:
        found = [row for row in self.of(Deferred) if row.sender == sender]
        return sorted(found, key=lambda row: (row.due, row.id))

    def due(self, now: datetime, limit: int) -> Sequence[Deferred]:
        ready = [row for row in self.of(Deferred) if row.due <= now]
        return sorted(ready, key=lambda row: (row.due, row.id))[:limit]

    def live_agent(self, handler: Uuid) -> Agent | None:
        return next(iter(self._in("live", handler)), None)

    def agent_of(self, token: str) -> Agent | None:
        return next(iter(self._in("tokens", token)), None)

    def count_live(self) -> int:
        return sum(map(len, self._buckets["live"].values()))

    def audit(self, handler: Uuid, before: int, limit: int) -> Sequence[AuditEntry]:
        return [row for row in self._in("audit", handler) if row.seq < before][-limit:]

    def history(self, subject: str, before: int, limit: int) -> Sequence[Event]:
        return [event for event in self._history.get(subject, []) if event.seq < before][-limit:]

    def find(self, prefix: str, limit: int) -> Sequence[Uuid]:
        return sorted(row.id for row in self.of(File) if row.id.startswith(prefix))[:limit]


def _key(row: Row) -> tuple[object, ...]:
    return row[: KEYS[type(row)]]


def _buckets_of(row: Row) -> list[tuple[str, Hashable]]:
    return [(name, bucket) for name, where in _OF_KIND[type(row)] if (bucket := where(row)) is not None]
