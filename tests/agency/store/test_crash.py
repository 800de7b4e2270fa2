"""Kill a write at every boundary: what was acknowledged is there, nothing is there by half, the next goes on."""

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

from cn.agency.store.derived import build_in_memory
from cn.values.errors import ConfigError
from tests.support.figures import observed
from tests.support.hubs import ROOT, git, git_bytes
from tests.support.kill import KILLER
from tests.support.records import create, digest, folder_of, found, reopen, state, tip_of_file

WHATS = ("found", "event", "file")
WRITER = Path(__file__).with_name("writer.py")
SOME = 5
FILE = "11111111-1111-4111-8111-111111111111"
NEW = "22222222-2222-4222-8222-222222222222"
CONTENT = b"what is written\n" * 20


class Trial:
    """One kind of write, from the same beginning each time."""

    def __init__(self, folder: Path, what: str) -> None:
        self.folder, self.what = folder / "live", what
        self.start, self.log = folder / "start", folder / "steps"
        self.start.mkdir()
        if what != "found":
            store = found(self.start)
            store.write(create(b"old\n", file=FILE))
            store.close()

    def run(self, *words: str, log: str = "", at: str = "") -> subprocess.CompletedProcess[str]:
        """The write in a process of its own, on a fresh copy."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.start, self.folder)
        env = {**os.environ, "PYTHONPATH": f"{KILLER}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
        env |= {"CN_KILL_LOG": log, "CN_KILL_AT": at, "CN_KILL_ROOT": str(self.folder)}
        args = [sys.executable, str(WRITER), str(self.folder), self.what, *words]
        with self.folder.with_name("said").open("w+") as said:  # no pipe: what outlives the process would hold it open
            code = subprocess.run(args, env=env, stdout=said, stderr=said, timeout=60, check=False).returncode
            said.seek(0)
            return subprocess.CompletedProcess(args, code, said.read())

    def kills(self) -> list[str]:
        """Every step of an undisturbed write, before it, and around each file opened and process started."""
        self.log.unlink(missing_ok=True)
        assert self.run(log=str(self.log)).stdout == "done\n"
        found = []
        for number, line in enumerate(self.log.read_text().splitlines(), 1):
            kind = line.split(" ")[1]
            ways = {"start": ("before", "after", "both"), "open": ("before", "after"), "read": ()}
            found += [f"{number}:{when}" for when in ways.get(kind, ("before",))]
        return found

    def judge(self, done: subprocess.CompletedProcess[str]) -> list[str]:
        """What is wrong after it."""
        assert done.returncode in (0, -signal.SIGKILL), done.stdout
        events = 1 if self.what == "found" else 3
        try:
            store = reopen(self.folder)
        except ConfigError:
            wrong = self.what != "found" or done.stdout == "done\n"
            store = found(self.folder)  # it can be done again
            store.close()
            return ["the records are gone"] if wrong else []
        wrongs = []
        with store.reading() as facts:
            there = state(facts)
            if there not in (events - 1, events) or (there < events and done.stdout == "done\n"):
                wrongs.append(f"{there} events after {done.stdout!r}")
            if (facts.file(NEW) is not None) != (self.what == "file" and there == events):  # type: ignore[arg-type]
                wrongs.append("the file is there by half")
        repo = store.repository.folder
        if self.what == "file" and there == events:
            kept = git_bytes(repo, "show", f"main:{folder_of(NEW)}/{digest(CONTENT)}")
            wrongs += ["another content"] if kept != CONTENT else []
        store.write(create(b"next\n"))
        tip = store.repository.tip()
        with store.reading() as facts:
            rebuilt = build_in_memory(store.repository, tip)
            if list(facts.dump()) != list(rebuilt.dump()):  # type: ignore[attr-defined]
                wrongs.append("the index is not what the history says")
            rebuilt.close()
        wrongs += ["the index is behind"] if tip_of_file(store.repository.places.index_file) != tip.oid else []
        store.close()
        wrongs += [said] if (said := git(repo, "fsck", "--no-dangling")) else []
        wrongs += [f"{path} is left" for path in repo.rglob("*.lock")]
        return wrongs

    def count(self, kills: Sequence[str]) -> tuple[int, list[tuple[str, list[str]]]]:
        """How many kills met the process, and after which something is wrong."""
        met = 0
        wrong: list[tuple[str, list[str]]] = []
        for kill in kills:
            done = self.run(at=kill)
            met += done.returncode != 0
            if found := self.judge(done):
                wrong.append((kill, found))
        return met, wrong


@pytest.mark.parametrize("what", WHATS)
def test_a_kill_at_a_sample_of_steps_loses_nothing_and_leaves_nothing_half(tmp_path: Path, what: str) -> None:
    trial = Trial(tmp_path, what)
    kills = trial.kills()
    met, wrong = trial.count(random.Random(what).sample(kills, SOME))
    assert met > 0
    assert not wrong


@pytest.mark.parametrize("point", ["asked", "moved", "kept"])
def test_a_kill_around_the_commit_point_loses_nothing(tmp_path: Path, point: str) -> None:
    trial = Trial(tmp_path, "file")
    done = trial.run(point)
    assert done.returncode == -signal.SIGKILL
    assert trial.judge(done) == []


@pytest.mark.full
@pytest.mark.parametrize("what", WHATS)
def test_a_kill_at_any_step_loses_nothing_and_leaves_nothing_half(tmp_path: Path, what: str) -> None:
    trial = Trial(tmp_path, what)
    kills = trial.kills()
    met, wrong = trial.count(kills)
    observed("records", what, kills=len(kills), met=met, wrong=len(wrong))
    assert not wrong


@pytest.mark.full
def test_a_kill_at_any_moment_loses_nothing_and_leaves_nothing_half(tmp_path: Path) -> None:
    trial, chance, met = Trial(tmp_path, "file"), random.Random(1), 0
    wrong: list[tuple[int, list[str]]] = []
    for number in range(150):
        shutil.rmtree(trial.folder, ignore_errors=True)
        shutil.copytree(trial.start, trial.folder)
        words = [sys.executable, str(WRITER), str(trial.folder), "file"]
        with (tmp_path / "said").open("w+") as said:
            child = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=said, stderr=said)
            time.sleep(chance.uniform(0.06, 0.16))
            gits = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
            child.kill()
            if number % 2:
                _kill_all(gits)
            child.wait()
            said.seek(0)
            done = subprocess.CompletedProcess(words, child.returncode, said.read())
        met += child.returncode != 0
        if found := trial.judge(done):
            wrong.append((number, found))
    observed("records", "any moment", kills=150, met=met, wrong=len(wrong))
    assert not wrong


def _kill_all(pids: Sequence[str]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
