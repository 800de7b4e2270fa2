"""Two hubs talk at random; when all is said no branch of either side is left, and nothing waits.

A seed gives one conversation. ``TEST_SEED=7`` has that one alone, ``TEST_SEEDS=200`` so many.
"""

from __future__ import annotations

import json
import os
import random

import pytest

from tests.support.figures import observed
from tests.support.hubs import branches, try_git
from tests.support.world import Node, World

QUICK = 1
SEEDS = int(os.environ.get("TEST_SEEDS", "60"))
ONLY = os.environ.get("TEST_SEED", "")
STEPS = int(os.environ.get("TEST_STEPS", "20"))
ROUNDS = 8


class Talk:
    """One seed."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.chance = world, random.Random(seed)
        self.nodes = world.hub("sigma"), world.hub("pi")
        world.link(*self.nodes)
        self.proposed: list[tuple[Node, Node, str]] = []
        self.count = 0
        self.said: list[str] = []
        self.words: list[tuple[Node, str]] = []

    def number(self) -> int:
        """A new one each time."""
        self.count += 1
        return self.count

    def do(self, node: Node, *words: str) -> None:
        """One command; a rule may refuse it, but it says so."""
        self.said.append(f"{node.name}: cn {' '.join(words)}")
        done = node.cn(*words, check=None)
        assert done.returncode in (0, 1), (self.said, done)
        assert "Traceback" not in done.stderr, (self.said, done.stderr)
        if done.returncode == 0 and words[0] in ("comment", "reply", "send"):
            self.words.append((next(one for one in self.nodes if one is not node), words[-1]))

    def step(self) -> None:
        """Whatever comes."""
        node, other = self.chance.sample(self.nodes, 2)
        often = [self.sync] * 3 + [self.decide] * 6
        self.chance.choice([self.send, self.propose, self.move, self.withdraw, *often])(node, other)

    def sync(self, node: Node, other: Node) -> None:
        """Cron."""
        self.do(node, "sync")

    def send(self, node: Node, other: Node) -> None:
        """A message."""
        self.do(node, "send", other.name, f"Message {self.count}", "--body", f"Text {self.number()}.")

    def propose(self, node: Node, other: Node) -> None:
        """A branch that a person pushes."""
        topic = f"p{self.number()}"
        self.said.append(f"{node.name} proposes {topic}")
        self.world.propose(node, other, topic, {f"docs/{topic}.md": "one\n"})
        self.proposed.append((node, other, topic))

    def move(self, node: Node, other: Node) -> None:
        """Another commit on it."""
        if self.proposed:
            creator, receiver, topic = self.chance.choice(self.proposed)
            self.said.append(f"{creator.name} moves {topic}")
            files = {f"docs/{topic}.md": f"{self.number()}\n"}
            self.world.propose(creator, receiver, topic, files, force=True)

    def withdraw(self, node: Node, other: Node) -> None:
        """Its creator takes it back."""
        if self.proposed:
            creator, receiver, topic = self.chance.choice(self.proposed)
            self.said.append(f"{creator.name} withdraws {topic}")
            name, url = self.world.branch(creator, receiver, topic)
            try_git(self.world.person(creator, receiver), "push", "-q", url, f":refs/heads/{name}")

    def decide(self, node: Node, other: Node) -> None:
        """Something about a thread that waits."""
        if not (waiting := node.threads()):
            return
        name = self.chance.choice(waiting)
        words = self.chance.choice(
            [
                ("comment", name, f"Comment {self.number()}."),
                ("comment", name, f"Comment {self.number()}."),
                ("reply", name, f"Reply {self.number()}."),
                ("reply", name, f"Reply {self.number()}."),
                ("done", name),
                ("delete", name, "--reason", "no"),
                ("defer", name, "--until", "3d", "--reason", "later"),
                ("inbox", "triage", name, "do:merge"),
                ("inbox", "triage", name, "do:custom:watch it"),
                ("inbox", "triage", name, f"do:reply:answer-{self.number()}", "--body", "So."),
            ]
        )
        self.do(node, *words)
        if words[0] == "inbox":
            self.do(node, "inbox", "process")

    def end(self) -> None:
        """All is decided; answers may come until then."""
        for _ in range(ROUNDS):
            for node in self.nodes:
                self.do(node, "sync")
            left = [(node, name) for node in self.nodes for name in node.threads()]
            for node, name in left:
                self.do(node, "done", name)
            if not left:
                break
        self.world.settle(*self.nodes)

    def check(self) -> None:
        """Nothing is left of it, and all that was said was shown."""
        for node, words in self.words:
            shown = try_git(node.root, "grep", "-q", "-F", "--", f"> {words}", "main", "--", "threads/inbox")
            assert shown.returncode == 0, (node.name, words, self.said)
        for node in self.nodes:
            told = "\n".join([*self.said, node.cn("status", check=None).stdout])
            assert (node.threads(), node.outbox()) == ([], []), told
            assert list(branches(node.url)) == ["main"], told
            assert json.loads(node.cn("status", "--json").stdout)["waiting"] == [], told


@pytest.mark.parametrize(
    "seed",
    [int(ONLY)] if ONLY else [pytest.param(n, marks=[] if n < QUICK else pytest.mark.full) for n in range(SEEDS)],
)
def test_when_all_is_said_nothing_is_left(world: World, seed: int) -> None:
    talk = Talk(world, seed)
    for _ in range(STEPS):
        talk.step()
    talk.end()
    talk.check()
    observed("conversations", f"seed {seed}", commands=len(talk.said))
