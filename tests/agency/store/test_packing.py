"""Packing beside writers: nothing that was acknowledged is lost, whatever git is run there."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cn.agency.store.derived import build_in_memory
from cn.agency.store.packing import needs_packing, pack
from cn.agency.store.store import Store
from cn.git.process import Git
from tests.support.figures import observed
from tests.support.hubs import ROOT, git, git_bytes, try_git
from tests.support.records import create, digest, folder_of, found, look, reopen, state

WORKER = """
import sys
from pathlib import Path
from tests.support.records import create, look, reopen
store = reopen(Path(sys.argv[1]))
for number in range(int(sys.argv[2])):
    content = f"{sys.argv[3]} {number}\\n".encode()
    print(store.write(create(content)).answer, content.decode(), end="", flush=True)
    store.write(look("11111111-1111-4111-8111-111111111111"))
store.close()
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = found(tmp_path)
    made.write(create(b"first\n", file="11111111-1111-4111-8111-111111111111"))
    yield made
    made.close()


def loose(store: Store) -> int:
    return int(git(store.repository.folder, "count-objects").split(" ")[0])


def check(store: Store) -> None:
    assert git(store.repository.folder, "fsck", "--no-dangling") == ""
    rebuilt = build_in_memory(store.repository, store.repository.tip())
    with store.reading() as facts:
        assert list(facts.dump()) == list(rebuilt.dump())  # type: ignore[attr-defined]
    rebuilt.close()


def test_packing_leaves_all_that_was_written_and_makes_it_small(store: Store) -> None:
    files = [store.write(create(f"text {number}\n".encode())).answer for number in range(40)]
    assert pack(store.repository) == ()
    store.write(look(files[0]))
    assert pack(store.repository) == ()  # what is packed goes with the second
    assert loose(store) < 10
    store.write(create(b"after it\n"))
    assert pack(store.repository) == ()
    for number, file in enumerate(files):
        name = digest(f"text {number}\n".encode())
        assert git(store.repository.folder, "show", f"main:{folder_of(file)}/{name}") == f"text {number}"
    check(store)


def test_the_git_that_answers_is_another_one_after_many_questions(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that lives on keeps in memory each pack that it read, also when that was replaced."""
    monkeypatch.setattr("cn.agency.store.repository._QUESTIONS", 3)
    started = list[str]()
    start = Git.start

    def counted(git: Git, *args: str) -> subprocess.Popen[bytes]:
        started.append(args[0])
        return start(git, *args)

    monkeypatch.setattr(Git, "start", counted)
    name = digest(b"first\n")
    path = f"main:{folder_of('11111111-1111-4111-8111-111111111111')}/{name}"
    for _ in range(12):
        assert store.repository.git.reader is not None
        assert b"first\n" in store.repository.git.reader.ask(f"contents {path}\n".encode(), 10.0)
    assert 3 <= started.count("cat-file") <= 5


def test_packing_is_needed_once_many_objects_are_loose(store: Store) -> None:
    assert not needs_packing(store.repository)
    folder = store.repository.folder / "objects/17"
    folder.mkdir(exist_ok=True)
    for number in range(9):
        (folder / f"{number:038x}").touch()
    assert needs_packing(store.repository)


def test_what_killed_processes_left_goes_with_packing(store: Store) -> None:
    old, young = (store.repository.folder / f"objects/00/tmp_obj_{name}" for name in ("old", "young"))
    old.parent.mkdir(exist_ok=True)
    lock = store.repository.folder / "objects/maintenance.lock"
    for path in (old, young, lock):
        path.touch()
    for path in (old, lock):
        os.utime(path, (time.time() - 9999, time.time() - 9999))
    (told,) = pack(store.repository)
    assert "maintenance.lock" in told
    assert (old.exists(), young.exists(), lock.exists()) == (False, True, False)


def test_one_packs_at_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    other = reopen(store.repository.places.state.parent)
    asked = []
    monkeypatch.setattr("cn.agency.store.packing._maintain", lambda git, task: asked.append(pack(other.repository)))
    pack(store.repository)
    assert asked[0] == ()
    other.close()


def _disturb(repo: Path, until: Callable[[], bool]) -> int:
    """What a person, or a tool, may run there: not all of it is allowed, none of it may do harm."""
    words = [
        ("gc", "--prune=now", "--quiet"),
        ("prune", "--expire=now"),
        ("repack", "-adfq"),
        ("repack", "-Adq"),
        ("prune-packed", "-q"),
        ("gc", "--aggressive", "--prune=now", "--quiet"),
        ("pack-refs", "--all", "--prune"),
        ("maintenance", "run", "--quiet", "--task=gc"),
    ]
    count = 0
    while not until():
        for one in words:
            try_git(repo, *one)
            count += 1
    return count


def _write_beside(store: Store, writers: int, each: int) -> tuple[int, int]:
    """Processes write, others pack, and people run what they find; how many writes, and how many of those runs."""
    folder = store.repository.places.state.parent
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    workers = []
    for number in range(writers):
        words = [sys.executable, "-c", WORKER, str(folder), str(each), f"w{number}"]
        workers.append(subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True))
    counts: list[int] = []

    def ended() -> bool:
        return all(worker.poll() is not None for worker in workers)

    def packs() -> None:
        while not ended():
            pack(store.repository)

    others = [threading.Thread(target=packs)]
    others.append(threading.Thread(target=lambda: counts.append(_disturb(store.repository.folder, ended))))
    for thread in others:
        thread.start()
    said = [worker.communicate(timeout=500)[0] for worker in workers]
    for thread in others:
        thread.join()
    assert [worker.returncode for worker in workers] == [0] * writers
    rows = [line.split(" ", 1) for text in said for line in text.splitlines()]
    assert len(rows) == writers * each
    with store.reading() as facts:
        assert state(facts) == 2 + 2 * writers * each
    for file, content in rows:
        data = f"{content}\n".encode()
        assert git_bytes(store.repository.folder, "show", f"main:{folder_of(file)}/{digest(data)}") == data
    check(store)
    return 2 * len(rows), sum(counts)


def test_processes_write_side_by_side_with_all_that_git_can_do_to_old_objects(store: Store) -> None:
    assert _write_beside(store, writers=2, each=15)[1] > 0


@pytest.mark.full
def test_many_processes_write_long_with_all_that_git_can_do_to_old_objects(store: Store) -> None:
    writes, runs = _write_beside(store, writers=6, each=150)
    observed("records", "beside git", writes=writes, runs=runs, lost=0)
