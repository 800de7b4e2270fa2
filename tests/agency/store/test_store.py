"""Writes and looks through the index, whatever became of the index, of the ref, of the clock, of the disk."""

from __future__ import annotations

import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from cn.agency.events import EventRefused
from cn.agency.rows import Rows
from cn.agency.store import repository
from cn.agency.store.derived import build_in_memory
from cn.agency.store.repository import Draft
from cn.agency.store.store import Base, Decided, Store
from cn.values.errors import Blocked, ConfigError
from tests.support.hubs import git, git_bytes
from tests.support.records import AT, create, digest, folder_of, found, look, overwrite, reopen, state, tip_of_file


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = found(tmp_path)
    yield made
    made.close()


def check(store: Store) -> int:
    """The index in the file is what the history says, and main's; how many events there are."""
    tip = store.repository.tip()
    rebuilt = build_in_memory(store.repository, tip)
    assert tip_of_file(store.repository.places.index_file) == tip.oid
    with store.reading() as facts:
        assert list(facts.dump()) == list(rebuilt.dump())  # type: ignore[attr-defined]
        return state(facts)


def test_what_was_written_is_on_main_and_in_the_answers(store: Store) -> None:
    file = store.write(create(b"text\n", "notes")).answer
    written = store.write(overwrite(file, 2, b"more\n"))
    assert written.told == ()
    assert git(store.repository.folder, "rev-parse", "main") == written.commit
    with store.reading() as facts:
        row = facts.file(file)  # type: ignore[arg-type]
        assert row is not None
        assert (row.version, row.hash, row.description) == (2, digest(b"more\n"), "notes")
    for content in (b"text\n", b"more\n"):
        assert git_bytes(store.repository.folder, "show", f"main:{folder_of(file)}/{digest(content)}") == content
    assert check(store) == 3


def test_a_write_that_is_refused_leaves_nothing(store: Store) -> None:
    before = store.repository.tip()

    def refuse(rows: Rows, base: Base) -> Decided[str]:
        create(b"x")(rows, base)
        return Decided(None, "refused")

    def fail(rows: Rows, base: Base) -> Decided[str]:
        create(b"x")(rows, base)
        raise ValueError("by a rule")

    assert store.write(refuse).commit is None
    with pytest.raises(ValueError, match="by a rule"):
        store.write(fail)
    assert store.repository.tip() == before
    store.write(create(b"y"))
    assert check(store) == 2


@pytest.mark.parametrize("message", ["no events\n", 'subject\n\n{"seq":2}\n'])
def test_what_could_not_be_read_again_is_not_written(store: Store, message: str) -> None:
    before = store.repository.tip()
    with pytest.raises(EventRefused):
        store.write(lambda rows, base: Decided(Draft(message, {}), ""))
    assert store.repository.tip() == before


def _vanish(file: Path, older: Path) -> None:
    file.unlink()


def _vanish_all(file: Path, older: Path) -> None:
    shutil.rmtree(file.parent)


def _older(file: Path, older: Path) -> None:
    shutil.copy(older, file)


def _cut(file: Path, older: Path) -> None:
    file.write_bytes(file.read_bytes()[:5000])


def _garbage(file: Path, older: Path) -> None:
    file.write_bytes(b"no database" * 1000)


def _hole(file: Path, older: Path) -> None:
    data = bytearray(file.read_bytes())
    for at in range(4096, len(data), 4096):
        data[at : at + 100] = b"\xff" * 100
    file.write_bytes(data)


def _empty(file: Path, older: Path) -> None:
    file.write_bytes(b"")


def _other_version(file: Path, older: Path) -> None:
    with sqlite3.connect(file) as database:
        database.execute("PRAGMA user_version = 1")
    database.close()


def _of_another(file: Path, older: Path) -> None:
    with sqlite3.connect(file) as database:
        database.execute("UPDATE made_from SET tip = ?", ("1" * 40,))
    database.close()


IN_PLACE = [_cut, _garbage, _hole, _empty, _other_version]
DAMAGES = [_vanish, _vanish_all, _older, _cut, _garbage, _hole, _empty, _other_version, _of_another]


@pytest.mark.parametrize("opened", [True, False], ids=["open", "closed"])
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__.strip("_"))
def test_whatever_becomes_of_the_index_nothing_is_lost(
    tmp_path: Path, damage: Callable[[Path, Path], None], opened: bool
) -> None:
    store = found(tmp_path)
    store.write(create(b"1"))
    store.close()
    file, older = store.repository.places.index_file, tmp_path / "older"
    shutil.copy(file, older)
    store = reopen(tmp_path)
    store.write(create(b"2"))
    if not opened:
        store.close()
        store = reopen(tmp_path)
    damage(file, older)
    if opened and damage in IN_PLACE:  # what was open would look at its own memory of it
        store.close()
        store = reopen(tmp_path)
    with store.reading() as facts:
        assert state(facts) == 3
    assert store.write(create(b"3")).told == ()
    assert check(store) == 4
    store.close()


def test_an_index_of_commits_that_main_lost_is_made_anew(store: Store) -> None:
    store.write(create(b"1"))
    before = store.repository.tip().oid
    store.write(create(b"2"))
    git(store.repository.folder, "update-ref", "refs/heads/main", before)
    with store.reading() as facts:
        assert state(facts) == 2
    store.write(create(b"3"))
    assert check(store) == 3


def test_an_index_of_a_commit_beside_mains_history_is_made_anew(store: Store) -> None:
    store.write(create(b"1"))
    before = store.repository.tip().oid
    store.write(create(b"2"))
    git(store.repository.folder, "update-ref", "refs/heads/main", before)
    other = reopen(store.repository.places.state.parent)
    shutil.move(store.repository.places.index_file, store.repository.places.state / "beside")
    other.write(create(b"3"))
    other.write(create(b"4"))
    other.close()
    for name in store.repository.places.index_file.parent.iterdir():
        name.unlink()
    shutil.copy(store.repository.places.state / "beside", store.repository.places.index_file)
    store.close()
    store = reopen(store.repository.places.state.parent)
    store.write(create(b"5"))
    assert check(store) == 5
    store.close()


def test_an_error_of_the_index_after_main_moved_is_told_and_not_returned(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = store.repository.append

    def and_take_the_index(*args: object) -> object:
        done = append(*args)  # type: ignore[arg-type]
        store._index._open.database.execute("DROP TABLE made_from")  # type: ignore[union-attr]
        return done

    monkeypatch.setattr(store.repository, "append", and_take_the_index)
    written = store.write(create(b"1"))
    assert written.commit == git(store.repository.folder, "rev-parse", "main")
    assert "the index of Agency's records could not be kept" in written.told[0]
    monkeypatch.undo()
    with store.reading() as facts:
        assert state(facts) == 2
    store.write(create(b"2"))
    assert check(store) == 3


def test_where_no_index_can_be_kept_the_records_are_written_all_the_same(store: Store) -> None:
    store.write(create(b"0"))
    shutil.rmtree(store.repository.places.index_file.parent)
    store.repository.places.index_file.parent.write_text("a file lies here")
    written = store.write(create(b"1"))
    assert written.commit
    assert "could not be kept" in written.told[0]
    with store.reading() as facts:
        assert state(facts) == 3


def test_who_looks_waits_for_nobody(store: Store) -> None:
    """Also where a writer has moved main and not yet brought the index there."""
    store.write(create(b"1"))
    other = reopen(store.repository.places.state.parent)
    with other.repository.lock.held(1):
        tip = other.repository.tip()
        memory = build_in_memory(other.repository, tip)
        draft = create(b"2")(memory, Base(tip.oid, AT, AT)).draft
        memory.close()
        assert draft is not None
        other.repository.append(tip, draft, tip.time)
        with store.reading() as facts:
            assert state(facts) == 3
        store.repository.places.index_file.unlink()
        with store.reading() as facts:
            assert state(facts) == 3
    other.close()


def test_a_look_at_records_that_cannot_be_written_is_a_look(store: Store) -> None:
    file = store.write(create(b"1")).answer
    store.close()
    words = ["chmod", "-R", "a-w", str(store.repository.places.state)]
    subprocess.run(words, check=True)
    try:
        again = reopen(store.repository.places.state.parent)
        with again.reading() as facts:
            assert facts.file(file) is not None  # type: ignore[arg-type]
        again.close()
    finally:
        words[2] = "u+w"
        subprocess.run(words, check=True)


def test_time_never_goes_back(tmp_path: Path) -> None:
    times = [AT, AT + timedelta(hours=1), AT - timedelta(days=9), AT + timedelta(hours=2)]
    clock = iter(times)
    store = found(tmp_path, lambda: next(clock))
    for _ in times[1:]:
        store.write(create(b"x"))
    seconds = [commit.time for commit in store.repository.commits()]
    assert seconds == [int(at.timestamp()) for at in (times[0], times[1], times[1], times[3])]
    store.close()


def test_a_plan_is_made_again_where_a_git_moved_main_meanwhile(store: Store) -> None:
    store.write(create(b"1"))
    tips = []

    def meanwhile(rows: Rows, base: Base) -> Decided[str]:
        tips.append(base.tip)
        if len(tips) == 1:
            git(store.repository.folder, "update-ref", "refs/heads/main", "main~")
        return create(b"2")(rows, base)

    store.write(meanwhile)
    assert len(tips) == 2
    assert check(store) == 2


def test_threads_and_processes_write_side_by_side(tmp_path: Path) -> None:
    found(tmp_path).close()
    stores = [reopen(tmp_path) for _ in range(2)]

    def work(store: Store, name: str) -> None:
        for number in range(8):
            store.write(create(f"{name} {number}".encode()))

    threads = [threading.Thread(target=work, args=(store, f"{store} {n}")) for store in stores for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert check(stores[0]) == 33
    for store in stores:
        store.close()


@contextmanager
def _files_of_at_most(size: int) -> Iterator[None]:
    """As on a full disk, or with ``ulimit -f``: no file grows beyond ``size`` bytes (setrlimit(2))."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_on_a_full_disk_nothing_half_is_written_and_later_all_goes_on(store: Store) -> None:
    store.write(create(b"1"))
    before = store.repository.tip()
    with _files_of_at_most(20), pytest.raises(Blocked):
        store.write(create(b"2" * 100))
    assert store.repository.tip() == before
    assert git(store.repository.folder, "fsck", "--no-dangling") == ""
    assert not [*store.repository.folder.rglob("tmp_obj_*")]
    store.write(create(b"3"))
    assert check(store) == 3


def test_a_ref_that_does_not_fit_on_the_disk_is_no_write(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write(create(b"1"))
    before = store.repository.tip()
    store.repository.close()  # so that the git that moves refs starts below the limit
    monkeypatch.setattr(repository, "_WAIT_SECONDS", 0.1)
    with store.repository.lock.held(1), _files_of_at_most(0), pytest.raises(Blocked, match="cannot move main"):
        store.repository._move(before.parent, before.oid)  # type: ignore[arg-type]
    assert store.repository.tip() == before
    monkeypatch.setattr(repository, "_LEFT_SECONDS", 0.0)
    assert "was removed" in store.write(create(b"2")).told[0]
    assert check(store) == 3


def test_records_that_somebody_committed_to_by_hand_name_that_commit(store: Store) -> None:
    repo = store.repository.folder
    good = git(repo, "rev-parse", "main")
    bad = git(repo, "commit-tree", "-p", good, "-m", "by hand", "main^{tree}")
    git(repo, "update-ref", "refs/heads/main", bad)
    with pytest.raises(Blocked, match=bad[:12]):
        store.write(create(b"1"))
    git(repo, "update-ref", "refs/heads/main", git(repo, "commit-tree", "-p", bad, "-m", "again", "main^{tree}"))
    with pytest.raises(Blocked, match=bad[:12]) as blocked, store.reading():
        pass
    (back,) = re.findall(r"'(git .*?)'", blocked.value.hint)
    subprocess.run(back, shell=True, check=True)
    assert git(repo, "rev-parse", "main") == good
    store.write(create(b"1"))
    assert check(store) == 2


def test_where_there_are_no_records_the_next_step_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        reopen(tmp_path)
    assert "cn agency init" in error.value.hint


def test_reading_an_event_rides_without_contents(store: Store) -> None:
    file = store.write(create(b"1")).answer
    tree = store.repository.tip().tree
    store.write(look(file))
    assert store.repository.tip().tree == tree
    assert check(store) == 3
