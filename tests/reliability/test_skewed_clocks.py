"""Clones whose clocks differ: what was decided stays decided, whoever reads the history."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.hubs import ROOT, clone, git, identify, tip
from tests.support.world import Node, World

CLOCK = ROOT / "tests/support/clock"
MONTH = datetime(2026, 12, 1, tzinfo=UTC)


def clone_of(sigma: Node, root: Path) -> Node:
    clone(sigma.home, root, trusted=True)
    identify(root, "sigma", "sigma@cn.invalid")
    return Node("sigma", root, sigma.home, sigma.url)


def at(node: Node, moment: datetime, *words: str) -> subprocess.CompletedProcess[str]:
    """cn at another time."""
    seconds = (moment - datetime.now(UTC)).total_seconds()
    env = {"TEST_CLOCK": str(seconds), "PYTHONPATH": f"{CLOCK}{os.pathsep}{ROOT}"}
    return node.cn(*words, env=env)


def months(node: Node) -> list[str]:
    return sorted(n for n in git(node.root, "ls-tree", "--name-only", "main:state/ledger/pi").split() if n != "open")


def merges(node: Node) -> int:
    return [r[2] for r in node.rows()].count("✓ merged SHA")


def life_across_a_month(world: World, sigma: Node, pi: Node, second: Node, slow: timedelta) -> datetime:
    """Received here after the turn of the month, decided there before it."""
    fast = MONTH + timedelta(minutes=5)
    world.propose(pi, sigma)
    at(sigma, fast, "sync")
    there = fast - slow
    at(second, there, "sync")
    at(second, there, "inbox", "triage", "pi/proposal", "do:merge")
    at(second, there, "inbox", "process")
    return fast


@pytest.mark.sliced(2)
@pytest.mark.parametrize("slow", [timedelta(minutes=10), timedelta(days=3653)], ids=str)
def test_a_slow_clock_across_a_month_revives_nothing(world: World, sigma: Node, pi: Node, slow: timedelta) -> None:
    second = clone_of(sigma, world.folder / "cn-sigma-2")
    fast = life_across_a_month(world, sigma, pi, second, slow)
    assert months(second) == ["202612"], "the end of a thread is written after its beginning"
    assert merges(second) == 1
    fresh = clone_of(sigma, world.folder / "cn-sigma-3")
    for node in (fresh, sigma, second):
        for words in (["sync"], ["doctor", "--fix"], ["inbox", "process"], ["sync"]):
            done = at(node, fast, *words)
            assert "restored" not in done.stdout + done.stderr, (node.root, words)
            assert "written anew" not in done.stdout + done.stderr, (node.root, words)
        assert node.threads() == []
        assert merges(node) == 1
    for _ in range(3):
        at(pi, fast, "sync")
        at(sigma, fast, "sync")
        at(second, fast - slow, "sync")
    assert git(sigma.home, "for-each-ref", "--format=%(refname:short)", "refs/heads").split() == ["main"]
    assert merges(sigma) == 1
    assert len([d for d in sigma.sent() if "notice" in d and "delete" not in d]) == 1


def test_a_history_that_is_out_of_order_already_revives_nothing(world: World, sigma: Node, pi: Node) -> None:
    """As an older version wrote it: the decision stands in the month before."""
    second = clone_of(sigma, world.folder / "cn-sigma-2")
    life_across_a_month(world, sigma, pi, second, timedelta(minutes=10))
    writer = clone_of(sigma, world.folder / "writer")
    folder = writer.root / "state/ledger/pi"
    lines = (folder / "202612").read_text().splitlines(keepends=True)
    opening = [line for line in lines if " in received " in line]
    assert len(opening) == 1
    (folder / "202612").write_text("".join(opening))
    (folder / "202611").write_text("".join(line for line in lines if line not in opening))
    git(writer.root, "add", "-A")
    git(writer.root, "commit", "--quiet", "-m", "as it was")
    git(writer.root, "push", "--quiet", "origin", "+main")
    fresh = clone_of(sigma, world.folder / "cn-sigma-3")
    before = tip(fresh.root, "main")
    for words in (["doctor", "--fix"], ["sync"], ["inbox", "process"], ["sync"]):
        done = fresh.cn(*words)
        assert "restored" not in done.stdout + done.stderr, words
        assert "differs from the history" not in done.stdout, words
    assert fresh.threads() == []
    assert merges(fresh) == 1
    assert git(fresh.root, "rev-list", "--merges", f"{before}..main") == ""
    shutil.rmtree(writer.root)


def test_a_clock_that_was_ahead_once_does_not_bring_back_what_is_decided_now(
    world: World, sigma: Node, pi: Node
) -> None:
    now = datetime.now(UTC)
    world.propose(pi, sigma)
    at(sigma, now + timedelta(days=3653), "sync")
    sigma.decide("pi/proposal", "do:merge")
    world.settle(pi, sigma)
    fresh = clone_of(sigma, world.folder / "cn-sigma-2")
    done = fresh.cn("sync")
    assert "restored" not in done.stdout + done.stderr
    fresh.cn("inbox", "process")
    assert fresh.threads() == []
    assert merges(fresh) == 1
    assert "differs" not in fresh.cn("doctor").stdout


@pytest.mark.parametrize("years", [3, 40])
def test_a_clock_behind_the_whole_hub_leaves_the_histories_of_proposals_in_common(
    world: World, sigma: Node, pi: Node, years: int
) -> None:
    """git's walks end by the dates of commits: after some that are older than all, it listed main's as the branch's."""
    head = world.propose(pi, sigma, "early")
    sigma.sync()
    behind = timedelta(days=365 * years)
    for number in range(8):
        at(sigma, datetime.now(UTC) - behind, "adhoc", f"note {number}")
    at(sigma, datetime.now(UTC) - behind, "sync")
    assert git(sigma.root, "rev-list", f"main..{head}").split() == [head]
    assert "behind the last commit of main" in at(sigma, datetime.now(UTC) - behind, "doctor").stdout
    sigma.decide("pi/early", "do:merge")
    assert merges(sigma) == 1
