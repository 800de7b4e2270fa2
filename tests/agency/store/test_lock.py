"""The lock of who writes: first come, first served, and nobody waits for ever."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cn.agency.store.lock import WriteLock
from cn.system.files import hold
from cn.values.errors import LockHeld


def until(true: Callable[[], bool]) -> None:
    while not true():
        time.sleep(0.001)


def is_held(path: Path) -> bool:
    fd = hold(path)
    if fd is not None:
        os.close(fd)
    return fd is None


def test_who_has_just_let_go_comes_behind_who_waits(tmp_path: Path) -> None:
    path, order = tmp_path / "lock", list[str]()
    ours, theirs = WriteLock(path), WriteLock(path)

    def wait() -> None:
        with theirs.held(30):
            order.append("who waited")

    waits = threading.Thread(target=wait)
    with ours.held(1):
        waits.start()
        until(lambda: is_held(tmp_path / "lock.turn"))
    with ours.held(30):
        order.append("who let go")
    waits.join()
    assert order == ["who waited", "who let go"]
    ours.close()
    theirs.close()


def test_who_gave_up_waiting_holds_up_nobody(tmp_path: Path) -> None:
    locks = [WriteLock(tmp_path / "lock") for _ in range(3)]
    with locks[0].held(1):
        for lock in locks[1:]:
            with pytest.raises(LockHeld, match=f"pid {os.getpid()}"), lock.held(0.02):
                pass
        turn = hold(tmp_path / "lock.turn")
        with pytest.raises(LockHeld), locks[1].held(0.02):
            pass
        assert turn is not None
        os.close(turn)
    until(lambda: not is_held(tmp_path / "lock.turn"))
    for lock in locks:
        with lock.held(1):
            pass
        lock.close()


def test_of_a_lock_that_no_cn_holds_it_is_told_how_to_find_who_does(tmp_path: Path) -> None:
    fd = hold(tmp_path / "lock")
    assert fd is not None
    lock = WriteLock(tmp_path / "lock")
    with pytest.raises(LockHeld, match="no cn writes") as error, lock.held(0.02):
        pass
    assert f"fuser -v {tmp_path / 'lock'}" in error.value.hint
    lock.close()
    os.close(fd)


def test_threads_that_share_a_lock_exclude_each_other(tmp_path: Path) -> None:
    lock, inside, most = WriteLock(tmp_path / "lock"), [0], [0]

    def work() -> None:
        for _ in range(20):
            with lock.held(30):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    lock.close()
