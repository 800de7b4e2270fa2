"""Waking the agent: once for what is new, with the names, and again after a failure."""

from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path

import pytest

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


def test_a_wake_that_failed_and_was_unset_is_told_no_more(world: World, sigma: Node, pi: Node) -> None:
    git(sigma.root, "config", "cn.wake", "false")
    world.propose(pi, sigma)
    sigma.cn("sync", check=None)
    assert "the wake command failed" in sigma.cn("status", check=None).stdout
    git(sigma.root, "config", "--unset", "cn.wake")
    sigma.cn("sync", check=None)
    assert "the wake command failed" not in sigma.cn("status", check=None).stdout


@pytest.mark.parametrize("interface", ["triage", "queue"])
def test_a_wake_that_failed_is_over_with_what_it_was_for(world: World, sigma: Node, pi: Node, interface: str) -> None:
    text = (sigma.root / ".cn/hub.yaml").read_text().replace("interface: triage", f"interface: {interface}")
    sigma.write({".cn/hub.yaml": text})
    tried = world.folder / "tried"
    git(sigma.root, "config", "cn.wake", f"echo >> {tried}; exit 1")
    pi.cn("send", "sigma", "question")
    sigma.cn("sync", check=1)
    sigma.cn("sync")
    times = len(tried.read_text())
    assert times == 2, "it is tried again at each run"
    sigma.cn("delete", "pi/question")
    sigma.cn("sync")
    assert len(tried.read_text()) == times, "nobody is woken for what a person decided"
    assert "the wake command failed" not in sigma.cn("status", "--check").stdout
    pi.cn("send", "sigma", "another")
    assert "the wake command failed" in sigma.cn("sync", check=None).stderr


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


def test_a_refusal_of_what_we_sent_wakes_once_and_stands_first(world: World, sigma: Node, pi: Node) -> None:
    note = world.folder / "note"
    git(pi.root, "config", "cn.wake", NOTE.format(note))
    for number in range(7):
        world.propose(pi, sigma, f"early-{number}", {f"early-{number}.md": "x\n"})
    world.propose(pi, sigma, "late", {"docs/late.md": "theirs\n"})
    sigma.write({"docs/late.md": "ours\n"})
    sigma.sync()
    sigma.write_refused_triage("pi/late", "do:merge")
    sigma.process()
    assert "woke the agent: you have inbox (sigma:late)" in pi.sync().stdout
    assert note.read_text() == f"you have inbox\nsigma:late\nhub={pi.root} threads=sigma:late\n"
    pi.sync()
    assert note.read_text().count("sigma:late\n") == 2, "once"

    shown = pi.cn("status").stdout
    mine, others = shown.index("refused at a peer, waits for you"), shown.index("waiting on others")
    assert mine < shown.index("'cn rebase sigma:late'") < others
    assert "and 2 more; -v shows all" in shown[others:]
    assert pi.cn("status", "--check", check=1).stdout == shown
    pi.cn("rebase", "sigma:late", check=1)


def test_what_a_refusal_waits_for_is_not_left_out_however_many_they_are(world: World, sigma: Node, pi: Node) -> None:
    topics = [f"late-{number}" for number in range(8)]
    for topic in topics:
        world.propose(pi, sigma, topic, {f"{topic}/.gitattributes": "x\n"})
    sigma.sync()
    for topic in topics:
        sigma.write_refused_triage(f"pi/{topic}", "do:merge")
    sigma.process()
    pi.sync()
    shown = pi.cn("status").stdout
    for topic in topics:
        assert f"mend it, then 'cn propose {topic} sigma' moves it there" in shown


def test_the_first_and_the_last_line_of_a_failed_wake_are_told(world: World, sigma: Node, pi: Node) -> None:
    """An error of cn's says what is wrong in its first line, and what to do in its last one."""
    script = "echo 'what is wrong, https://me:secret@host/x' >&2; seq 9999; echo '  → what to do' >&2; exit 3"
    git(sigma.root, "config", "cn.wake", script)
    world.propose(pi, sigma)
    told = sigma.sync(check=1).stderr.replace("\n    ", " ")
    assert "exit code 3: what is wrong, https://" in told
    assert "… → what to do" in told
    assert "secret" not in told
