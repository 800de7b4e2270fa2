"""SIGTERM and Ctrl-C end cn whatever a git of it does, and nothing that it started stays."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from cn.git.process import READING
from tests.support.hubs import cn_env
from tests.support.servers import gone
from tests.support.world import Node, World

_SECONDS = 60.0
_PROCESS = (
    "cat-file", "for-each-ref", "rev-list", "log", "diff-tree", "hash-object", "update-index", "read-tree",
    "update-ref", "push", "config",
)  # fmt: skip
_SYNC = ("fetch",)
CASES = [(word, number) for word in (*_PROCESS, *_SYNC) for number in (signal.SIGTERM, signal.SIGINT)]


def deaf(folder: Path, command: str) -> Path:
    """A git first on the path that is stuck at one command, and hears no signal that can be ignored."""
    folder.mkdir()
    stuck = f"trap '' TERM INT HUP; touch {folder}/stuck; while :; do sleep 100; done"
    chosen = f'for word; do [ "$word" = {command} ] && {{ {stuck}; }}; done'
    (folder / "git").write_text(f'#!/bin/sh\n{chosen}\nexec {shutil.which("git")} "$@"\n')
    (folder / "git").chmod(0o755)
    return folder / "stuck"


def started_by(mark: str) -> list[int]:
    """The processes that have this in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.sliced(9)
@pytest.mark.parametrize(("command", "number"), CASES)
def test_a_git_that_hears_no_signal_holds_nothing_up(
    world: World, sigma: Node, pi: Node, tmp_path: Path, command: str, number: int
) -> None:
    world.propose(pi, sigma, "fine")
    sigma.cn("inbox", "sync")
    sigma.triage("pi/fine", "do:merge")
    stuck, mark = deaf(tmp_path / "bin", command), f"CN_TEST_MARK={tmp_path}"
    env = cn_env({"PATH": f"{tmp_path}/bin:/usr/local/bin:/usr/bin:/bin", "CN_TEST_MARK": str(tmp_path)})
    world.propose(pi, sigma, "more")
    words = [sys.executable, "-m", "cn", "--hub", str(sigma.root), "inbox", "sync" if command in _SYNC else "process"]
    with (tmp_path / "told").open("w") as told_to:
        child = subprocess.Popen(words, env=env, stdout=told_to, stderr=told_to, start_new_session=True)
    deadline = time.monotonic() + _SECONDS
    while not stuck.exists() and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert stuck.exists()
    os.kill(child.pid, number)
    child.wait(_SECONDS)
    told = (tmp_path / "told").read_text()
    assert child.returncode == 128 + number, told
    assert "Traceback" not in told
    left = started_by(mark)
    if command in READING:  # one that changes something may finish it, and holds the lock till then
        assert gone(left), "what was killed may take a moment to end; what is deaf never does"
    for one in left:
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    stuck.parent.joinpath("git").unlink()
    sigma.cn("inbox", "sync")
    sigma.cn("inbox", "process")
    assert (sigma.root / "docs/fine.md").exists()
    assert [name[9:] for name in sigma.threads()] == ["pi-more.md"]
