"""The hub's lock: one run at a time, as long as any of its git children lives."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cn.git.repository import Hub, open_hub
from cn.transaction.lock import LOCK, TURN, hub_lock
from cn.values.errors import EXIT_LOCKED, Blocked, LockHeld
from tests.support.hubs import ROOT, cn, commit, git, work

_HOLD = """
import sys, time
from pathlib import Path
from cn.git.repository import open_hub
from cn.transaction.lock import hub_lock
with hub_lock(open_hub(Path(sys.argv[1])), 0) as hub:
    print("held", flush=True)
    if sys.argv[2] == "child":
        hub.git.run("-c", "alias.wait=!sleep 1.5", "wait")
    time.sleep(30)
"""


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    root = work(tmp_path / "hub", "sigma")
    commit(root, {".cn/hub.yaml": "name: sigma\n"})
    return open_hub(root)


def test_a_file_system_without_locks_is_told_with_what_helps(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a network's without a lock service (flock(2), ``ENOLCK``)."""

    def none(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", none)
    with pytest.raises(Blocked, match="cannot lock the hub") as told, hub_lock(hub, 0):
        pass
    assert "a file system that locks files" in told.value.hint


def hold(hub: Hub, what: str = "alone") -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(hub.root), what],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    return child


def end(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.wait()
    assert child.stdout is not None
    child.stdout.close()


def test_a_second_run_is_told_who_holds_the_lock(hub: Hub) -> None:
    child = hold(hub)
    try:
        with pytest.raises(LockHeld, match=rf"{hub.root} \(pid {child.pid}, since ") as told, hub_lock(hub, 0.1):
            pass
        assert told.value.exit_code == EXIT_LOCKED
        assert told.value.hint
    finally:
        end(child)


def test_it_waits_for_the_lock(hub: Hub) -> None:
    child = hold(hub)
    os.kill(child.pid, signal.SIGSTOP)
    subprocess.Popen(["sh", "-c", f"sleep 0.4; kill -KILL {child.pid}"]).wait()
    with hub_lock(hub, 30):
        pass
    end(child)


_GREEDY = """
import sys, time
from pathlib import Path
from cn.git.repository import open_hub
from cn.transaction.lock import LOCK, TURN, hub_lock
hub = open_hub(Path(sys.argv[1]))
while True:
    with hub_lock(hub, 30):
        print("held", flush=True)
        time.sleep(0.2)
"""


def test_who_waits_comes_before_who_comes_back_at_once(hub: Hub) -> None:
    """The daemon has a hundred messages; the processor must not wait for all of them."""
    child = subprocess.Popen(
        [sys.executable, "-c", _GREEDY, str(hub.root)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        for _ in range(5):
            with hub_lock(hub, 10):
                pass
        child.kill()
        assert len(child.stdout.readlines()) <= 8
    finally:
        end(child)


def test_it_ends_with_the_block_also_after_an_error(hub: Hub) -> None:
    with pytest.raises(ZeroDivisionError), hub_lock(hub, 0):
        raise ZeroDivisionError
    with hub_lock(hub, 0):
        pass


def test_a_git_child_keeps_the_lock_of_a_killed_run(hub: Hub) -> None:
    child = hold(hub, "child")
    time.sleep(0.3)
    end(child)
    with pytest.raises(LockHeld), hub_lock(hub, 0):
        pass
    with hub_lock(hub, 5):
        pass


def test_the_lock_is_a_file_of_the_git_directory_and_no_symlink_is_followed(hub: Hub, tmp_path: Path) -> None:
    hub.state.mkdir()
    (tmp_path / "precious").write_text("mine")
    (hub.state / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(Exception, match="lock is a link"), hub_lock(hub, 0):
        pass
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.mark.parametrize(("setting", "mode"), [("false", 0o600), ("group", 0o660)])
def test_a_lock_that_others_may_open_is_closed_to_them(hub: Hub, setting: str, mode: int) -> None:
    git(hub.root, "config", "core.sharedRepository", setting)
    hub.state.mkdir()
    for name in (LOCK, TURN):
        (hub.state / name).touch(0o666)
    with hub_lock(open_hub(hub.root), 0):
        assert {(hub.state / name).stat().st_mode & 0o777 for name in (LOCK, TURN)} == {mode}


@pytest.mark.parametrize("name", [LOCK, TURN])
def test_a_lock_that_no_run_holds_is_told_as_that(hub: Hub, name: str) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with hub_lock(hub, 0):
        pass
    (hub.state / LOCK).write_text(f"pid {ended.pid}, since 2026-02-05T14:00:00Z\n")
    with (hub.state / name).open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        with pytest.raises(LockHeld, match="no run of cn is at work here") as told, hub_lock(hub, 0):
            pass
        assert f"fuser -v {hub.state / name}'" in told.value.hint
        assert str(ended.pid) not in told.value.text
        for words in (["status"], ["doctor"]):
            assert f"{hub.state / name} is locked" in cn(*words, hub=hub.root, check=None).stdout
    assert "is locked" not in cn("doctor", hub=hub.root, check=None).stdout
