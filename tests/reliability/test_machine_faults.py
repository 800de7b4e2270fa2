"""A full disk, a read-only hub, no permission, a clock that jumps, Ctrl-C, a lock left by others."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from cn.git.repository import open_hub
from cn.run.memory import Memory
from cn.values.timestamps import parse_stamp
from tests.support.figures import observed
from tests.support.hubs import ROOT, branches, cn_env, git, paths, try_git
from tests.support.kill import State, Trial
from tests.support.permission import closed, obey_permissions
from tests.support.scenes import SCENES, Stage, all_decisions, decided
from tests.support.world import Node, World

KIB = 1024
CLOCK = ROOT / "tests/support/clock"


def run(trial: Trial, *more: str, preexec: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
    """The trial's command, ended by itself."""
    done = subprocess.run(
        [sys.executable, "-m", "cn", "--hub", str(trial.node.root), *trial.words],
        env=cn_env({"PYTHONDONTWRITEBYTECODE": "1"}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=preexec,
    )
    assert done.returncode in (0, 1), done
    assert "internal error" not in done.stderr, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    if done.returncode:
        assert "cn:" in done.stderr or "failed:" in done.stderr or "refused:" in done.stderr, done.stderr
    return done


def free(place: Path) -> int:
    at = os.statvfs(place)
    return at.f_bavail * at.f_frsize


def fill_tests(trial: Trial, place: Path, rooms: list[int]) -> tuple[int, list[tuple[int, State]]]:
    """The command with only so many bytes left, then with room again."""
    failed = 0
    wrong: list[tuple[int, State]] = []
    for room in rooms:
        codes: list[int] = []

        def full(room: int = room, codes: list[int] = codes) -> None:
            filler = place / "filler"
            with filler.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, max(free(place) - room, 4096))
            try:
                codes.append(run(trial).returncode)
            finally:
                filler.unlink()

        difference = trial.disturb(full)
        failed += codes != [0]
        if difference:
            wrong.append((room, difference))
    return failed, wrong


def test_a_full_disk_changes_when_and_not_what(world: World, small_disk: Path) -> None:
    trial = decided("do:merge")(World(small_disk, world.template))
    trial.record()
    failed, wrong = fill_tests(trial, small_disk, [0, 64 * KIB])
    assert failed
    assert not wrong


def remains(node: Node) -> list[str]:
    """What git leaves of objects that it could not finish."""
    folder = node.root / ".git"
    found = [*folder.glob("objects/*/tmp_*"), *folder.glob("fast_import_crash_*")]
    return sorted(str(path.relative_to(folder)) for path in found)


@pytest.mark.sliced(2)
@pytest.mark.parametrize("room", [0, 64 * KIB])
def test_a_full_disk_is_told_once_with_a_next_step_and_leaves_nothing_behind(
    world: World, small_disk: Path, room: int
) -> None:
    small = World(small_disk, world.template)
    sigma, pi = small.hub("sigma"), small.hub("pi")
    small.link(sigma, pi)
    for topic in ("one", "two"):
        small.propose(pi, sigma, topic, {f"docs/{topic}.md": topic * 20_000})
    sigma.sync()
    for topic in ("one", "two"):
        sigma.triage(f"pi/{topic}", "do:merge")
    filler = small_disk / "filler"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(free(small_disk) - room, 4096))
    first = sigma.cn("inbox", "process", "-q", check=1).stderr
    assert "No space left" in first or "Out of diskspace" in first, first
    assert "→ make room on the disk" in first, first
    for _ in range(3):
        assert sigma.cn("inbox", "process", "-q", check=1).stderr == ""
    status = sigma.cn("status").stdout
    assert "! no run can work: " in status
    assert "make room on the disk" in status
    assert "free on the disk" in sigma.cn("doctor", check=1).stdout
    assert remains(sigma) == []
    filler.unlink()
    sigma.process()
    assert sigma.threads() == []
    assert "no run can work" not in sigma.cn("status").stdout
    assert remains(sigma) == []


def test_what_was_told_is_remembered_where_no_room_is_left(world: World, small_disk: Path) -> None:
    hub = open_hub(World(small_disk, world.template).hub("sigma").root)
    path, at = hub.state / "local.json", parse_stamp("2026-02-05T14:00Z")
    memory = Memory(hub, at)
    memory.conditions.set("x", "a")
    memory.save()
    memory.conditions.set("x", "a" * (4_090 - len(path.read_bytes().rstrip())))
    memory.save()
    with (small_disk / "filler").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free(small_disk))
    for told in ("No space left on device. " * 40, "Another. " * 40):
        for new in (True, False):
            memory = Memory(hub, at)
            assert memory.note_stop(told, "make room", "") == new
            memory.save()
    assert len(Memory(hub, at).conditions.shown[0][0]) > 3_000


@pytest.mark.full
@pytest.mark.parametrize("name", ["merge", "reply", "sync", "save"])
def test_a_disk_with_any_room_left_changes_when_and_not_what(world: World, small_disk: Path, name: str) -> None:
    trial = SCENES[name](World(small_disk, world.template))
    trial.record()
    rooms = [number * 8 * KIB for number in range(32)]
    failed, wrong = fill_tests(trial, small_disk, rooms)
    observed("disk-full", name, runs=len(rooms), failed=failed, wrong=len(wrong))
    assert failed
    assert not wrong


@pytest.mark.full
def test_files_that_must_stay_small_are_an_error_like_a_full_disk(world: World) -> None:
    """The shell's ``ulimit -f``: needs no root, and git dies of it by a signal."""
    trial = decided("do:merge")(world)
    trial.record()

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (256, 256))

    assert not trial.disturb(lambda: [run(trial, preexec=limited) for _ in range(2)].clear())


def test_a_read_only_disk_is_an_error_and_nothing_more(world: World, small_disk: Path) -> None:
    trial = decided("do:merge")(World(small_disk, world.template))
    trial.record()

    def read_only() -> None:
        remount = ["mount", "-o", "remount,ro", str(small_disk)]
        subprocess.run(remount, check=True, timeout=20)
        try:
            done = run(trial)
            assert done.returncode == 1
            assert "✓" not in done.stdout
            looking = trial.node.cn("status", check=None)
            assert "internal error" not in looking.stderr
        finally:
            subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True, timeout=20)

    assert not trial.disturb(read_only)


PLACES = (
    ".git",
    ".git/cn",
    ".git/objects",
    ".git/refs/heads",
    ".git/refs/cn",
    ".git/logs",
    "threads/inbox",
    "threads/inbox/done",
    "logs",
    "logs/inbox",
    "state/ledger",
    "docs",
)


@pytest.mark.full  # the folders of the work tree one by one: test_unplaced.py
def test_a_place_without_permission_is_an_error_and_nothing_more(world: World) -> None:
    trial = decided("do:merge")(world)
    trial.record()
    met = []
    for name in PLACES:

        def fail(name: str = name) -> None:
            with closed(trial.node.root / name):
                done = run(trial, preexec=obey_permissions)
            if done.returncode:
                met.append(name)

        difference = trial.disturb(fail)
        assert not difference, name
    assert {".git", ".git/cn", ".git/objects", "threads/inbox/done", "logs/inbox", "docs"} <= set(met)


@pytest.mark.sliced(2)
@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_a_signal_in_the_middle_ends_tidily(world: World, name: str) -> None:
    trial = decided("do:merge")(world)
    trial.record()
    chance = random.Random(name)
    met, wrong = _signals(trial, name, sorted(chance.sample(range(1, len(trial.steps) + 1), 3)))
    assert not wrong, wrong
    assert met


@pytest.mark.full
@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_a_signal_at_any_step_ends_tidily(world: World, name: str) -> None:
    trial = all_decisions(True, "mailbox")(world)
    trial.record()
    first, _, step = os.environ.get("TEST_SLICE", "0:1").partition(":")
    steps = list(range(1, len(trial.steps) + 1))[int(first) :: int(step)]
    met, wrong = _signals(trial, name, steps)
    observed("signals", name, steps=len(steps), met=met, wrong=len(wrong))
    assert not wrong, wrong
    assert met


@pytest.mark.sliced(4)
@pytest.mark.parametrize("name", ["INT", "TERM"])
@pytest.mark.parametrize("origin", [True, False], ids=["origin", "alone"])
def test_a_signal_says_truly_whether_a_message_is_to_be_sent_again(world: World, name: str, origin: bool) -> None:
    stage = Stage(world, origin=origin)
    trial = stage.trial("send", "pi", "hello", "--body", "Please read.")
    trial.record()
    moments = range(1, len(trial.steps) + 1)
    every = max(1, len(moments) // int(os.environ.get("TEST_SIGNALS", "10")))
    made = next(step for step in moments if " fast-import " in trial.steps[step - 1])
    words = set()
    for step in sorted({*moments[::every], made}):
        code, said = trial.say(step, name)
        if code != {"INT": 130, "TERM": 143}[name]:
            continue  # a child's, or too late
        word = said.rpartition("→ ")[2].partition(";")[0].partition(":")[0].strip()
        words.add(word)
        stage.sigma.cn("sync", check=None)
        sent = len(stage.sigma.outbox()) + len(stage.sigma.sent())
        allowed = {
            "no run had begun": {0},
            "nothing was committed": {0},
            "origin may have it": {0, 1},
            "it is committed": {1},
        }
        assert sent in allowed[word], (step, trial.steps[step - 1], said)
    assert {"nothing was committed", "it is committed"} <= words, words


_AWAY = 75
"""Exit code of a run that another one keeps out."""


def _stops(trial: Trial, steps: Iterable[int]) -> tuple[int, list[object]]:
    """Stop the command at these steps (Ctrl-Z, a frozen control group) while another run comes, and continue it."""
    turned_away, wrong = 0, list[object]()
    for step in steps:
        others: list[int] = []

        def come(codes: list[int] = others) -> None:
            codes.append(trial.node.cn("sync", check=None).returncode)

        code, difference = trial.pause(step, come)
        turned_away += _AWAY in others
        if code not in (*trial.codes, _AWAY) or set(others) - {0, 1, _AWAY} or difference:
            wrong.append((step, trial.steps[step - 1], code, others, difference))
    return turned_away, wrong


@pytest.mark.parametrize("name", ["sync"])
def test_a_run_that_is_stopped_and_continued_loses_and_repeats_nothing(world: World, name: str) -> None:
    trial = SCENES[name](world)
    trial.record()
    _, wrong = _stops(trial, random.Random(name).sample(range(1, len(trial.steps) + 1), 1))
    assert not wrong, wrong


@pytest.mark.full
@pytest.mark.parametrize(
    "name", ["sync", "sync-pickup", "merge", "all-decisions", "send", "brought-together", "notices"]
)
def test_a_run_that_is_stopped_at_any_step_and_continued_loses_and_repeats_nothing(world: World, name: str) -> None:
    trial = SCENES[name](world)
    trial.record()
    first, _, step = os.environ.get("TEST_SLICE", "0:1").partition(":")
    steps = list(range(1, len(trial.steps) + 1))[int(first) :: int(step)]
    turned_away, wrong = _stops(trial, steps)
    observed("stops", name, steps=len(steps), turned_away=turned_away, wrong=len(wrong))
    assert not wrong, wrong


def _committed_over(trial: Trial, steps: Iterable[int]) -> tuple[int, list[object]]:
    """Stop the command at these steps while a person commits all that differs: how often that was possible, and
    what it took out of main.
    """
    root, made, wrong = trial.node.root, 0, list[object]()

    def commit_all() -> None:
        try_git(root, "commit", "--quiet", "--all", "--message", "autosave")

    for step in steps:
        trial.pause(step, commit_all)
        found = git(root, "log", "--format=%H", "--grep=autosave", "main").split()
        made += bool(found)
        gone = git(root, "log", "--format=", "--diff-filter=D", "--name-only", "--grep=autosave", "main").split()
        if gone:
            wrong.append((step, trial.steps[step - 1], gone))
    return made, wrong


def test_a_commit_of_all_while_files_are_placed_takes_nothing_out_of_main(world: World) -> None:
    trial = SCENES["merge"](world)
    trial.record()
    moved = next(i for i, line in enumerate(trial.steps, 1) if "update-ref" in line and "refs/heads/main" in line)
    made, wrong = _committed_over(trial, [1, *range(moved + 1, len(trial.steps) + 1, 15)])
    assert not wrong, wrong
    assert made


@pytest.mark.full
@pytest.mark.parametrize("name", ["merge", "all-decisions", "sync"])
def test_a_commit_of_all_at_any_step_takes_nothing_out_of_main(world: World, name: str) -> None:
    trial = SCENES[name](world)
    trial.record()
    made, wrong = _committed_over(trial, range(1, len(trial.steps) + 1))
    observed("commits", name, steps=len(trial.steps), made=made, wrong=len(wrong))
    assert not wrong, wrong


def _signals(trial: Trial, name: str, steps: list[int]) -> tuple[int, list[object]]:
    code = {"INT": 130, "TERM": 143}[name]
    met: int = 0
    wrong: list[object] = []
    for step in steps:
        found, left, difference = trial.interrupt(step, name)
        met += found == code
        if found not in (code, *trial.codes) or left or difference:
            wrong.append((step, trial.steps[step - 1], found, left, difference))
    return met, wrong


def at(node: Node, days: float, *words: str) -> subprocess.CompletedProcess[str]:
    """cn when the clock is wrong by so many days."""
    env = {"TEST_CLOCK": str(days * 86400), "PYTHONPATH": f"{CLOCK}{os.pathsep}{ROOT}"}
    done = node.cn(*words, check=None, env=env)
    assert done.returncode in (0, 1), done
    assert "internal error" not in done.stderr
    return done


def test_a_clock_that_jumps_loses_and_repeats_nothing(world: World, sigma: Node, pi: Node) -> None:
    sigma.configure("mailbox_trusted: true\n")
    days = (0, 400, -400)
    for number, day in enumerate(days):
        topic = f"t{number}"
        world.propose(pi, sigma, topic)
        at(sigma, day, "sync")
        assert [n for n in sigma.threads() if topic in n], (day, sigma.threads())
        decision = ("do:merge", "delete:no", "do:reply:re-" + topic)[number % 3]
        sigma.triage(f"pi/{topic}", decision, *(("--body", "yes") if "reply" in decision else ()))
        at(sigma, -day, "inbox", "process")
        at(sigma, day / 2, "sync")
        at(pi, -day, "sync")
        at(sigma, -day, "sync")
    world.settle(pi, sigma)
    assert sigma.threads() == []
    done = [p for p in paths(sigma.root, "main") if p.startswith("threads/inbox/done/") and p.endswith(".md")]
    assert len(done) == len(days), done
    rows = [r for r in sigma.rows() if r[0].startswith("pi/t")]
    for number in range(len(days)):
        mine = [r[1:] for r in rows if r[0] == f"pi/t{number}"]
        assert mine.count(("received", "—")) == 1
        assert [e for _, e in mine].count("✓ delivered") == 1, mine
        assert [d for d, _ in mine].count("gone") == 1, mine
    assert set(branches(sigma.home)) == {"main"}
    assert git(sigma.root, "status", "--porcelain") == ""
    sigma.idle()


def test_a_back_off_from_the_future_does_not_last(world: World, sigma: Node, pi: Node) -> None:
    away = pi.home.with_name("away.git")
    sigma.cn("send", "pi", "hello")
    pi.home.rename(away)
    for _ in range(3):
        at(sigma, 900, "sync")
    away.rename(pi.home)
    assert sigma.cn("sync", check=None).returncode == 0, "the pause ends with the year that never was"
    sigma.idle()


@pytest.mark.sliced(3)
@pytest.mark.parametrize("words", ["log", "status", "--help", "inbox list --all", "why pi/proposal"])
def test_a_reader_that_leaves_is_no_error(world: World, sigma: Node, pi: Node, words: str) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    command = f'"$PYTHON" -m cn --hub "$HUB" {words} | head -n 1 >/dev/null; exit ${{PIPESTATUS[0]}}'
    env = cn_env({"PYTHON": sys.executable, "HUB": str(sigma.root)})
    done = subprocess.run(["bash", "-c", command], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert done.returncode in (0, 141)  # it may have been faster than the reader


@pytest.mark.sliced(4)
@pytest.mark.parametrize("lock", ["index.lock", "HEAD.lock", "refs/heads/main.lock", "packed-refs.lock"])
def test_a_lock_that_somebody_left_is_named_and_never_taken(world: World, sigma: Node, pi: Node, lock: str) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    path = sigma.root / ".git" / lock
    path.write_bytes(b"")
    done = sigma.cn("inbox", "process", check=None)
    assert path.exists()
    assert path.read_bytes() == b""
    if done.returncode:
        assert path.name in done.stderr, done.stderr
        assert "→" in done.stderr
    path.unlink()
    sigma.process()
    assert head in git(sigma.root, "rev-list", "main").split()
    assert [r[2] for r in sigma.rows() if r[1] == "do:merge"] == ["✓ merged SHA"]
    assert git(sigma.root, "status", "--porcelain") == ""
    sigma.sync()
    sigma.idle()
