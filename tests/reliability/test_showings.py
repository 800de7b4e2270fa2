"""Two clones decide about a branch that comes, goes, moves and comes back at random; a merge is of what was shown last.

A seed gives one history. ``TEST_SEED=7`` has that one alone, ``TEST_SEEDS=200`` so many.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.support.figures import observed
from tests.support.hubs import clone, git, identify, try_git
from tests.support.world import Node, World

QUICK = 2
SEEDS = int(os.environ.get("TEST_SEEDS", "40"))
ONLY = os.environ.get("TEST_SEED", "")
STEPS = int(os.environ.get("TEST_STEPS", "25"))
SHOWN = ("received", "refreshed", "repeated")


def shown(folder: Path) -> list[str]:
    """What main has there of the times that the branch was shown."""
    words = f" in ({'|'.join(SHOWN)}) proposal "
    return try_git(folder, "grep", "-h", "-E", words, "main", "--", "state/ledger").stdout.decode().splitlines()


class Play:
    """One seed."""

    def __init__(self, world: World, seed: int) -> None:
        self.chance = random.Random(seed)
        sigma, pi = world.hub("sigma"), world.hub("pi")
        world.link(sigma, pi)
        first = world.propose(pi, sigma)
        self.heads = [first, world.propose(pi, sigma, files={"docs/more.md": "more\n"}, start="HEAD")]
        root = clone(sigma.home, world.folder / "cn-sigma-2", trusted=True)
        identify(root, "sigma", "sigma@cn.invalid")
        self.sigma = sigma
        self.nodes = [sigma, Node("sigma", root, sigma.home, sigma.url)]
        self.decided: dict[str, list[str]] = {}
        self.said: list[str] = []

    def do(self, node: Node, *words: str) -> bool:
        """One command; a rule may refuse it, but it says so."""
        done = node.cn(*words, check=None)
        self.said.append(f"{node.root.name}: cn {' '.join(words)}: {done.returncode}")
        assert done.returncode in (0, 1), (self.said, done)
        assert "Traceback" not in done.stderr, (self.said, done.stderr)
        return done.returncode == 0

    def push(self) -> None:
        """Somebody who may push there sets the branch, or deletes it."""
        head = self.chance.choice([*self.heads, ""])
        self.said.append(f"the branch is {head[:8] or 'deleted'}")
        words = (
            ("update-ref", "refs/heads/pi/proposal", head) if head else ("update-ref", "-d", "refs/heads/pi/proposal")
        )
        git(self.sigma.home, *words)

    def decide(self, node: Node) -> None:
        """What is decided is what this clone's main shows."""
        seen = shown(node.root)
        if seen and self.do(node, "inbox", "triage", "pi/proposal", "do:merge"):
            self.decided[node.root.name] = seen

    def step(self) -> bool:
        """Whatever comes; is it over?"""
        node = self.chance.choice(self.nodes)
        act = self.chance.choice(["push", "push", "sync", "sync", "sync", "decide", "decide", "commit", "process"])
        if act == "push":
            self.push()
        elif act == "decide":
            self.decide(node)
        else:
            self.do(node, *(("inbox", "process") if act == "process" else (act,)))
        return act == "process" and self._merged(node)

    def _merged(self, node: Node) -> bool:
        merged = try_git(self.sigma.home, "grep", "-q", " in decided proposal ", "main", "--", "state/ledger")
        if merged.returncode != 0:
            return False
        assert self.decided.get(node.root.name) == shown(self.sigma.home), self.said
        return True


@pytest.mark.parametrize(
    "seed",
    [int(ONLY)] if ONLY else [pytest.param(n, marks=[] if n < QUICK else pytest.mark.full) for n in range(SEEDS)],
)
def test_what_is_merged_was_decided_after_it_was_shown_last(world: World, seed: int) -> None:
    play = Play(world, seed)
    merged = any(play.step() for _ in range(STEPS))
    observed("showings", f"seed {seed}", commands=len(play.said), merged=int(merged))
