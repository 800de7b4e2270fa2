"""The index while much history is applied to it: what each event changes alone is written for many together."""

from __future__ import annotations

import sqlite3
from collections.abc import Hashable, Iterator, Sequence

from cn.agency.events import Event
from cn.agency.rows import Head, Row, RowOf
from cn.agency.store.index import Index

_TOGETHER = 1000


class Filling(Index):
    """Rows that are on their way into ``database``; :meth:`flush` belongs to the end.

    Until then the head and the last events are here alone: nobody may ask for histories, or end the transaction.
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        super().__init__(database)
        self._head = super().get(Head)
        self._lines: Iterator[str] = iter(())
        self._events: list[tuple[int, str]] = []
        self._subjects: list[tuple[str, int]] = []

    def read_next(self, message: str) -> None:
        """The message whose events come next: they are kept as it has them."""
        self._lines = iter(message.split("\n")[2:])

    def get(self, kind: type[RowOf], *key: Hashable) -> RowOf | None:
        """See :class:`cn.agency.rows.Facts`."""
        return self._head if kind is Head else super().get(kind, *key)  # type: ignore[return-value]

    def put(self, row: Row) -> None:
        """See :class:`cn.agency.rows.Rows`."""
        if isinstance(row, Head):
            self._head = row
        else:
            super().put(row)

    def record(self, event: Event, subjects: Sequence[str]) -> None:
        """See :class:`cn.agency.rows.Rows`."""
        self._events.append((event.seq, next(self._lines)))
        self._subjects += [(subject, event.seq) for subject in dict.fromkeys(subjects)]
        if len(self._events) >= _TOGETHER:
            self._write_events()

    def flush(self) -> None:
        """Write what is kept."""
        self._write_events()
        if self._head is not None:
            super().put(self._head)

    def _write_events(self) -> None:
        self.database.executemany("INSERT INTO event VALUES (?, ?)", self._events)
        self.database.executemany("INSERT INTO subject VALUES (?, ?)", sorted(self._subjects))
        self._events, self._subjects = [], []
