"""Kill a command that acts on Agency's records, at every boundary and at random: what it acknowledged is there, nothing
is there by half, and the same request again is done once in all.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from cn.agency.agency import open_agency
from cn.agency.events import parse_message
from cn.agency.store.check import check_records
from cn.git.repository import open_hub
from cn.system.clock import now
from cn.values.errors import ConfigError
from tests.support.figures import observed
from tests.support.hubs import ROOT, cn_env
from tests.support.kill import KILLER
from tests.support.organisation import Org, make_org

COMMANDS = {
    "init": ["agency", "init"],
    "create": ["outcome", "create", "Print flyers", "--body", "Two colours.", "--as", "{shop}"],
    "complete": ["outcome", "complete", "{site}", "--cascade", "--rationale", "It is online."],
    "delegate": ["handler", "delegate", "{page}", "--message", "Begin.", "--as", "{site}"],
    "insert": ["handler", "insert", "Sales", "{site}", "{shop}"],
    "stop": ["handler", "stop", "{site}"],
    "write": ["kb", "write", "{plan}", "/proc/version", "--seen", "1:{seen}"],
    "read": ["kb", "read", "{plan}"],
    "send": ["mail", "send", "{shop}", "How does it go?"],
    "grant": ["grant", "add", "{shop}", "read", "kb:{plan}"],
}
QUICK = ("insert", "write")
SOME = 3
NAME = "request-1"


class Trial:
    """A command, from the same beginning each time."""

    def __init__(self, folder: Path, start: Org, name: str) -> None:
        self.hub, self.start, self.folder = folder / "live/cn-sigma", start.hub, folder
        short = {key: id[:8] for key, id in start.ids.items()}
        self.words = [word.format(**short) for word in COMMANDS[name]]
        self.before = len(self.events(start.hub))
        self.steps = folder / "steps"
        assert "✓" in self.run(log=str(self.steps)).stdout or name == "read"
        self.whole = self.named()
        assert len(self.whole) == len(self.events(self.hub)) - self.before > 0

    def named(self) -> list[tuple[str, str]]:
        """What happened by the name of the request, or as another part of it."""
        return [event for event in self.events(self.hub) if event[0] == NAME or event[0].startswith("part ")]

    def restore(self) -> None:
        shutil.rmtree(self.hub.parent, ignore_errors=True)
        shutil.copytree(self.start, self.hub, symlinks=True)

    def run(
        self, log: str = "", at: str = "", *, fresh: bool = True, after: float = 0.0
    ) -> subprocess.CompletedProcess[str]:
        """The command in a process of its own; ``after`` so many seconds it is killed with its gits."""
        if fresh:
            self.restore()
        env = {"PYTHONPATH": f"{KILLER}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
        env |= {"CN_KILL_LOG": log, "CN_KILL_AT": at, "CN_KILL_ROOT": str(self.hub.parent)}
        words = [sys.executable, "-m", "cn", "--hub", str(self.hub), *self.words, "--request-id", NAME]
        with (self.folder / "said").open("w+") as said:  # no pipe: what outlives the process would hold it open
            child = subprocess.Popen(words, env=cn_env(env), stdin=subprocess.DEVNULL, stdout=said, stderr=said)
            if after:
                time.sleep(after)
                gits = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
                child.kill()
                for pid in gits:
                    with suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
            try:
                code = child.wait(60)
            finally:
                child.kill()
            said.seek(0)
            return subprocess.CompletedProcess(words, code, said.read())

    def events(self, hub: Path) -> list[tuple[str, str]]:
        """Name of the request and type of everything that happened; none where nothing was founded."""
        try:
            agency = open_agency(open_hub(hub))
        except ConfigError:
            return []
        commits = agency.store.repository.commits()
        found = [(event.request_id, str(event.change)) for commit in commits for event in parse_message(commit.message)]
        agency.store.close()
        return found

    def kills(self) -> list[str]:
        """Before each step of an undisturbed run, and around each file opened and process started."""
        ways = {"start": ("before", "after", "both"), "open": ("before", "after"), "read": ()}
        lines = self.steps.read_text().splitlines()
        kinds = [(number, line.split(" ")[1]) for number, line in enumerate(lines, 1)]
        return [f"{number}:{when}" for number, kind in kinds for when in ways.get(kind, ("before",))]

    def judge(self, done: subprocess.CompletedProcess[str]) -> list[str]:
        """What is wrong after it, and after the same request again."""
        wrong = [] if done.returncode in (0, -signal.SIGKILL) else [f"it ended with {done.returncode}: {done.stdout}"]
        named = self.named()
        if len(named) not in (0, len(self.whole)):
            wrong.append(f"{len(named)} events of {len(self.whole)}")
        if not named and ("✓" in done.stdout or done.returncode == 0):
            wrong.append("what was acknowledged is not there")
        again = self.run(fresh=False)
        if again.returncode != 0 or "Traceback" in again.stdout:
            wrong.append(f"the same again ended with {again.returncode}: {again.stdout}")
        events = self.events(self.hub)
        told = len(named) if self.words[:2] == ["kb", "read"] else 0  # a reading is recorded each time
        if len(events) != self.before + len(self.whole) + told:
            wrong.append(f"{len(events) - self.before} events after the same again")
        agency = open_agency(open_hub(self.hub))
        wrong += [flaw.what for flaw in check_records(agency.store.repository, now(), full=True)]
        wrong += [f"{path} is left" for path in agency.store.repository.folder.rglob("*.lock")]
        agency.store.close()
        return wrong

    def count(self, kills: Sequence[str]) -> tuple[int, list[tuple[str, list[str]]]]:
        """How many kills met the process, and after which something is wrong."""
        met, wrong = 0, list[tuple[str, list[str]]]()
        for kill in kills:
            done = self.run(at=kill)
            met += done.returncode != 0
            if found := self.judge(done):
                wrong.append((kill, found))
        return met, wrong


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory, hub_template: Path) -> Org:
    org = make_org(tmp_path_factory.mktemp("org") / "cn-sigma", hub_template)
    seen = org.ask("kb", "history", "{plan}")["versions"][-1]["hash"]
    return Org(org.hub, {**org.ids, "seen": seen})


@pytest.fixture
def trial(start: Org, tmp_path: Path, hub_template: Path, request: pytest.FixtureRequest) -> Trial:
    """Of the command that the test names."""
    return Trial(tmp_path, Org(hub_template, {}) if request.param == "init" else start, request.param)


@pytest.mark.parametrize("trial", QUICK, indirect=True)
def test_a_command_killed_at_a_sample_of_steps_is_done_once_when_it_comes_again(trial: Trial) -> None:
    met, wrong = trial.count(random.Random(3).sample(trial.kills(), SOME))
    assert met > 0
    assert not wrong


@pytest.mark.full
@pytest.mark.parametrize("trial", COMMANDS, indirect=True)
def test_a_command_killed_at_any_step_is_done_once_when_it_comes_again(
    trial: Trial, request: pytest.FixtureRequest
) -> None:
    kills = trial.kills()
    met, wrong = trial.count(kills)
    observed("agency-commands", request.node.callspec.id, kills=len(kills), met=met, wrong=len(wrong))
    assert not wrong


@pytest.mark.full
@pytest.mark.parametrize("trial", ["create", "stop"], indirect=True)
def test_a_command_killed_at_any_moment_is_done_once_when_it_comes_again(
    trial: Trial, request: pytest.FixtureRequest
) -> None:
    chance, met, wrong = random.Random(4), 0, list[tuple[int, list[str]]]()
    for number in range(60):
        done = trial.run(after=chance.uniform(0.1, 0.6))
        met += done.returncode != 0
        if found := trial.judge(done):
            wrong.append((number, found))
    observed("agency-commands", f"{request.node.callspec.id} at any moment", kills=60, met=met, wrong=len(wrong))
    assert not wrong
