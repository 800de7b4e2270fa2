"""A push to an origin on this machine that is ended, or was killed: what stays there, and what is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.support.hubs import branches, cn_env, git
from tests.support.world import Node, World


@pytest.mark.sliced(2)
@pytest.mark.parametrize("signals", [signal.SIGINT, signal.SIGTERM])
def test_a_push_that_is_ended_leaves_no_lock_at_origin(sigma: Node, pi: Node, signals: signal.Signals) -> None:
    """Ended while git holds the lock of main: its reflog, a pipe that nobody reads, takes its time."""
    sigma.sync()
    git(sigma.home, "config", "core.logAllRefUpdates", "always")
    log = sigma.home / "logs/refs/heads/main"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    os.mkfifo(log)
    words = [sys.executable, "-m", "cn", "--hub", str(sigma.root), "send", "pi", "hello"]
    child = subprocess.Popen(words, env=cn_env(), start_new_session=True, stderr=subprocess.PIPE)
    until = time.monotonic() + 60
    while not (sigma.home / "refs/heads/main.lock").exists() and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(0.3)
    assert (sigma.home / "refs/heads/main.lock").exists()
    os.killpg(child.pid, signals)  # as a terminal does
    _, told = child.communicate(timeout=10)
    assert child.returncode in (130, 143), told
    assert sorted(sigma.home.rglob("*.lock")) == []
    log.unlink()
    sigma.cn("send", "pi", "hello")
    assert "sigma/hello" in branches(pi.home)


@pytest.mark.sliced(2)
@pytest.mark.parametrize("lock", ["refs/heads/main.lock", "packed-refs.lock"])
def test_a_lock_that_a_killed_git_left_at_origin_is_named_with_its_remedy(
    world: World, sigma: Node, pi: Node, lock: str
) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    path = sigma.home / lock
    path.write_bytes(b"")
    os.utime(path, (1, 1))
    sigma.triage("pi/proposal", "delete:no")
    done = sigma.cn("inbox", "process", check=None)
    told = (done.stdout + done.stderr).replace("\n", " ")
    if lock.startswith("refs/"):
        assert done.returncode == 1
        assert f"{path} keeps origin from taking main" in told
        assert str(path) in sigma.cn("status").stdout.replace("\n", "").replace("  ", "")
        assert f"rm -- {path}" in told
    examined = sigma.cn("doctor", check=1).stdout.replace("\n", " ")
    assert f"{path} is there" in examined
    assert f"rm -- {path}" in examined
    path.unlink()
    sigma.process()
    assert sigma.threads() == []
    assert git(sigma.home, "rev-parse", "main") == sigma.main
