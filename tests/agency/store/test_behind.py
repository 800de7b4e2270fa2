"""Packing and the copy follow writes in a process of their own, and no write waits for them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cn.agency.store import behind
from cn.agency.store.behind import follow, start
from cn.agency.store.copies import Lag, is_copied, lag, push_copy
from cn.agency.store.copy_notes import copy_failure
from cn.agency.store.store import Store
from cn.system.files import hold
from tests.support.hubs import ROOT, bare, git
from tests.support.records import AT, create, found


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    made = found(tmp_path / "here")
    made.write(create(b"1"))
    yield made
    made.close()


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_process_of_its_own_brings_the_copy_there(store: Store, tmp_path: Path) -> None:
    url = str(bare(tmp_path / "copy.git"))
    assert start(store.repository, url)
    until(lambda: is_copied(store.repository, url))
    until(lambda: not start(store.repository, url))
    assert git(Path(url), "rev-parse", "main") == store.repository.tip().oid


def test_nothing_is_started_where_nothing_is_to_be_done(store: Store) -> None:
    assert not start(store.repository, "")


def test_nothing_is_started_while_another_one_is_at_it(store: Store, tmp_path: Path) -> None:
    url = str(bare(tmp_path / "copy.git"))
    fd = hold(store.repository.places.copy_lock)
    assert fd is not None
    assert not start(store.repository, url)
    assert follow(store.repository, url) == ()
    os.close(fd)
    assert lag(store.repository, url) == Lag(2, None)


def test_writes_that_come_meanwhile_go_too(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = str(bare(tmp_path / "copy.git"))
    pushed: list[object] = []

    def and_write_once(*args: object) -> object:
        answer = push_copy(*args)  # type: ignore[arg-type]
        if not pushed:
            store.write(create(b"2"))
        pushed.append(answer)
        return answer

    monkeypatch.setattr(behind, "push_copy", and_write_once)
    assert follow(store.repository, url) == ()
    assert pushed == [None, None]
    assert lag(store.repository, url) == Lag(0, AT)


def test_why_a_copy_could_not_be_brought_there_is_kept_until_it_could(store: Store, tmp_path: Path) -> None:
    url = str(tmp_path / "copy.git")
    (told,) = follow(store.repository, url)
    assert url in told
    failed = copy_failure(store.repository.places, url)
    assert failed is not None
    assert (failed.rule, url in failed.reason) == ("copy", True)
    assert not start(store.repository, url)
    bare(Path(url))
    assert follow(store.repository, url) == ()
    assert copy_failure(store.repository.places, url) is None


def test_what_is_loose_is_packed_once_there_is_much(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behind, "needs_packing", lambda repository: True)
    assert follow(store.repository, "") == ()
    assert [*store.repository.folder.glob("objects/pack/*.pack")]
