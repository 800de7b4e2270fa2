"""A peer that says nothing, and runs that are ended before its time is over: the others go on, and it is told."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.hubs import ROOT, cn_env
from tests.support.proxy import NONE, Fault, Proxy, proxy
from tests.support.servers import http_backend
from tests.support.world import Node, World

SILENT = Fault("silent", hang=True)


def end(node: Node, *words: str, meets: Callable[[], bool], after: float, by: int = signal.SIGTERM) -> tuple[int, str]:
    """End a command by a signal so many seconds ``after`` what it meets; its code, and its last words."""
    command = [sys.executable, "-m", "cn", "--hub", str(node.root), *words]
    with subprocess.Popen(command, env=cn_env({"PYTHONPATH": str(ROOT)}), stderr=subprocess.PIPE, text=True) as child:
        try:
            while not meets():
                assert child.poll() is None, "it had nobody to wait for"
                time.sleep(0.02)
            time.sleep(after)
            child.send_signal(by)
            _, said = child.communicate(timeout=30)
        finally:
            child.kill()
    return child.returncode, " ".join(said.split())


@pytest.fixture
def trio(world: World, tmp_path: Path) -> Iterator[tuple[Node, Node, Node, Proxy]]:
    """A hub with two peers, and what stands before the second one, over the network."""
    with ExitStack() as stack:
        sigma, pi, omega = (world.hub(name) for name in ("sigma", "pi", "omega"))
        served = stack.enter_context(http_backend(omega.home.parent))
        before = stack.enter_context(proxy(urlsplit(served.base).port or 0))
        omega.url = f"http://127.0.0.1:{before.port}/{omega.home.name}"
        world.link(sigma, pi)
        world.link(sigma, omega)
        sigma.sync()
        yield sigma, pi, omega, before


def hushed(before: Proxy) -> Callable[[], bool]:
    """From now on nobody answers; has somebody asked?"""
    before.fault, met = SILENT, before.met
    return lambda: before.met > met


@pytest.mark.parametrize("quiet", [False, True], ids=["an ordinary sync", "one with nothing new"])
@pytest.mark.parametrize(
    ("by", "code", "word"), [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")]
)
def test_runs_that_are_ended_beside_a_silent_peer_go_on_with_the_others(
    world: World, trio: tuple[Node, Node, Node, Proxy], by: int, code: int, word: str, *, quiet: bool
) -> None:
    sigma, pi, _, before = trio
    note = sigma.root / ".git/cn/quiet"
    sigma.sync()
    assert note.exists()
    if not quiet:
        note.unlink()
    world.propose(pi, sigma)
    ended, said = end(sigma, "sync", meets=hushed(before), after=3.5, by=by)
    assert ended == code
    assert word in said
    assert ": no answer from omega in 3 s" in said or ": no answer from omega in 4 s" in said
    assert "'cn peer sync omega' asks at once" in said
    assert ("nothing was committed" in said) is not quiet, "the check of a quiet hub begins no run"

    met = before.met
    assert "received pi/proposal" in sigma.sync().stdout
    assert before.met == met, "it is left alone for a while"
    for words in (("status",), ("doctor",)):
        shown = " ".join(sigma.cn(*words, check=None).stdout.split())
        assert "omega" in shown
        assert " s, when the run was ended" in shown, words

    before.fault = NONE
    assert "omega is reachable again" in sigma.cn("peer", "sync", "omega").stdout
    assert "when the run was ended" not in sigma.cn("status").stdout


def test_what_waits_for_the_others_goes_after_a_run_that_was_ended_while_it_pushed(
    world: World, trio: tuple[Node, Node, Node, Proxy]
) -> None:
    sigma, pi, omega, before = trio
    for peer in (pi, omega):
        world.propose(peer, sigma)
    sigma.sync()
    for name in ("pi", "omega"):
        sigma.triage(f"{name}/proposal", "do:merge")
    code, said = end(sigma, "inbox", "process", meets=hushed(before), after=3.5)
    assert code == 143
    assert "it is committed" in said
    assert "ask omega less often" in said
    met = before.met
    done = sigma.process()
    assert "✓ delivered sigma/notice-proposal at pi" in done.stdout
    assert before.met == met

    before.fault = NONE
    assert "✓ delivered sigma/notice-proposal at omega" in sigma.cn("outbox", "flush").stdout


def test_a_peer_that_was_asked_a_moment_ago_when_a_run_is_ended_is_not_counted(
    trio: tuple[Node, Node, Node, Proxy],
) -> None:
    sigma, _, _, before = trio
    (sigma.root / ".git/cn/quiet").unlink(missing_ok=True)
    code, said = end(sigma, "sync", meets=hushed(before), after=0.5)
    assert code == 143
    assert "omega" not in said
    before.fault = NONE
    assert "unreachable" not in sigma.cn("status").stdout
