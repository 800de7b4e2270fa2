"""A large organisation: the list of what can be worked on, and who may do what through long chains of capabilities."""

from __future__ import annotations

import hashlib
import statistics
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from random import Random

from benchmarks.frame.place import Place, cn
from benchmarks.frame.workload import Cost, Plan, Result, Timed, Workload
from benchmarks.workloads.records import ACTOR, ANN, WHO, decide, number_uuid
from cn.agency.apply import apply
from cn.agency.events import Change, Delegated, Event, FileCreated, Founded, Granted, OutcomeCreated, format_message
from cn.agency.names import Resource, Uuid
from cn.agency.operations import ByHandler
from cn.agency.pages import README
from cn.agency.plan.access import access
from cn.agency.store.index import CHAINS, Index
from cn.agency.store.repository import MAIN, Places
from cn.agency.store.store import create_store, open_store

_AT = datetime(2026, 2, 5, tzinfo=UTC)
_EMPTY = hashlib.sha256(b"").hexdigest()
_ROOT, _STATE, _AUDIT = (number_uuid(-number) for number in (1, 2, 3))
_FOUNDED = Founded(_ROOT, "Help", "", ANN, "", _STATE, _AUDIT, _EMPTY, 0)
_GROUPS = 100
_CHAIN = 8
_LOOKS = 2000


class ListWorkable(Timed):
    """``cn outcome list --workable`` into a pipe, beside a command that does nothing."""

    row = "records"
    goal = 1.5
    sizes = (10_000,)
    base = "cn --version"

    def case(self, size: int) -> str:
        """How many there are."""
        return f"cn outcome list --workable, {size:,} outcomes"

    def build(self, place: Place, size: int) -> None:
        """A hundred outcomes below the root, and the others below these."""
        subprocess.run(cn("init", "-q", "bench", "--path", str(place.hub)), env=place.env, check=True)
        places = Places(place.hub / ".git/cn")
        store, _ = create_store(places, WHO, decide(_FOUNDED, lambda _: {"README.md": README.encode()}), lambda: _AT)
        tip = store.repository.tip()
        store.close()
        words = ["git", f"--git-dir={places.repository}", "fast-import", "--quiet", "--date-format=raw"]
        with subprocess.Popen(words, stdin=subprocess.PIPE) as child:
            assert child.stdin is not None
            for number in range(size):
                parent = _ROOT if number < _GROUPS else number_uuid(number % _GROUPS)
                made = (number_uuid(number), f"Outcome {number}, to be done", "", _ROOT, (parent,), _EMPTY, 0)
                text = format_message("bench", [Event(number + 2, _AT, ACTOR, OutcomeCreated(*made))]).encode()
                start = "" if number else f"from {tip.oid}\n"
                who = f"committer {WHO[0]} <{WHO[1]}> {tip.time} +0000"
                child.stdin.write(f"commit {MAIN}\n{who}\ndata {len(text)}\n".encode() + text + f"\n{start}".encode())
        opened = open_store(places, WHO)
        with opened.reading():
            pass
        opened.close()

    def command(self, place: Place) -> list[str]:
        """All of them: a pipe has no screen."""
        return cn("outcome", "list", "--workable")

    def floor(self, place: Place) -> list[str]:
        """The start of the command line."""
        return cn("--version")

    def check(self, cn: Place, floor: Place, said: str, floor_said: str) -> None:
        """Each that has none below it, and the head of the table."""
        assert len(said.splitlines()) > 1000


class Access(Workload):
    """May the last of eight handlers read a file of the first, through eight capabilities? Asked of the index."""

    row = "records"
    goal = 1.0

    def results(self, plan: Plan) -> Iterator[Result]:
        """20,000 capabilities, eight on each file."""
        for size in plan.sizes or (20_000,):
            index, handlers, files = _chains(size)
            chance, principal = Random(1), ByHandler(handlers[-1], 1, "user:ann")
            taken, bare = list[float](), list[float]()
            for _ in range(_LOOKS):
                file = chance.choice(files)
                begun = time.perf_counter()
                level = access(principal, Resource("kb", file), index)
                taken.append(time.perf_counter() - begun)
                assert level == "read"
                begun = time.perf_counter()
                found = _rows_of(index, handlers[-1], file)
                bare.append(time.perf_counter() - begun)
                assert found == _CHAIN
            index.close()
            case = f"access through {_CHAIN} of {size:,} capabilities"
            cost, floor = (Cost(statistics.median(times), _LOOKS) for times in (taken, bare))
            plan.say(f"{self.row}: {case}: {cost.value * 1e6:.0f} µs, its rows from SQLite {floor.value * 1e6:.0f} µs")
            yield Result(self.row, case, size, self.goal, cost, Cost(50e-6, 1), base="50 µs")
            yield Result(self.row, f"{case}, beside its rows", size, 0.0, cost, floor, base="SQLite")


def _rows_of(index: Index, holder: Uuid, file: Uuid) -> int:
    """The floor: what has to be known, asked of SQLite by hand; how many capabilities the chain has."""
    for question, *given in (
        ("SELECT * FROM handler WHERE id = ?", holder),
        ("SELECT * FROM outcome WHERE id = ?", file),
        ("SELECT * FROM file WHERE id = ?", file),
        ("SELECT * FROM tenure WHERE handler = ? AND number = ?", _ROOT, 1),
        ("SELECT * FROM handler WHERE id = ?", _ROOT),
        ("SELECT * FROM mail WHERE file = ?", file),
    ):
        index.database.execute(question, given).fetchone()
    return len(index.database.execute(CHAINS, (holder, 1, f"kb:{file}")).fetchall())


def _chains(size: int) -> tuple[Index, list[Uuid], list[Uuid]]:
    index = Index.in_memory()
    index.database.execute("BEGIN")
    seq = 0

    def add(change: Change) -> None:
        nonlocal seq
        seq += 1
        apply(index, Event(seq, _AT, ACTOR, change))

    add(_FOUNDED)
    handlers = [_ROOT]
    for number in range(1, _CHAIN + 1):
        id, boss = number_uuid(number), handlers[-1]
        add(OutcomeCreated(id, f"Layer {number}", "", boss, (boss,), _EMPTY, 0))
        add(Delegated(id, 1, boss, boss, "", number_uuid(-1000 - number), number_uuid(-2000 - number)))
        handlers.append(id)
    files = [number_uuid(10_000 + number) for number in range(size // _CHAIN)]
    for file in files:
        add(FileCreated(file, "file", "A file", _ROOT, 1, _EMPTY, 0, ()))
        for boss, holder in pairwise(handlers):
            add(Granted(number_uuid(1_000_000 + seq), holder, 1, boss, 1, f"kb:{file}", "read", holder))
    index.database.execute("COMMIT")
    return index, handlers, files


ORGANISATION = (ListWorkable(), Access())
