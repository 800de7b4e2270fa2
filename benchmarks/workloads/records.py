"""Agency's records: a write beside a bare loop of the same objects, what an event weighs, the index made anew."""

from __future__ import annotations

import hashlib
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from benchmarks.frame.bare_loop import Loop
from benchmarks.frame.measure import size_of
from benchmarks.frame.workload import Cost, Plan, Result, Workload
from cn.agency.apply import apply
from cn.agency.events import Change, Event, FileCreated, FileRead, FileWritten, Founded, format_message
from cn.agency.names import Actor, Uuid, parse_uuid, user
from cn.agency.pages import README, folder_of, page_of
from cn.agency.rows import Facts, Rows
from cn.agency.store.packing import pack
from cn.agency.store.repository import MAIN, Draft, Places
from cn.agency.store.store import Base, Decide, Decided, Store, create_store, open_store
from cn.git.objects import read_raw

_AT = datetime(2026, 2, 5, tzinfo=UTC)
WHO = ("bench", "bench@cn.invalid")
ANN, ACTOR = user("ann"), Actor("user:ann")
_FILES = 100
_WRITES = 200
_NO_LINKS: tuple[Uuid, ...] = ()


class Records(Workload):
    """Writes by one process into records that hold so many events already."""

    row = "records"
    goal = 2.0

    def results(self, plan: Plan) -> Iterator[Result]:
        """At each size: a pure event, a file, an event's bytes, the index made anew."""
        for size in plan.sizes or ((10_000, 100_000) if plan.full else (10_000,)):
            folder = plan.scratch / "records"
            store = build(folder, size)
            try:
                for result in self._measured(store, size):
                    plan.say(f"{result.row}: {result.case}: {result.cn.value:.6g} {result.unit}, {result.ratio:.2f} ×")
                    yield result
            finally:
                store.close()
                shutil.rmtree(folder)

    def _measured(self, store: Store, size: int) -> Iterator[Result]:
        name = f"{size:,} events"
        with store.reading() as facts:
            (file,) = facts.find("", 1)
        before = _packed(store)
        ours, floor = _interleaved(store, lambda number: decide(FileRead(file, 1)))
        yield Result(self.row, f"a pure event, {name}", size, 0, Cost(ours, _WRITES), Cost(floor, _WRITES))
        added = (_packed(store) - before) / _WRITES
        yield Result(
            self.row, f"bytes of an event when packed, {name}", size, 1, Cost(added, 1), Cost(300, 1), unit="bytes"
        )
        ours, floor = _interleaved(store, lambda number: create(number_uuid(size + number), b"content %d\n" % number))
        yield Result(self.row, f"a new file, {name}", size, self.goal, Cost(ours, _WRITES), Cost(floor, _WRITES))
        version = iter(range(2, 2 + _WRITES))
        ours, floor = _interleaved(store, lambda number: overwrite(file, next(version), b"new %d\n" % number))
        yield Result(self.row, f"a file once more, {name}", size, self.goal, Cost(ours, _WRITES), Cost(floor, _WRITES))
        tip = store.repository.tip()
        begun = time.process_time()
        rebuilt = _seconds(lambda: store._index.rebuild(tip))
        used = time.process_time() - begun
        words = ["git", f"--git-dir={store.repository.folder}", "log", "--reverse", "--format=%B", MAIN]
        read = _seconds(lambda: subprocess.run(words, stdout=subprocess.DEVNULL, check=True))
        yield Result(self.row, f"the index made anew, {name}", size, 0, Cost(rebuilt, 1), Cost(read, 1), base="git log")
        case = f"processor time of that, {name}"
        yield Result(self.row, case, size, 0, Cost(used, 1), Cost(read, 1), base="git log")


def decide(change: Change, files: Callable[[Facts], dict[str, bytes | None]] = lambda _: {}) -> Decide[None]:
    """This one change, whatever the state is, with the files that follow from it."""

    def decided(rows: Rows, base: Base) -> Decided[None]:
        head = rows.head()
        event = Event(head.seq + 1 if head else 1, base.now, ACTOR, change)
        apply(rows, event)
        return Decided(Draft(format_message("bench", [event]), files(rows)), None)

    return decided


def create(file: Uuid, content: bytes) -> Decide[None]:
    """A new file with its page."""
    name = hashlib.sha256(content).hexdigest()
    change = FileCreated(file, "file", f"File {file[:8]}", ANN, 0, name, len(content), _NO_LINKS)
    return decide(change, lambda facts: _files(facts, file, name, content))


def overwrite(file: Uuid, version: int, content: bytes) -> Decide[None]:
    """Another version, and the page that names it."""
    name = hashlib.sha256(content).hexdigest()
    change = FileWritten(file, version, name, len(content), _NO_LINKS)
    return decide(change, lambda facts: _files(facts, file, name, content))


def _files(facts: Facts, file: Uuid, name: str, content: bytes) -> dict[str, bytes | None]:
    row = facts.file(file)
    assert row is not None
    folder = folder_of(file)
    return {f"{folder}/{name}": content, f"{folder}/FILE.md": page_of(facts, row).encode()}


def number_uuid(number: int) -> Uuid:
    """The same for the same number."""
    return parse_uuid(str(UUID(bytes=hashlib.sha256(b"%d" % number).digest()[:16], version=4)))


def build(folder: Path, size: int) -> Store:
    """Records with a root, 100 files, and events up to ``size``, the most of them brought in by fast-import."""
    places = Places(folder / "cn")
    empty = hashlib.sha256(b"").hexdigest()
    root, state, audit = (number_uuid(-number) for number in (1, 2, 3))
    founded = Founded(root, "Help", "", ANN, "", state, audit, empty, 0)
    store, _ = create_store(places, WHO, decide(founded, lambda _: {"README.md": README.encode()}), lambda: _AT)
    for number in range(_FILES):
        store.write(create(number_uuid(number), b"first %d\n" % number))
    tip, made = store.repository.tip(), 1 + _FILES
    store.close()
    words = ["git", f"--git-dir={store.repository.folder}", "fast-import", "--quiet", "--date-format=raw"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as child:
        assert child.stdin is not None
        for seq in range(made + 1, size + 1):
            event = Event(seq, datetime.fromtimestamp(tip.time, UTC), ACTOR, FileRead(number_uuid(seq % _FILES), 1))
            text = format_message("bench", [event]).encode()
            start = f"from {tip.oid}\n" if seq == made + 1 else ""
            who = f"committer {WHO[0]} <{WHO[1]}> {tip.time} +0000"
            child.stdin.write(f"commit {MAIN}\n{who}\ndata {len(text)}\n".encode() + text + f"\n{start}".encode())
    assert child.returncode == 0
    opened = open_store(places, WHO)
    for _ in range(2):
        pack(opened.repository)
    opened.write(decide(FileRead(number_uuid(1), 1)))
    return opened


def _interleaved(store: Store, change: Callable[[int], Decide[None]]) -> tuple[float, float]:
    """Medians of writes, and of the bare loop writing the same objects into a copy of the repository."""
    folder = store.repository.folder.with_name("floor.git")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(store.repository.folder, folder)
    loop, ours, floor = Loop(folder, store.repository.tip().oid), list[float](), list[float]()
    for number in range(_WRITES):
        decided = change(number)
        before = store.repository.tip().oid
        ours.append(_seconds(lambda decided=decided: store.write(decided)))  # type: ignore[misc]
        objects = _written(store, before)
        floor.append(_seconds(lambda objects=objects: loop.write(objects)))  # type: ignore[misc]
    assert loop.tip == store.repository.tip().oid, "the floor wrote something else"
    shutil.rmtree(folder)
    return statistics.median(ours), statistics.median(floor)


def _written(store: Store, before: str) -> list[tuple[str, bytes]]:
    """The objects of the last write, the commit last."""
    words = ("rev-list", "--objects", "--no-object-names", MAIN, f"^{before}")
    ids = store.repository.git.run(*words).lines
    found = read_raw(store.repository.git, [*ids[1:], ids[0]])
    return [(one.kind, one.data) for one in found if one is not None]


def _packed(store: Store) -> int:
    """Bytes of the packs, once everything is in one."""
    for _ in range(3):
        pack(store.repository)
    return size_of(store.repository.folder / "objects/pack")


def _seconds(act: Callable[[], object]) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


RECORDS = (Records(),)
