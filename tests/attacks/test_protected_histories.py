"""Somebody who may push to origin's main, an owner who works with git, and a colleague who signs, at random.

No value of a protected file comes into force that neither ``cn trust`` has shown, nor one of the two has written since.

A file has slots, far enough from each other that git merges them one by one. A seed gives one history.
``TEST_SEED=7`` has that one alone, ``TEST_SEEDS=200`` so many.
"""

from __future__ import annotations

import os
import random
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.figures import observed
from tests.support.hubs import clone, commit, git, make_ssh_key, sign_with, try_git
from tests.support.world import World

QUICK = 2
SEEDS = int(os.environ.get("TEST_SEEDS", "200"))
ONLY = os.environ.get("TEST_SEED", "")
STEPS = int(os.environ.get("TEST_STEPS", "60"))
SLOTS = 6
TRUSTED = "refs/cn/trusted"
STATES = ("MERGE_HEAD", "REVERT_HEAD", "CHERRY_PICK_HEAD", "rebase-merge", "rebase-apply")
SUBJECTS = ("edit", "fix(start): a", "rebase (finish): b", "pull (finish): c", "Revert it")


class History:
    """One seed: the owner, who has the hub, and clones of origin: mallory's, and alice's, who signs."""

    def __init__(self, world: World, seed: int, path: str) -> None:
        self.chance, self.path = random.Random(seed), path
        self.sigma = world.hub("sigma")
        self.hub = self.sigma.root
        if path.startswith("threads/"):
            git(self.hub, "config", "cn.guard", "true")
        commit(self.hub, {path: _render(["0"] * SLOTS)}, "slots")
        self.sigma.cn("sync", check=None)
        self.mallory = clone(self.sigma.url, world.folder / "mallory", "mallory")
        self.alice = clone(self.sigma.url, world.folder / "alice", "alice")
        key, public = make_ssh_key(world.folder / "key")
        sign_with(self.alice, key)
        git(self.hub, "config", "cn.trustedKey", public)
        self.said: list[str] = []
        self.count = self.asked = 0
        self.seconds = 1_790_000_000
        self.wanted: list[set[str]] = [set() for _ in range(SLOTS)]
        """What the owner or alice wrote into each slot, until it was in force and another came."""
        self.accepted = self.values(TRUSTED)

    def git(self, at: Path, *words: str, **env: str) -> str:
        """One command; git may refuse it."""
        self.seconds += self.chance.choice([0, 1, 7])
        dates = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), f"{self.seconds} +0000")
        done = try_git(at, *words, **{**dates, "GIT_EDITOR": "true", **env})
        self.said.append(f"{'hub' if at == self.hub else at.name}: git {shlex.join(words)} [{done.returncode}]")
        return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""

    def values(self, revision: str) -> list[str]:
        """What a commit has in the slots; nothing where it has no such file."""
        shown = try_git(self.hub, "show", f"{revision}:{self.path}")
        return _parse(shown.stdout.decode("utf-8", "replace")) if shown.returncode == 0 else []

    def want(self, values: list[str]) -> None:
        """The owner writes or takes these."""
        for slot, value in enumerate(values[:SLOTS]):
            self.wanted[slot].add(value)

    def edit(self, at: Path, mark: str) -> None:
        """One slot, in the work tree; a file that is not there is made anew."""
        file = at / self.path
        values = _parse(file.read_text()) if file.exists() else []
        if len(values) != SLOTS:
            values = ["0"] * SLOTS
            self.want(values if at != self.mallory else [])
        self.count += 1
        slot = self.chance.randrange(SLOTS)
        values[slot] = f"{mark}{self.count}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_render(values))
        if at != self.mallory:
            self.wanted[slot].add(values[slot])

    def own(self) -> list[str]:
        """Commits that the owner made, the newest first."""
        rows = self.git(self.hub, "log", "-g", "--format=%H %gs", "HEAD", "--").splitlines()
        return [row.split()[0] for row in rows if re.match(r"\S+ commit(:| \(amend\))", row)]

    # What the owner does.

    def commits(self) -> None:
        """An edit."""
        self.edit(self.hub, "own")
        self.git(self.hub, "commit", "-qam", self.chance.choice(SUBJECTS))

    def amends(self) -> None:
        """The last commit, where it is an own one."""
        if self.git(self.hub, "rev-parse", "HEAD").strip() in self.own():
            self.edit(self.hub, "own")
            self.git(self.hub, "commit", "-qa", "--amend", "--no-edit")

    def pulls(self) -> None:
        """In all ways."""
        how = self.chance.choice([["--rebase"], ["--no-rebase"], ["--ff-only"], ["--rebase=merges"]])
        self.git(self.hub, "pull", "-q", *how, "origin", "main")
        self.solve()

    def pushes(self) -> None:
        """By hand."""
        self.git(self.hub, "push", "-q", "origin", "main")

    def reverts(self) -> None:
        """An own commit."""
        for one in self.own()[:4][self.chance.randrange(4) :][:1]:
            if len(before := self.values(f"{one}^")) == SLOTS:
                self.want(before)
                self.git(self.hub, "revert", "--no-edit", one)
                self.solve()

    def picks(self) -> None:
        """An own commit again."""
        for one in self.own()[:6][self.chance.randrange(6) :][:1]:
            self.want(self.values(one))
            self.git(self.hub, "cherry-pick", one)
            self.solve()

    def resets(self) -> None:
        """Main, to one of before."""
        self.git(self.hub, "reset", "-q", "--hard", self.chance.choice(["HEAD~1", TRUSTED, "HEAD@{1}"]))
        self.want(self.values("HEAD"))

    def branches_off(self) -> None:
        """A topic, which is merged, or rebased and merged."""
        start = self.chance.choice(["HEAD", "HEAD~1", TRUSTED])
        self.git(self.hub, "checkout", "-q", "-B", "topic", start)
        self.edit(self.hub, "own")
        self.git(self.hub, "commit", "-qam", "topic")
        if self.chance.random() < 0.5:
            self.git(self.hub, "rebase", "-q", "main", "topic")
            self.solve()
        self.git(self.hub, "checkout", "-q", "main")
        self.git(self.hub, "merge", "-q", "--no-edit", *self.chance.choice([[], ["--no-ff"]]), "topic")
        self.solve()

    def solve(self) -> None:
        """Of each conflict the side that has something of the owner's, else the first; then on."""
        for _ in range(12):
            state = next((one for one in STATES if (self.hub / ".git" / one).exists()), None)
            if state is None:
                return
            for name in self.git(self.hub, "diff", "--name-only", "--diff-filter=U").splitlines():
                file = self.hub / name
                if not file.exists():
                    self.git(self.hub, "rm", "-q", "--cached", "--", name)
                    continue
                text = re.sub(r"<<<<<<< .*\n([^=]*)=======\n([^>]*)>>>>>>> .*\n", self._choose, file.read_text())
                file.write_text(text)
                self.git(self.hub, "add", "--", name)
            if state == "MERGE_HEAD":
                self.leaves_the_merge()
                self.git(self.hub, "commit", "-qa", *self.chance.choice([["--no-edit"], ["-m", "solved"]]))
                continue
            command = {"REVERT_HEAD": "revert", "CHERRY_PICK_HEAD": "cherry-pick"}.get(state, "rebase")
            tip = git(self.hub, "rev-parse", "HEAD")
            self.git(self.hub, command, "--continue")
            if git(self.hub, "rev-parse", "HEAD") == tip:
                self.git(self.hub, command, "--skip")
        for command in ("merge", "rebase", "revert", "cherry-pick"):
            self.git(self.hub, command, "--abort")

    def leaves_the_merge(self) -> None:
        """Sometimes: what it brought stays in the work tree, and is committed as any other change."""
        if self.chance.random() < 0.3:
            self.git(self.hub, "stash", "-q")
            self.git(self.hub, "stash", "pop", "-q")
        elif self.chance.random() < 0.3:
            self.git(self.hub, *self.chance.choice([("reset", "-q"), ("merge", "--quit")]))

    def squashes(self) -> None:
        """What origin has."""
        self.git(self.hub, "fetch", "-q", "origin")
        self.git(self.hub, "merge", "-q", "--squash", "origin/main")
        self.git(self.hub, "commit", "-qm", "squashed")
        self.git(self.hub, "reset", "-q", "--hard")

    def _choose(self, found: re.Match[str]) -> str:
        ours, theirs = found[1], found[2]
        taken = theirs if "own" in theirs and "own" not in ours else ours
        for values in self.wanted:
            values.update(_parse(taken))
        return taken

    # What alice does, upon whatever is there.

    def signs(self) -> None:
        """An edit."""
        self.fetch(self.alice)
        self.edit(self.alice, "signed")
        self.git(self.alice, "commit", "-qam", "signed")
        self.git(self.alice, "push", "-q", "origin", "HEAD:main")

    def undoes(self) -> None:
        """The last commit of mallory's."""
        self.fetch(self.alice)
        found = self.git(
            self.alice, "log", "-1", "--no-merges", "--format=%H", "--committer=mallory", "--", self.path
        ).split()
        for one in found:
            before, after = (_parse(self.git(self.alice, "show", f"{at}:{self.path}")) for at in (f"{one}^", one))
            for slot, (old, new) in enumerate(zip(before, after, strict=False)):
                if old != new:
                    self.wanted[slot].add(old)
            self.git(self.alice, "revert", "--no-edit", one)
            self.git(self.alice, "revert", "--abort")
            self.git(self.alice, "push", "-q", "origin", "HEAD:main")

    # What mallory does.

    def fetch(self, at: Path | None = None) -> None:
        at = at or self.mallory
        self.git(at, "fetch", "-q", "origin")
        self.git(at, "reset", "-q", "--hard", "origin/main")

    def some(self, what: str, *words: str) -> str:
        """Of any commit that mallory has."""
        return self.chance.choice(
            self.git(self.mallory, "log", "--all", f"--format={what}", *words).split() or ["HEAD"]
        )

    def forged(self) -> dict[str, str]:
        """Author and date of another commit, often."""
        if self.chance.random() < 0.5:
            return {}
        form = "--format=%an%n%ae%n%ad"
        name, email, date, *_ = self.git(self.mallory, "log", "-1", form, "--date=raw", self.some("%H")).split("\n")
        return {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": email, "GIT_AUTHOR_DATE": date}

    def hand_in(self, *words: str) -> None:
        self.git(self.mallory, "push", "-q", *words, "origin", "HEAD:main")

    def plants(self) -> None:
        """A value."""
        self.fetch()
        self.edit(self.mallory, "evil")
        self.git(self.mallory, "commit", "-qam", self.chance.choice(SUBJECTS), **self.forged())
        self.hand_in()

    def writes_beside(self) -> None:
        """Another file."""
        self.fetch()
        self.count += 1
        commit(self.mallory, {"other.md": f"{self.count}\n"}, "other")
        self.hand_in()

    def brings_back(self) -> None:
        """The file as it was once."""
        self.fetch()
        self.git(self.mallory, "checkout", self.some("%H", "--", self.path), "--", self.path)
        self.git(self.mallory, "commit", "-qam", "old", **self.forged())
        self.hand_in()

    def takes_back(self) -> None:
        """A commit of anybody."""
        self.fetch()
        self.git(self.mallory, "revert", "--no-edit", self.some("%H", "--no-merges", "--", self.path), **self.forged())
        self.git(self.mallory, "revert", "--abort")
        self.hand_in()

    def merges(self) -> None:
        """Any two commits, with any tree."""
        self.fetch()
        parents = [self.git(self.mallory, "rev-parse", "HEAD").strip(), self.some("%H")]
        if self.chance.random() < 0.3:
            parents.reverse()
        words = [word for parent in parents for word in ("-p", parent)]
        message = self.chance.choice(["m", f"m\n\nThis reverts commit {self.some('%H')}."])
        made = self.git(self.mallory, "commit-tree", self.some("%T"), *words, "-m", message, **self.forged()).strip()
        if made:
            self.git(self.mallory, "reset", "-q", "--hard", made)
            self.hand_in()

    def rewinds(self) -> None:
        """Origin's main, to any commit."""
        self.fetch()
        self.git(self.mallory, "reset", "-q", "--hard", self.some("%H", "-12"))
        self.hand_in("-f")

    def makes_anew(self) -> None:
        """The last commits, with one below them."""
        self.fetch()
        self.git(self.mallory, "reset", "-q", "--hard", self.chance.choice(["HEAD~1", "HEAD~2"]))
        self.edit(self.mallory, "evil")
        self.git(self.mallory, "commit", "-qam", "anew", **self.forged())
        self.git(self.mallory, "cherry-pick", "-X", self.chance.choice(["ours", "theirs"]), "origin/main")
        self.git(self.mallory, "cherry-pick", "--abort")
        self.hand_in("-f")

    def moves(self) -> None:
        """The file away, and back."""
        self.fetch()
        self.git(self.mallory, "mv", self.path, "moved.md")
        self.git(self.mallory, "commit", "-qm", "away")
        if self.chance.random() < 0.6:
            self.git(self.mallory, "mv", "moved.md", self.path)
            self.git(self.mallory, "commit", "-qm", "back")
        self.hand_in()

    # What cn does, and the owner then.

    def runs(self) -> None:
        """A run, and what it prints: the owner accepts, refuses, or types a step."""
        words = self.chance.choice([("sync",), ("sync",), ("inbox", "process"), ("status",)])
        done = self.sigma.cn(*words, check=None)
        self.said.append(f"cn {' '.join(words)} [{done.returncode}]")
        assert "Traceback" not in done.stderr, (self.said, done.stderr)
        self.judge()
        text = done.stdout + done.stderr
        if "accept it with 'cn trust'" in text:
            self.asked += 1
            self.chance.choice([self.accepts, self.accepts, self.throws_away, self.backs_out])()
        elif done.returncode:
            self.types(text)
        self.judge()

    def accepts(self) -> None:
        """By ``cn trust``, which shows it."""
        self.sigma.cn("trust", check=None)
        self.sigma.cn("trust", "--yes", check=None)
        self.accepted = self.values(TRUSTED)
        self.said.append(f"accepted: {self.accepted}")

    def throws_away(self) -> None:
        """All that came since."""
        self.git(self.hub, "reset", "-q", "--hard", TRUSTED)
        self.git(self.hub, "push", "-qf", "origin", "main")

    def backs_out(self) -> None:
        """Each commit of mallory's."""
        self.git(self.hub, "pull", "-q", "--no-rebase", "origin", "main")
        self.solve()
        since = ("--no-merges", "--format=%H", "--author=mallory", f"{TRUSTED}..HEAD", "--", self.path)
        for one in self.git(self.hub, "log", *since).split():
            self.git(self.hub, "revert", "--no-edit", one)
            self.git(self.hub, "revert", "--abort")

    def types(self, text: str) -> None:
        """The commands of one of the ways that are printed."""
        printed = re.findall(r"→ (.*(?:\n    .*)*)", text)
        ways = [
            re.findall(r"'((?:git|cn) [^']*)'", way) for one in printed for way in re.split(r"; (?:if|else|or)\b", one)
        ]
        for line in self.chance.choice([way for way in ways if way] or [[]]):
            words = shlex.split(line)
            if words[0] == "git":
                self.git(self.hub, *words[1:])
                self.solve()
            else:
                self.sigma.cn(*words[1:], check=None)
                self.said.append(line)

    def judge(self) -> None:
        """Is each value that is in force now one that was, that was shown, or that the owner wrote?"""
        now = self.values(TRUSTED)
        whole = len(now) == len(self.accepted) == SLOTS
        for slot, (value, before) in enumerate(zip(now, self.accepted, strict=True) if whole else ()):
            if value != before:
                assert value in self.wanted[slot], (slot, before, value, "\n".join(self.said))
                self.wanted[slot].discard(before)
        self.accepted = now

    def step(self) -> None:
        """Whatever comes."""
        owner: list[Callable[[], None]] = [*[self.commits] * 4, *[self.amends] * 2, *[self.pulls] * 3]
        owner += [*[self.pushes] * 2, self.reverts, self.picks, self.resets, self.branches_off, self.squashes]
        mallory: list[Callable[[], None]] = [*[self.plants] * 2, self.writes_beside, *[self.brings_back] * 2]
        mallory += [self.takes_back, *[self.merges] * 2, self.rewinds, self.makes_anew, self.moves]
        alice: list[Callable[[], None]] = [self.signs, self.signs, self.undoes]
        act = self.chance.choice(self.chance.choices([owner, mallory, alice, [self.runs]], [40, 24, 6, 30])[0])
        self.said.append(f"-- {act.__name__}")
        act()
        self.git(self.hub, "checkout", "-q", "main")
        self.judge()


def _render(values: list[str]) -> str:
    return "".join(f"# {slot}\n.\n.\n.\nvalue {value}\n.\n.\n.\n" for slot, value in enumerate(values))


def _parse(text: str) -> list[str]:
    return re.findall(r"^value (.*)$", text, re.MULTILINE)


@pytest.mark.parametrize(
    "seed",
    [int(ONLY)] if ONLY else [pytest.param(n, marks=[] if n < QUICK else pytest.mark.full) for n in range(SEEDS)],
)
@pytest.mark.parametrize("path", ["spec/USER.md", "threads/drafts/plan.md"])
def test_nothing_comes_into_force_that_nobody_saw(world: World, seed: int, path: str) -> None:
    history = History(world, seed, path)
    for _ in range(STEPS):
        history.step()
    observed("protected-histories", f"{path.partition('/')[0]} {seed}", steps=STEPS, asked=history.asked)
