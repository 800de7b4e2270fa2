"""A host that shows a repository as it was: a mirror that lags, a backup, a page that is no git."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.support.hubs import ROOT, bare, branches, git
from tests.support.world import Node, World


def asked_and_answered(world: World, sigma: Node, pi: Node) -> Path:
    """pi's question is answered, and not read yet; a copy of pi's repository as it was before."""
    world.link(sigma, pi, "pickup")
    sigma.sync()
    old = shutil.copytree(pi.home, world.folder / "old.git")
    pi.cn("send", "sigma", "Which port", "--body", "which?")
    sigma.sync()
    sigma.decide("pi/which-port", "do:reply:answer", "--body", "Port 4711")
    return old


def shown(pi: Node, other: Path) -> None:
    """Swap the repository that pi's peers see with another."""
    beside = other.with_suffix(".swap")
    pi.home.rename(beside)
    other.rename(pi.home)
    beside.rename(other)


def test_by_an_older_listing_nothing_is_gone_and_no_answer_is_lost(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    old = asked_and_answered(world, sigma, pi)
    shown(pi, old)
    said = sigma.sync().stdout
    assert "pi's main lacks" in said
    assert "is gone" not in said
    assert "pi's main lacks" in sigma.cn("status").stdout
    assert "pi/answer" in branches(sigma.home)
    shown(pi, old)
    pi.sync()
    assert "4711" in pi.thread(pi.only_thread())
    said = sigma.sync().stdout
    assert "pi/which-port is gone: its creator deleted the branch" in said
    assert "deleted pi/answer" in said
    assert "lacks" not in sigma.cn("status").stdout


def test_an_answer_that_nothing_shows_to_be_read_stays_for_a_day(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    asked_and_answered(world, sigma, pi)
    git(pi.home, "update-ref", "-d", "refs/heads/sigma/which-port")
    for hours, there in ((0, True), (1, True), (2, True), (25, False)):
        path = os.pathsep.join([str(ROOT / "tests/support/clock"), str(ROOT)])
        said = sigma.cn("sync", env={"PYTHONPATH": path, "TEST_CLOCK": str(hours * 3600)}).stdout
        assert "its creator" not in said
        assert ("pi/answer" in branches(sigma.home)) is there, said


def test_a_hub_that_lists_nothing_at_all_has_lost_nothing(world: World, sigma: Node, pi: Node) -> None:
    sigma.cn("send", "pi", "Question", "--body", "why?")
    pi.sync()
    pi.decide("sigma/question", "delete:no")
    empty = bare(world.folder / "empty.git")
    shown(pi, empty)
    done = sigma.sync(check=1)
    assert "pi is unreachable: it lists no branch at all, and had some" in done.stderr
    assert "✓ deleted" not in done.stdout
    shown(pi, empty)
    assert "deleted sigma/question at pi" in sigma.cn("peer", "sync", "pi").stdout
    assert "healthy" in sigma.cn("doctor").stdout
