"""Kill a run at every step; the next quiet run must leave what an undisturbed one leaves."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.hubs import ROOT, bare, commit, git, push, tip, work, write_commit

ROWS = 40
CRASH = Path(__file__).with_name("crash.py")
SCENARIOS = ("plain", "merge", "pushed", "pushed-merge", "behind", "diverged")
DRAFT = "# pi/x\n"
EDITED = "# pi/x\n\n## Triage\n\ndecision: do:merge\n"


def build(place: Path, scenario: str) -> None:
    """A hub with the user's staged and unstaged edits, an agent's edit, and maybe an origin."""
    hub = work(place / "hub", "sigma")
    files = {
        ".cn/hub.yaml": "name: sigma\n",
        ".gitignore": "logs/cn.log\n",
        "note.md": "one\n",
        "both.md": "one\n",
        "docs/d.md": "old\n",
        "docs/e.md": "old\n",
        "threads/inbox/20260101-pi-x.md": DRAFT,
        "threads/inbox/20260101-pi-y.md": "# pi/y\n",
        "state/ledger/pi/202601": "x new\n",
    }
    first = commit(hub, files, "init")
    if "merge" in scenario or scenario == "diverged":
        head = write_commit(hub, {"docs/d.md": "theirs\n"}, "propose", [first], "pi <pi@example.org>")
        git(hub, "update-ref", "refs/heads/pi/x", head)
    git(hub, "update-ref", "refs/cn/gone", first)
    if scenario not in ("plain", "merge"):
        origin = bare(place / "origin.git")
        push(hub, origin, "main")
        # Relative, so that the whole place can be copied.
        git(hub, "remote", "add", "origin", "../origin.git")
        git(hub, "update-ref", "refs/cn/origin/main", first)
        git(hub, "update-ref", "refs/cn/trusted", first)
    if scenario in ("behind", "diverged"):
        theirs = write_commit(hub, {"docs/e.md": "new\n", "logs/inbox/20260101.md": "| theirs |\n"}, "t", [first])
        push(hub, place / "origin.git", f"{theirs}:main")
    if scenario == "diverged":
        commit(hub, {"docs/f.md": "mine\n", "logs/inbox/20260101.md": "| mine |\n"}, "people's")
    (hub / "note.md").write_text("unstaged\n")
    (hub / "both.md").write_text("staged\n")
    (hub / "new.md").write_text("staged new\n")
    git(hub, "add", "both.md", "new.md")
    (hub / "both.md").write_text("staged, then edited\n")
    (hub / "unknown.txt").write_text("untracked\n")
    (hub / "threads/inbox/20260101-pi-x.md").write_text(EDITED)


def start(hub: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(CRASH), str(hub), *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def quiet(hub: Path) -> dict[str, Any]:
    done = start(hub)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    assert answer["again"] is False
    return answer


def finish(*hubs: Path) -> None:
    """Undisturbed runs until there is nothing left to do."""
    changed = True
    while changed:
        told = [start(hub) for hub in hubs]
        assert [t.stderr for t in told if t.returncode] == []
        changed = any(json.loads(t.stdout)["again"] or json.loads(t.stdout)["changed"] for t in told)


def state(place: Path) -> dict[str, Any]:
    """Everything that must not depend on when a run was killed."""
    hub = place / "hub"
    files = {
        str(p.relative_to(hub)): p.read_text()
        for p in sorted(hub.rglob("*"))
        if p.is_file() and ".git" not in p.relative_to(hub).parts
    }
    origin = place / "origin.git"
    return {
        "tree": tip_tree(hub, "main"),
        "origin": tip_tree(origin, "main") if origin.exists() else "",
        "same": not origin.exists() or tip(origin, "main") == tip(hub, "main"),
        "log": git(hub, "log", "--format=%s %an", "main"),
        "index": git(hub, "ls-files", "-s"),
        "status": git(hub, "status", "--porcelain"),
        "diff": git(hub, "diff"),
        "files": files,
        "pins": sorted(git(hub, "for-each-ref", "--format=%(refname)", "refs/cn/").split("\n")),
        "fsck": git(hub, "fsck", "--no-dangling", "--no-progress"),
        "leftovers": sorted(p.name for p in hub.glob(".git/*.lock")) + sorted(p.name for p in hub.glob(".git/cn/*")),
        "branch": git(hub, "symbolic-ref", "HEAD"),
    }


def tip_tree(repo: Path, ref: str) -> str:
    return git(repo, "rev-parse", f"{ref}^{{tree}}")


class Case:
    """A scenario's starting place, and what an undisturbed run makes of it."""

    def __init__(self, folder: Path, scenario: str) -> None:
        self.folder, self.start = folder, folder / "start"
        build(self.start, scenario)
        good = self.copy("good")
        self.steps = quiet(good / "hub")["steps"]
        self.good = settled(good)

    def copy(self, name: str) -> Path:
        place = self.folder / name
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.start, place, symlinks=True)
        return place

    def kill(self, *kills: tuple[int, str]) -> None:
        place = self.copy("killed")
        for step, when in kills:
            done = start(place / "hub", str(step), when)
            assert done.returncode in (0, -signal.SIGKILL), (kills, done.stderr)
        quiet(place / "hub")
        found = settled(place)
        assert found == self.good, (kills, {k: (found[k], v) for k, v in self.good.items() if found[k] != v})


def settled(place: Path) -> dict[str, Any]:
    found = state(place)
    found["leftovers"] = [n for n in found["leftovers"] if n not in ("lock", "push")]
    return found


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_undisturbed_run_does_what_it_should(tmp_path: Path, scenario: str) -> None:
    case = Case(tmp_path, scenario)
    files = case.good["files"]
    assert files["threads/inbox/done/20260101-pi-x.md"] == EDITED + "done\n"
    assert "threads/inbox/20260101-pi-x.md" not in files
    assert files["logs/cn.log"] == "processed x\n"
    assert files["note.md"] == "unstaged\n"
    assert files["both.md"] == "staged, then edited\n"
    assert files["docs/d.md"] == ("theirs\n" if "merge" in scenario or scenario == "diverged" else "old\n")
    assert case.good["status"].split("\n") == ["MM both.md", "A  new.md", " M note.md", "?? unknown.txt"]
    assert case.good["fsck"] == ""
    assert case.good["same"]
    if scenario == "diverged":
        assert files["logs/inbox/20260101.md"] == "| theirs |\n| row |\n"
        assert files["docs/f.md"] == "mine\n"


@pytest.mark.parametrize("scenario", ["merge", "diverged"])
def test_a_kill_at_a_sample_of_steps_loses_and_repeats_nothing(tmp_path: Path, scenario: str) -> None:
    case = Case(tmp_path, scenario)
    chance = random.Random(20260205)
    for step in sorted(chance.sample(range(1, case.steps + 1), 10)):
        case.kill((step, chance.choice(["before", "after"])))


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.full)])
@pytest.mark.parametrize("old", [False, True])
def test_a_hub_that_was_moved_is_finished_where_it_stands(tmp_path: Path, old: bool, every: int) -> None:
    """What is beside it, and the copy that it was made from, stay as they are."""
    case = Case(tmp_path, "plain")
    journals = 0
    for step in range(1, case.steps + 1, every):
        place = case.copy("killed")
        start(place / "hub", str(step), "before")
        if not (journal := place / "hub/.git/cn/journal").exists():
            continue
        if old:
            known = json.loads(journal.read_text())
            known["appends"] = [[str(place / "hub" / path), text] for path, text in known["appends"]]
            journal.write_text(json.dumps({**known, "format": 1}))
        journals += 1
        shutil.rmtree(moved := tmp_path / "moved", ignore_errors=True)
        shutil.copytree(place, moved, symlinks=True)
        before = state(place)
        told = quiet(moved / "hub")["told"]
        assert state(place) == before
        if old:
            log = moved / "hub/logs/cn.log"
            assert (
                any("is not in this hub" in line for line in told)
                or not log.exists()
                or log.read_text() == "processed x\n"
            )
        else:
            assert settled(moved) == case.good, step
    assert journals > 10 // every


@pytest.mark.full
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_kill_at_any_step_loses_and_repeats_nothing(tmp_path: Path, scenario: str, when: str) -> None:
    case = Case(tmp_path, scenario)
    for step in range(1, case.steps + 1):
        case.kill((step, when))


@pytest.mark.full
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_kills_of_a_run_and_of_its_recovery_lose_and_repeat_nothing(tmp_path: Path, scenario: str) -> None:
    case = Case(tmp_path, scenario)
    chance = random.Random(scenario)
    for _ in range(60):
        kills = [
            (chance.randint(1, case.steps), chance.choice(["before", "after"])) for _ in range(chance.randint(2, 4))
        ]
        case.kill(*kills)


@pytest.mark.full
@pytest.mark.parametrize("scenario", ["plain", "pushed"])
def test_kills_at_any_time_beside_a_committing_user_and_an_editor(
    tmp_path: Path, scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random kills of cn, without an origin also of every git it started."""
    build(tmp_path, scenario)
    hub = tmp_path / "hub"
    monkeypatch.setenv("CRASH_ROWS", str(ROWS))
    chance = random.Random(scenario)
    user = subprocess.Popen(["sh", "-c", _USER], cwd=hub, env=os.environ, stderr=subprocess.DEVNULL)
    try:
        for _ in range(60):
            child = subprocess.Popen(
                [sys.executable, str(CRASH), str(hub), "100000", "before"],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            time.sleep(chance.uniform(0.1, 0.6))
            for pid in [*(descendants(child.pid) if scenario == "plain" else ()), child.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            child.wait()
    finally:
        # A killed run may have left its index.lock: the user commits when it is gone.
        (hub / "stop").touch()
        finish(hub)
        user.wait()
    rows = "".join(f"row {i}\n" for i in range(ROWS))
    assert git(hub, "show", "main:logs/inbox/20260101.md") + "\n" == rows
    assert (hub / "logs/inbox/20260101.md").read_text() == rows
    assert (hub / "logs/cn.log").read_text() == rows
    subjects = git(hub, "log", "--format=%s", "main").split("\n")
    mine = (hub / ".git/user.log").read_text().split()
    assert len(mine) > 3
    assert sorted(s for s in subjects if s.startswith("user")) == sorted(f"user{n}" for n in mine)
    assert sorted(s for s in subjects if s.startswith("row")) == sorted(rows.split("\n")[:-1])
    assert git(hub, "fsck", "--no-dangling", "--no-progress") == ""
    found = git(hub, "status", "--porcelain").split("\n")
    expected = {
        "MM both.md",
        "A  new.md",
        " M note.md",
        "?? unknown.txt",
        " M threads/inbox/20260101-pi-x.md",
        "?? stop",
    }
    assert set(found) == expected
    assert (hub / "edited.txt").read_text() == git(hub, "show", "main:edited.txt") + "\n"


@pytest.mark.full
def test_two_clones_at_work_at_once_do_each_row_once_whatever_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path, "pushed")
    git(tmp_path, "clone", "-q", "origin.git", "second")
    git(tmp_path / "second", "remote", "set-url", "origin", "../origin.git")
    hubs = (tmp_path / "hub", tmp_path / "second")
    monkeypatch.setenv("CRASH_ROWS", str(ROWS))
    chance = random.Random(7)
    for _ in range(40):
        children = [
            subprocess.Popen(
                [sys.executable, str(CRASH), str(hub), "100000", "before"],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for hub in hubs
        ]
        for child in children:
            time.sleep(chance.uniform(0.1, 0.4))
            child.kill()
            child.wait()
    made = git(tmp_path / "origin.git", "rev-list", "--count", "main")
    finish(*hubs, *hubs)
    rows = "".join(f"row {i}\n" for i in range(ROWS))
    for hub in hubs:
        assert git(hub, "show", "main:logs/inbox/20260101.md") + "\n" == rows
        assert (hub / "logs/inbox/20260101.md").read_text() == rows
        assert git(hub, "fsck", "--no-dangling", "--no-progress") == ""
        assert tip(hub) == tip(tmp_path / "origin.git", "main")
    done = "".join((hub / "logs/cn.log").read_text() for hub in hubs if (hub / "logs/cn.log").exists())
    assert sorted(done.split("\n")[:-1]) == sorted(rows.split("\n")[:-1])
    assert git(hubs[1], "status", "--porcelain") == ""
    assert int(made) > 5, "the kills came too early to meet any work"


_USER = """
n=0
last=
while [ -z "$last" ]; do
  echo "$n" > edited.txt
  echo "$n" > edited.new && mv edited.new edited.txt
  last=; [ -e stop ] && last=1
  if git add edited.txt && git commit -q -m "user$n" -- edited.txt; then
    echo "$n" >> .git/user.log
    n=$((n+1))
  else
    last=
  fi
  sleep 0.05
done
"""


def descendants(pid: int) -> list[int]:
    """All processes below ``pid``, deepest last."""
    done = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    children: dict[int, list[int]] = {}
    for line in done.stdout.splitlines():
        child, parent = map(int, line.split())
        children.setdefault(parent, []).append(child)
    found, todo = [], [pid]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found
