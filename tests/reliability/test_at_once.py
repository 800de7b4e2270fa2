"""Everybody at once: cron runs that overlap, two machines, a person with git, an editor. Many seeds.

Runs are killed, or stand still with all that they started while the others go on.

A seed gives one schedule. ``TEST_SEED=7`` runs that one alone, ``TEST_SEEDS=200`` so many; what
the processes do to each other in between is up to the machine.
"""

from __future__ import annotations

import math
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.figures import observed
from tests.support.freeze import freeze, thaw
from tests.support.hubs import branches, cn_env, git, paths, read, try_git
from tests.support.world import Node, World

QUICK = 1
SEEDS = int(os.environ.get("TEST_SEEDS", "40"))
ONLY = os.environ.get("TEST_SEED", "")
STEPS = int(os.environ.get("TEST_STEPS", "25"))
DECISIONS = ("do:merge", "delete:no", "do:custom:watch it", "do:reply:answer", "delegate:omega", "defer:later")
ENDED = re.compile(r"✓ (merged SHA|discarded|opened)")


class Schedule:
    """One seed: what was started, what was written, and what must be found again."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.chance = world, random.Random(seed)
        config = "mailbox_trusted: true\nlock_wait: 60\n"
        self.sigma, self.pi = world.hub("sigma", config=config), world.hub("pi")
        self.omega = world.hub("omega")
        world.link(self.sigma, self.pi)
        world.link(self.sigma, self.omega)
        self.second = world.second(self.sigma)
        self.clones = (self.sigma, self.second)
        self.children: list[tuple[subprocess.Popen[str], str]] = []
        self.heads: dict[str, list[str]] = {}
        self.written: dict[str, str] = {}
        """Files that a person committed, by path."""
        self.saved: list[str] = []
        """Words that an editor saved in a thread."""
        self.seen: dict[Path, str] = {}
        """Threads as an editor first had them."""
        self.frozen: list[tuple[float, list[int]]] = []
        """Processes that stand still, and until when."""
        self.runs = self.kills = self.freezes = 0
        self.count = 0

    def number(self) -> int:
        """A new one each time."""
        self.count += 1
        return self.count

    def acts(self) -> list[Callable[[], None]]:
        """What can happen next; more likely what stands there more often."""
        often = [self.start, self.start, self.start, self.edit, self.edit, self.edit]
        rarely = [self.offer, self.work, self.move, self.withdraw, self.end, self.pause, self.answer, self.stop]
        return [*often, *rarely]

    def run(self) -> None:
        """Everything, then rest."""
        for _ in range(3):
            self.offer()
        for node in self.clones:
            node.sync()
        for _ in range(STEPS):
            self.chance.choice(self.acts())()
            self.go_on(time.monotonic())
        while self.children:
            self.finish(*self.children.pop(0))

    def start(self) -> None:
        """A run of cron's, beside those that are at it."""
        node = self.chance.choice((*self.clones, *self.clones, self.pi))
        words = self.chance.choice((("inbox", "sync"), ("inbox", "process"), ("inbox", "process"), ("sync",)))
        self.begin(node, *words)

    def begin(self, node: Node, *words: str) -> None:
        while len(self.children) > 3:
            self.finish(*self.children.pop(0))
        command = [sys.executable, "-m", "cn", "--hub", str(node.root), *words]
        child = subprocess.Popen(
            command, env=cn_env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.runs += 1
        self.children.append((child, f"{node.root.name} {' '.join(words)}"))

    def finish(self, child: subprocess.Popen[str], words: str) -> None:
        self.go_on()
        said, _ = child.communicate(timeout=120)
        assert child.returncode in (0, 1, -9), (words, child.returncode, said)
        assert "internal error" not in said, (words, said)
        assert "Traceback" not in said, (words, said)

    def offer(self) -> None:
        """A new branch of a person of pi's."""
        topic = f"t{self.number()}"
        self.heads[topic] = [self.world.propose(self.pi, self.sigma, topic)]

    def move(self) -> None:
        """One of its branches gets another head."""
        topic = self.chance.choice(list(self.heads))
        files = {f"docs/{topic}.md": f"{topic} again {self.number()}\n"}
        self.heads[topic].append(self.world.propose(self.pi, self.sigma, topic, files, force=True))

    def withdraw(self) -> None:
        """One goes, if it is still there."""
        topic = self.chance.choice(list(self.heads))
        try_git(self.world.person(self.pi, self.sigma), "push", self.sigma.url, f":refs/heads/pi/{topic}")

    def edit(self) -> None:
        """An editor saves a thread: the old way (in place) or the careful one (beside, then renamed)."""
        node = self.chance.choice(self.clones)
        names = sorted((node.root / "threads/inbox").glob("*.md"))
        if not names:
            return
        path = self.chance.choice(names)
        thinks = self.chance.choice((0.0, 0.0, 0.2))
        text = before = None
        while text is None or before != _look(path):  # as editors do that see the file change
            before = _look(path)
            if before is None:
                return
            text = path.read_text("utf-8") if path.exists() else ""
            time.sleep(thinks)
        first = self.seen.setdefault(path, text)
        if "word-" not in text and _heads(first) != _heads(text) and self.chance.random() < 0.5:
            text = first  # of an editor that did not see that the branch moved
        word = f"word-{self.number()}-"
        if "\n## Triage\n" in text:
            new = text + f"\n{word}\n"
        else:
            fields = f"decision: {self.chance.choice(DECISIONS)}\nactor: sigma\ntimestamp: 2026-02-05T15:00Z\n"
            new = f"{text}\n---\n\n## Triage\n\n{fields}\n{word}\n"
        self.save(path, new)
        self.saved.append(word)

    def save(self, path: Path, text: str) -> None:
        if self.chance.random() < 0.5:
            path.write_text(text, "utf-8")
            return
        beside = path.with_name(f".{path.name}.swp")
        beside.write_text(text, "utf-8")
        os.replace(beside, path)

    def work(self) -> None:
        """A person commits a document here or there, and pushes as far as that goes."""
        node = self.chance.choice(self.clones)
        name = f"docs/person-{self.number()}.md"
        text = f"{name}\n"
        (node.root / name).write_text(text)
        for number in range(200):  # a lock of the index is waited for, as people do
            if number == 100:  # a killed run left it: the next one, of cron's say, takes it away
                node.cn("sync", check=None)
            added = try_git(node.root, "add", "--", name)
            done = try_git(node.root, "commit", "--quiet", "-m", name, "--", name) if not added.returncode else added
            if done.returncode == 0:
                break
            time.sleep(0.05)
        assert done.returncode == 0, done.stderr
        self.written[name] = text
        if self.chance.random() < 0.5:
            try_git(node.root, "push", "--quiet", "origin", "main")

    def end(self) -> None:
        """SIGKILL for one of the runs."""
        if self.children:
            child, _ = self.chance.choice(self.children)
            if child.poll() is None:
                child.kill()
                self.kills += 1

    def stop(self) -> None:
        """One of the runs stands still for a while, wherever it is."""
        if self.children:
            child, _ = self.chance.choice(self.children)
            if child.poll() is None:
                self.frozen.append((time.monotonic() + self.chance.uniform(0.2, 6.0), freeze(child.pid)))
                self.freezes += 1

    def go_on(self, until: float = math.inf) -> None:
        """Those whose time it is."""
        for at, stopped in self.frozen:
            if at <= until:
                thaw(stopped)
        self.frozen = [one for one in self.frozen if one[0] > until]

    def pause(self) -> None:
        """Nothing happens for a moment."""
        time.sleep(self.chance.uniform(0.0, 0.5))

    def answer(self) -> None:
        """pi learns what became of its branches."""
        self.begin(self.pi, "sync")

    def settle(self) -> None:
        """Let everybody come to rest, still all at once."""
        quiet = 0
        everybody = (*self.clones, self.pi)
        for turn in range(32):
            before = [node.refs() for node in everybody]
            for node in everybody:
                self.begin(node, *(("sync",), ("inbox", "process"))[turn % 2])
            while self.children:
                self.finish(*self.children.pop(0))
            quiet = quiet + 1 if [node.refs() for node in everybody] == before else 0
            if quiet == 3:
                return
        raise AssertionError("they did not come to rest")

    def lost(self) -> list[str]:
        """What somebody wrote and nobody can find."""
        main = set(paths(self.sigma.home, "main"))
        gone = [name for name in self.written if name not in main]
        gone += [n for n, t in self.written.items() if n in main and read(self.sigma.home, f"main:{n}").decode() != t]
        texts = [read(self.sigma.home, f"main:{p}").decode() for p in main if p.startswith(("threads/", "logs/"))]
        for node in self.clones:
            kept = [*(node.root / "threads").rglob("*.md"), *(node.root / ".git/cn/aside").rglob("*.md*")]
            texts += [path.read_text("utf-8") for path in kept if path.is_file()]
        gone += [word for word in self.saved if not any(word in text for text in texts)]
        there = branches(self.sigma.home)
        last = {f"pi/{topic}": heads[-1] for topic, heads in self.heads.items()}
        return gone + [
            f"{name} at {head} has no thread"
            for name, head in last.items()
            if there.get(name) == head and not any(head in text for text in texts)
        ]

    def doubled(self) -> list[str]:
        """What happened more than once."""
        home = self.sigma.home
        merged = [
            parent
            for line in git(home, "log", "--merges", "--format=%P%x09%s", "main").splitlines()
            if line.partition("\t")[2].startswith("Merge pi/")
            for parent in line.split("\t")[0].split()[1:]
        ]
        found = [f"merged twice: {head}" for head, times in Counter(merged).items() if times > 1]
        rows = self.sigma.rows()
        done = Counter(re.match(r"\d{8}-(pi-t\d+)", name)[1] for name in self.sigma.done() if "-pi-t" in name)  # type: ignore[index]
        ended = Counter(r[0].replace("/", "-") for r in rows if ENDED.fullmatch(r[2]) and not r[1].startswith("send"))
        found += [f"ended more often than threads: {s} {n}" for s, n in ended.items() if n > done[s]]
        mail = Counter((r[0], r[1], r[2]) for r in rows if r[2] in ("queued", "✓ delivered"))
        for (source, what, executed), times in mail.items():
            if executed == "✓ delivered" and times > mail[source, what, "queued"]:
                found.append(f"delivered more often than queued: {source} {what}")
        arrived = Counter(r[0] for r in rows if r[1] in ("received", "rewritten", "moved"))
        for topic, heads in self.heads.items():
            if arrived[f"pi/{topic}"] > len(heads):
                found.append(f"arrived more often than it was pushed: pi/{topic}")
        return found

    def resurrected(self) -> list[str]:
        """Threads that stood in the inbox again after they were done, in any commit of main."""
        ended: set[str] = set()
        found = []
        for commit in git(self.sigma.home, "rev-list", "--reverse", "--first-parent", "main").split():
            names = git(self.sigma.home, "ls-tree", "-r", "--name-only", commit, "threads/inbox/").splitlines()
            ended |= {n.rpartition("/")[2] for n in names if "/done/" in n}
            found += [f"{n} in {commit}" for n in names if "/done/" not in n and n.rpartition("/")[2] in ended]
        return sorted(name for name in set(found) if not name.startswith("threads/inbox/.gitkeep"))

    def unsound(self) -> list[str]:
        """Anything left about, or anybody with another main."""
        found = []
        mains = {branches(self.sigma.home)["main"], *(git(n.root, "rev-parse", "main") for n in self.clones)}
        if len(mains) != 1:
            found.append(f"mains differ: {mains}")
        for node in (*self.clones, self.pi):
            cn = node.root / ".git/cn"
            status = git(node.root, "status", "--porcelain").splitlines()
            found += [line for line in status if "threads/inbox/" not in line]
            left = [*node.root.glob(".git/*.lock"), *node.root.rglob(".cn-tmp-*"), *cn.glob("push/*")]
            found += [str(path) for path in (*left, *(cn / n for n in ("journal", "restore"))) if path.exists()]
            found += [git(node.root, "fsck", "--no-dangling", "--no-progress")]
        return [line for line in found if line]


def _heads(text: str) -> list[str]:
    return re.findall(r"^\*\*Head:\*\* .*", text, re.MULTILINE)


def _look(path: Path) -> tuple[int, int, int] | None:
    """By what an editor sees that a file is another one."""
    try:
        at = path.stat()
    except FileNotFoundError:
        return None
    return at.st_ino, at.st_mtime_ns, at.st_size


def play(world: World, seed: int) -> None:
    """One schedule, and what must hold after it."""
    world.folder /= "at: 'once' \"all\" 50%"
    world.folder.mkdir()
    schedule = Schedule(world, seed)
    schedule.run()
    schedule.settle()
    lost, doubled = schedule.lost(), schedule.doubled()
    back, unsound = schedule.resurrected(), schedule.unsound()
    observed(
        "at-once",
        f"seed-{seed}",
        seeds=1,
        runs=schedule.runs,
        kills=schedule.kills,
        freezes=schedule.freezes,
        edits=len(schedule.saved),
        commits=len(schedule.written),
        branches=len(schedule.heads),
        lost=len(lost),
        doubled=len(doubled),
        resurrected=len(back),
        unsound=len(unsound),
    )
    assert (lost, doubled, back, unsound) == ([], [], [], []), f"seed {seed}"


@pytest.mark.parametrize("seed", [int(ONLY)] if ONLY else range(QUICK))
def test_a_few_schedules_lose_and_repeat_nothing(world: World, seed: int) -> None:
    play(world, seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(QUICK, QUICK + SEEDS))
def test_many_schedules_lose_and_repeat_nothing(world: World, seed: int) -> None:
    play(world, seed)
