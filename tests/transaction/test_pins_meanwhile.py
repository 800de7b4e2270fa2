"""Pins go to origin while the work tree is brought up to date, and nothing hangs on them."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.support.hubs import git
from tests.support.meanwhile import meanwhile
from tests.support.world import Node, World

PIN = "refs/cn/pins/pi/in/proposal"


def pins(repo: Path) -> list[str]:
    return git(repo, "for-each-ref", "--format=%(refname)", "refs/cn/pins/").split()


def until(*tests: str) -> str:
    """Shell: wait for all of these, for ten seconds at most, and say whether they came."""
    both = " && ".join(tests)
    return f"for i in $(seq 200); do if {both}; then echo came; break; fi; sleep 0.05; done"


def test_the_push_of_pins_begins_before_the_files_are_brought_and_is_waited_for(
    world: World, sigma: Node, pi: Node, tmp_path: Path
) -> None:
    world.propose(pi, sigma)
    inbox = sigma.root / "threads/inbox"
    thread, index = f"ls {inbox}/*-pi-proposal.md", f"! test -e {sigma.root}/.git/cn/journal"
    late = until(f"{thread} >{tmp_path}/ls 2>&1", index)
    env = meanwhile(
        tmp_path / "bin", before=f"{thread} >{tmp_path}/ls 2>&1 || echo early; {late}", push=":refs/cn/"
    )
    done = sigma.cn("sync", env=env)
    assert (tmp_path / "bin/said").read_text("utf-8").split() == ["early", "came"]
    assert "✓" in done.stdout
    assert pins(sigma.home) == pins(sigma.root) == [PIN]
    assert not (sigma.root / ".git/cn/outgoing").exists()


def test_an_origin_that_takes_no_pins_is_told_of_once_and_stops_nothing(
    world: World, sigma: Node, pi: Node
) -> None:
    git(sigma.home, "config", "receive.hideRefs", "refs/cn")
    world.propose(pi, sigma)
    assert "origin did not take cn's pins" in sigma.sync().stdout
    assert (pins(sigma.home), pins(sigma.root)) == ([], [PIN])
    world.propose(pi, sigma, "second")
    assert "cn's pins" not in sigma.sync().stdout
    assert len(sigma.threads()) == 2


def test_sigterm_while_pins_are_on_their_way_leaves_all_in_order(
    world: World, sigma: Node, pi: Node, tmp_path: Path
) -> None:
    world.propose(pi, sigma)
    gone = until(f"! test -e {sigma.root}/.git/cn/journal")
    env = meanwhile(tmp_path / "bin", before=f"{gone}; kill -TERM $PPID; sleep 20", push=":refs/cn/")
    done = sigma.cn("sync", check=128 + signal.SIGTERM, env=env)
    assert "Traceback" not in done.stderr
    assert sigma.threads()
    assert not (sigma.root / ".git/cn/outgoing").exists()
    assert git(sigma.root, "status", "--porcelain") == ""
    assert git(sigma.home, "rev-parse", "main") == git(sigma.root, "rev-parse", "main")
    assert sigma.sync().stdout == ""
