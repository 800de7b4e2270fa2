"""A hub that is busy for a long time: what grows, what does not, and that git alone has it all.

The clock is cn's own, set forward day by day (:mod:`support.clock.sitecustomize`). ``TEST_DAYS``
says how many days the long one lasts; a year is what ``make year`` plays.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.figures import observed
from tests.support.hubs import ROOT, branches, clone, git, git_bytes, identify, paths, read
from tests.support.world import Node, World

CLOCK = ROOT / "tests/support/clock"
DAYS = int(os.environ.get("TEST_DAYS", "365"))
IDLE = 5


@dataclass
class Year:
    """Days of a hub with two peers: proposals, messages, decisions, notices, our own threads."""

    world: World
    chance: random.Random
    sigma: Node
    pi: Node
    omega: Node
    day: int = 0
    received: int = 0
    runs: int = 0
    idle: list[float] = field(default_factory=list)
    """Seconds of the idle syncs, oldest first; the shortest of each measurement."""

    def cn(self, node: Node, *words: str) -> subprocess.CompletedProcess[str]:
        """cn on the day that it is."""
        env = {"TEST_CLOCK": str(self.day * 86400), "PYTHONPATH": f"{CLOCK}{os.pathsep}{ROOT}"}
        done = node.cn(*words, check=None, env=env)
        assert done.returncode in (0, 1), done
        assert "internal error" not in done.stderr
        self.runs += node is self.sigma
        return done

    def live(self, days: int, stride: int) -> None:
        """Day after day, or with days between them on which nothing happens."""
        for _ in range(0, days, stride):
            self.day += stride
            for _ in range(self.chance.randint(1, 3)):
                self.arrive()
            self.cn(self.sigma, "inbox", "sync")
            self.decide()
            self.cn(self.sigma, "inbox", "process")
            self.cn(self.pi, "sync")
            if self.chance.random() < 0.3:
                self.cn(self.omega, "sync")
            if self.day % 7 < stride:
                self.cn(self.sigma, "weekly")

    def arrive(self) -> None:
        """A proposal or a message of pi's."""
        self.received += 1
        if self.chance.random() < 0.7:
            words = " ".join(self.chance.choice(("retry", "disk", "log", "peer")) for _ in range(120))
            self.world.propose(self.pi, self.sigma, f"t{self.received}", {f"docs/t{self.received}.md": words})
        else:
            self.cn(self.pi, "send", "sigma", f"m{self.received}", "--body", "Please read this.")

    def decide(self) -> None:
        """Most threads are decided on the day."""
        for name in self.sigma.threads():
            topic = name.split("-", 2)[2].removesuffix(".md")
            kind = self.chance.random()
            if topic.startswith("t") and kind < 0.5:
                decision = "do:merge"
            else:
                decision = self.chance.choice(("delete:no", "do:custom:watch " + topic, "delegate:omega"))
            if kind < 0.9:
                self.cn(self.sigma, "inbox", "triage", f"pi/{topic}", decision)

    def measure(self) -> float:
        """The shortest of some idle syncs, once everybody has come to rest."""
        for node in (self.pi, self.omega, self.sigma, self.pi, self.sigma):
            self.cn(node, "sync")
        times = []
        for _ in range(IDLE):
            begin = time.perf_counter()
            self.cn(self.sigma, "inbox", "sync", "-v")  # all of it: no short cut for a quiet hub
            times.append(time.perf_counter() - begin)
        self.idle.append(min(times))
        return self.idle[-1]

    def size(self) -> int:
        """Bytes of everything in origin, packed as a host would keep it."""
        copy = self.world.folder / f"packed-{self.day}"
        git(self.world.folder, "clone", "-q", "--bare", "--no-local", str(self.sigma.home), str(copy))
        git(copy, "repack", "-adq")
        return sum(p.stat().st_size for p in (copy / "objects").rglob("*") if p.is_file())

    def commits(self) -> int:
        """Commits of cn's own on main, merges of branches and people's left out."""
        return int(git(self.sigma.home, "rev-list", "--count", "--first-parent", "--no-merges", "main"))


def digest(node: Node) -> str:
    """Ledger, inbox, mail and logs as cn sees them in its work tree."""
    found = hashlib.sha256()
    for folder in ("state/ledger", "threads", "logs/inbox"):
        for path in sorted((node.root / folder).rglob("*")):
            if path.is_file():
                found.update(f"{path.relative_to(node.root)}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()


def digest_of_main(repo: Path) -> str:
    """The same from git alone."""
    found = hashlib.sha256()
    wanted = sorted(
        (p for p in paths(repo, "main") if p.startswith(("state/ledger/", "threads/", "logs/inbox/"))),
        key=lambda p: (
            ("state/ledger", "threads", "logs/inbox").index(
                "/".join(p.split("/")[: 1 if p.startswith("threads/") else 2])
            ),
            Path(p),
        ),
    )
    for path in wanted:
        found.update(f"{path}\0".encode() + read(repo, f"main:{path}") + b"\0")
    return found.hexdigest()


def start(world: World) -> Year:
    """The first day of the hub."""
    config = "mailbox_trusted: true\n"
    sigma, pi, omega = (world.hub(name, config=config) for name in ("sigma", "pi", "omega"))
    world.link(sigma, pi)
    world.link(sigma, omega)
    year = Year(world, random.Random("year"), sigma, pi, omega)
    for node in (sigma, pi, omega):
        year.cn(node, "sync")
    return year


def widest(repo: Path) -> int:
    """The most entries that any folder of main has."""
    folders: dict[str, set[str]] = {}
    for path in paths(repo, "main"):
        parts = path.split("/")
        for depth in range(len(parts)):
            folders.setdefault("/".join(parts[:depth]), set()).add(parts[depth])
    return max(len(names) for names in folders.values())


def play(world: World, days: int, case: str, stride: int = 1) -> Year:
    """Live, measure, rebuild from a bare clone, compare."""
    year = start(world)
    first = year.measure()
    begin = year.size()
    year.live(days, stride)
    last = year.measure()
    per_message = (year.size() - begin) / year.received
    ratio = last / first
    per_run = year.commits() / year.runs
    assert digest(year.sigma) == digest_of_main(year.sigma.home)

    bare_copy = world.folder / "copy.git"
    git(world.folder, "clone", "-q", "--mirror", str(year.sigma.home), str(bare_copy))
    root = clone(bare_copy, world.folder / "rebuilt", trusted=True)
    identify(root, "sigma", "sigma@cn.invalid")
    rebuilt = Node("sigma", root, bare_copy, str(bare_copy))
    before = digest(rebuilt)
    again = year.cn(rebuilt, "inbox", "sync")
    same = digest(rebuilt) == before == digest(year.sigma)
    observed(
        "long-run",
        case,
        days=days,
        messages=year.received,
        runs=year.runs,
        bytes_per_message=round(per_message),
        commits_per_run=round(per_run, 2),
        idle_first_ms=round(first * 1000),
        idle_last_ms=round(last * 1000),
        idle_ratio=round(ratio, 2),
        widest_folder=widest(year.sigma.home),
        rebuilt_same=int(same),
    )
    assert same, again.stdout
    assert again.returncode == 0, again
    assert per_message < 24 * 1024
    assert per_run <= 2
    rows = year.sigma.rows()
    assert len([r for r in rows if r[1] == "received"]) == year.received
    return year


def test_some_weeks_of_a_busy_hub(world: World) -> None:
    play(world, 6, "weeks", stride=8)


@pytest.mark.full
def test_a_year_of_a_busy_hub(world: World) -> None:
    year = play(world, DAYS, "year")
    assert branches(year.sigma.home)["main"] == git(year.sigma.root, "rev-parse", "main")
    assert git_bytes(year.sigma.root, "status", "--porcelain") == b""
