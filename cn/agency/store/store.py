"""Write to Agency's records, and read them: the repository is the truth, the index answers.

:meth:`Store.write` decides and commits under the lock: what it returns is on disk, and main's tip when it was written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Generic, NamedTuple, TypeVar

from cn.agency.events import parse_message
from cn.agency.rows import Facts, Rows
from cn.agency.store.damage import brings_back
from cn.agency.store.derived import DerivedIndex, build_in_memory
from cn.agency.store.index import Index
from cn.agency.store.repository import Commit, Draft, Moved, Places, Repository, create_records, open_records
from cn.system.clock import now
from cn.values.errors import ConfigError, Refused
from cn.values.names import Oid

_T = TypeVar("_T")
_TRIES = 5
WAIT = 30.0
"""Seconds that a writer waits for others at most."""


class Base(NamedTuple):
    """What a write builds on: the last commit (None: none yet), the time of the new events, and the machine's clock.

    ``now`` is never before the last commit's, whatever the clock says; what is given as a time is compared with
    ``clock``.
    """

    tip: Oid | None
    now: datetime
    clock: datetime


class Decided(NamedTuple, Generic[_T]):
    """What is to be written (None: nothing), and what to answer once it is."""

    draft: Draft | None
    answer: _T


class Written(NamedTuple, Generic[_T]):
    """The answer, the commit (None: nothing was written), and sentences about what else had to be done."""

    answer: _T
    commit: Oid | None
    told: tuple[str, ...]


Decide = Callable[[Rows, Base], Decided[_T]]
"""Plans on the rows, and applies to them what it accepts. May be called again, on other rows."""


class Store:
    """The records, opened. ``clock`` is asked for the time of each write."""

    def __init__(self, repository: Repository, clock: Callable[[], datetime] = now) -> None:
        self.repository, self._clock = repository, clock
        self._index = DerivedIndex(repository)

    def write(self, decide: Decide[_T], wait: float = WAIT) -> Written[_T]:
        """Let ``decide`` plan on the present state, and commit what it wants: all of it, or nothing.

        Raises :class:`LockHeld` after ``wait`` seconds, :class:`Blocked` where it cannot be written, and what
        ``decide`` raises; then nothing was.
        """
        with self.repository.lock.held(wait):
            tries = _TRIES
            while True:
                tries -= 1
                try:
                    return self._write_on(self.repository.tip(), decide)
                except Moved:
                    if not tries:
                        raise

    def _write_on(self, tip: Commit, decide: Decide[_T]) -> Written[_T]:
        """On the index; where that is damaged on one made anew, and where none can be kept on one in memory."""
        try:
            try:
                return self._decide_on(self._index.current(tip), tip, decide)
            except sqlite3.DatabaseError:
                self._index.rebuild(tip)
                return self._decide_on(self._index.current(tip), tip, decide)
        except (sqlite3.Error, OSError) as why:
            self._index.close()
            memory = build_in_memory(self.repository, tip)
            try:
                written = self._decide_on(memory, tip, decide)
            finally:
                memory.close()
            return written._replace(told=(*written.told, _untold(why)))

    def _decide_on(self, index: Index, tip: Commit, decide: Decide[_T]) -> Written[_T]:
        database = index.database
        database.execute("BEGIN IMMEDIATE")
        try:
            clock = self._clock()
            at = max(int(clock.timestamp()), tip.time)
            head = index.head()
            draft, answer = decide(index, Base(tip.oid, datetime.fromtimestamp(at, UTC), clock))
            if draft is None:
                database.execute("ROLLBACK")
                return Written(answer, None, ())
            check_draft(draft, head.seq if head else 0, at)
            commit, told = self.repository.append(tip, draft, at)
        except BaseException:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise
        try:
            index.set_tip(commit.oid)
            database.execute("COMMIT")
        except sqlite3.Error as why:  # main has it: this is no error of what was asked
            self._index.close()
            told = (*told, _untold(why))
        return Written(answer, commit.oid, told)

    @contextmanager
    def reading(self) -> Iterator[Facts]:
        """The state as it is now. Waits for nobody."""
        with self._index.reading() as facts:
            yield facts

    def close(self) -> None:
        """Let go of everything."""
        self._index.close()
        self.repository.close()


def _untold(why: Exception) -> str:
    what = f"the index of Agency's records could not be kept ({why})"
    return f"{what}; it is made anew once nothing is in the way: 'cn doctor' tells"


def check_draft(draft: Draft, seq: int, at: int) -> None:
    """What could not be read again is not written: events count on from ``seq``, and have the commit's time."""
    for number, event in enumerate(parse_message(draft.message), seq + 1):
        assert event.seq == number, f"event {event.seq} is to be {number}"
        assert int(event.time.timestamp()) == at, f"event {number} is not of the time of its commit"


def open_store(places: Places, identity: tuple[str, str], clock: Callable[[], datetime] = now) -> Store:
    """The records of a hub; raises :class:`ConfigError` where there are none yet."""
    repository = open_records(places, identity)
    if repository is None:
        begin = "'cn agency init' begins one, with records of its own"
        begin = f"if another clone of this hub has one, work there; else {begin}"
        remedy = "; ".join(filter(None, (brings_back(places), begin)))
        raise ConfigError(f"there is no Agency in {places.state}", remedy)
    return Store(repository, clock)


def create_store(
    places: Places, identity: tuple[str, str], decide: Decide[_T], clock: Callable[[], datetime] = now
) -> tuple[Store, _T]:
    """Make the records with their first write; raises :class:`Refused` where there are some."""
    at = clock()
    index = Index.in_memory()
    try:
        draft, answer = decide(index, Base(None, at, at))
    finally:
        index.close()
    if draft is None:
        raise Refused("Agency begins with an event", "found it with a root outcome")
    check_draft(draft, 0, int(at.timestamp()))
    return Store(create_records(places, identity, draft, int(at.timestamp())), clock), answer
