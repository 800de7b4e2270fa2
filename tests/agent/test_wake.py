"""Waking the agent: once for what is new, with the names, and again after a failure."""

from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path

from cn.agent import hooks
from cn.git.repository import open_hub
from tests.support.hubs import git
from tests.support.world import Node, World

NOTE = 'cat >> "{0}"; printf "%s\\n" "hub=$CN_HUB threads=$CN_THREADS" >> "{0}"'


def test_the_agent_is_woken_once_with_the_names(world: World, sigma: Node, pi: Node) -> None:
    note = world.folder / "note"
    git(sigma.root, "config", "cn.wake", NOTE.format(note))
    world.propose(pi, sigma, "one")
    world.propose(pi, sigma, "two")
    done = sigma.sync()
    names = sigma.threads()
    assert "woke the agent" in done.stdout
    text = f"you have inbox\n{names[0]}\n{names[1]}\nhub={sigma.root} threads={' '.join(names)}\n"
    assert note.read_text() == text
    sigma.idle()
    assert note.read_text() == text


def test_a_failing_wake_is_told_and_tried_again(world: World, sigma: Node, pi: Node) -> None:
    note = world.folder / "note"
    git(sigma.root, "config", "cn.wake", "echo no agent here >&2; exit 3")
    world.propose(pi, sigma)
    done = sigma.cn("sync", check=1)
    assert "wake" in done.stderr
    assert "exit code 3: no agent here" in done.stderr
    name = sigma.only_thread()
    sigma.cn("sync")
    git(sigma.root, "config", "cn.wake", NOTE.format(note))
    sigma.sync()
    assert name in note.read_text()
    sigma.idle()


def test_a_wake_command_is_never_taken_from_the_tree(world: World, sigma: Node, pi: Node) -> None:
    note = world.folder / "note"
    sigma.write({".gitconfig": f"[cn]\n\twake = touch {note}\n", "cn.wake": f"touch {note}\n"})
    world.propose(pi, sigma)
    sigma.sync()
    assert not note.exists()


def test_the_wake_command_may_call_cn(world: World, sigma: Node, pi: Node) -> None:
    """The lock is free by then."""
    import sys

    git(sigma.root, "config", "cn.wake", f"{sys.executable} -m cn inbox triage pi/proposal delete:at-once")
    world.propose(pi, sigma)
    sigma.sync()
    sigma.process()
    assert sigma.threads() == []


def test_a_wake_that_is_locked_out_is_told(world: World, sigma: Node, pi: Node) -> None:
    note = world.folder / "note"
    git(sigma.root, "config", "cn.wake", NOTE.format(note))
    (lock := sigma.root / ".git/cn/wake.lock").parent.mkdir(exist_ok=True)
    lock.touch()
    world.propose(pi, sigma)
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert f"the agent is not woken: no run of cn is at work here, and yet {lock}" in sigma.sync(check=1).stderr
        for words in (["status"], ["doctor"]):
            assert f"{lock} is locked" in sigma.cn(*words, check=None).stdout
    sigma.sync()
    assert note.exists()
    assert "is locked" not in sigma.cn("status").stdout


def _end(note: Path) -> None:
    os.kill(int(note.read_text()), signal.SIGKILL)


def test_what_a_wake_command_leaves_in_the_background_is_not_waited_for(world: World, sigma: Node, pi: Node) -> None:
    note = world.folder / "note"
    git(sigma.root, "config", "cn.wake", f"setsid sleep 600 & echo $! > {note}")
    world.propose(pi, sigma)
    assert "woke the agent" in sigma.sync().stdout
    _end(note)


def test_a_wake_command_that_takes_too_long_is_ended_whoever_keeps_its_output_open(sigma: Node, tmp_path: Path) -> None:
    note = tmp_path / "note"
    words = ["sh", "-c", f"setsid sleep 600 & echo $! > {note}; sleep 600"]
    assert hooks._run_program(open_hub(sigma.root), words, [], 0.5) == "it ran longer than 0 s"
    _end(note)
