"""The launcher: nothing starts without the word, and nothing outlives an agent."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cn.agents import launcher
from cn.agents.launcher import Word, boot_id, start_time
from cn.agents.processes import MARK, Launcher, kill_processes_of, launch, processes_of, read_exit, read_launcher

SECONDS = 120.0


def until(condition: Callable[[], object], what: str = "") -> None:
    """Wait for something that comes soon."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, what or "it never came"
        time.sleep(0.01)


def word(folder: Path, script: str, grace: float = 0.5, mark: str = "") -> Word:
    """A shell that runs a script."""
    env = {"PATH": os.environ["PATH"], MARK: mark or folder.name}
    return Word(argv=["sh", "-c", script], env=env, cwd=str(folder), input="", grace=grace, killer=[])


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Launcher]]:
    """Start a script below a launcher; ended with the test."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(script: str, grace: float = 0.5) -> Launcher:
        processes.append(launch(tmp_path, word(tmp_path, script, grace)))
        found = read_launcher(tmp_path)
        assert found
        return found

    yield start
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGQUIT)
        process.wait(SECONDS)
    kill_processes_of(tmp_path.name)


@pytest.mark.skipif(not os.path.exists("/proc/self/oom_score_adj"), reason="the system has no such order")
def test_where_memory_is_short_an_agent_goes_before_who_started_it(
    started: Callable[..., Launcher], tmp_path: Path
) -> None:
    ours = int(Path("/proc/self/oom_score_adj").read_text())
    launcher = started("cat /proc/self/oom_score_adj; exec sleep 60")
    until(lambda: (tmp_path / "output").exists() and (tmp_path / "output").read_text().strip())
    assert int((tmp_path / "output").read_text()) == max(ours, 500)
    assert int(Path(f"/proc/{launcher.pid}/oom_score_adj").read_text()) == ours


def test_the_exit_and_the_output_of_an_agent_are_kept(started: Callable[..., Launcher], tmp_path: Path) -> None:
    started("echo said; echo complained >&2; exit 3")
    until(lambda: read_exit(tmp_path))
    found = read_exit(tmp_path)
    assert found
    assert (found["code"], found["forced"], found["left"]) == (3, False, {})
    assert (tmp_path / "output").read_text() == "said\n"
    assert (tmp_path / "errors").read_text() == "complained\n"


def test_how_an_agent_ended_is_known_where_the_caller_ignores_that_children_end(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        process = launch(tmp_path, word(tmp_path, "exit 3"))
    finally:
        signal.signal(signal.SIGCHLD, before)
    process.wait(SECONDS)
    found = read_exit(tmp_path)
    assert found
    assert found["code"] == 3


def test_an_agent_ignores_no_signal_that_only_python_ignores(started: Callable[..., Launcher], tmp_path: Path) -> None:
    started("yes | head -n 1; grep SigIgn /proc/self/status || echo SigIgn: 0")
    until(lambda: read_exit(tmp_path))
    assert (tmp_path / "errors").read_text() == ""
    said, ignored = (tmp_path / "output").read_text().splitlines()
    assert said == "y"
    assert not int(ignored.split()[1], 16) & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1)


def test_of_what_is_said_without_an_end_the_beginning_and_the_end_are_kept(
    started: Callable[..., Launcher], tmp_path: Path
) -> None:
    started("echo begun; seq 1 5000000; echo done; seq 1 5000000 >&2")
    until(lambda: read_exit(tmp_path))
    for name, last in (("output", "done"), ("errors", "5000000")):
        lines = (tmp_path / name).read_text().splitlines()
        assert (tmp_path / name).stat().st_size <= launcher.MOST_KEPT + 100
        assert lines[0] == ("begun" if name == "output" else "1")
        assert lines[-1] == last
        (said,) = [line for line in lines if "left out" in line]
        kept = sum(len(line) + 1 for line in lines if "left out" not in line)
        assert abs(int(said.split()[1]) + kept - 38_888_896) < 1000, "what is gone is told"
    assert {path.name for path in tmp_path.iterdir()} == {"output", "errors", "launched.json", "exit.json"}


def test_a_full_disk_loses_words_and_stops_nobody(tmp_path: Path) -> None:
    read, written = os.pipe()
    with os.fdopen(written, "wb") as pipe:
        pipe.write(b"x" * 1000)
    launcher.keep(read, "/dev/full")
    assert os.read(read, 1) == b""
    os.close(read)


def test_without_the_word_nothing_starts(tmp_path: Path) -> None:
    argv = [sys.executable, "-I", "-S", launcher.__file__, str(tmp_path)]
    half = json.dumps(word(tmp_path, "touch started")).encode()  # the line has no end
    subprocess.run(argv, input=half, check=True, capture_output=True, timeout=SECONDS)
    assert not (tmp_path / "started").exists()
    found = read_exit(tmp_path)
    assert found
    assert found["code"] is None
    assert "never came" in found["why"]


def test_who_it_is_stands_in_its_folder_before_the_word_is_given(tmp_path: Path) -> None:
    argv = [sys.executable, "-I", "-S", launcher.__file__, str(tmp_path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == launcher.READY
        noted = read_launcher(tmp_path)
        assert noted == Launcher(process.pid, start_time(process.pid), boot_id())
        assert noted.is_running
        process.stdin.close()
        process.wait(SECONDS)
        assert not noted.is_running


def test_a_command_that_is_not_there_is_told(tmp_path: Path) -> None:
    missing = word(tmp_path, "")
    missing["argv"] = ["no-such-command-anywhere"]
    launch(tmp_path, missing).wait(SECONDS)
    found = read_exit(tmp_path)
    assert found
    assert found["why"] == "cannot start no-such-command-anywhere: No such file or directory"
    assert found["code"] == 127


def test_what_an_agent_leaves_behind_is_killed_with_it(started: Callable[..., Launcher], tmp_path: Path) -> None:
    """Also what left its session and its parent, as shells that a coding agent put into the background do."""
    started("setsid sh -c 'sh -c \"sleep 600 & sleep 600\" & sleep 600' & setsid sleep 600 & sleep 0.2; exit 0")
    until(lambda: read_exit(tmp_path))
    assert processes_of(tmp_path.name) == []


def test_the_same_children_stay_when_nobody_is_their_reaper(tmp_path: Path) -> None:
    """What the launcher is for: without it the children live on."""
    env = {"PATH": os.environ["PATH"], MARK: tmp_path.name}
    subprocess.run(["sh", "-c", "setsid sleep 600 & exit 0"], env=env, check=True)
    try:
        until(lambda: processes_of(tmp_path.name))
    finally:
        assert kill_processes_of(tmp_path.name) == 1
    until(lambda: not processes_of(tmp_path.name))


def test_sigterm_lets_it_end_by_itself(started: Callable[..., Launcher], tmp_path: Path) -> None:
    found = started("trap 'echo saved > saved; exit 0' TERM; touch up; while :; do sleep 0.05; done", grace=SECONDS)
    until((tmp_path / "up").exists)
    found.signal(signal.SIGTERM)
    until(lambda: read_exit(tmp_path))
    ended = read_exit(tmp_path)
    assert ended
    assert (ended["code"], ended["forced"]) == (0, False)
    assert (tmp_path / "saved").read_text() == "saved\n"


def test_who_does_not_heed_it_is_killed_after_its_grace(started: Callable[..., Launcher], tmp_path: Path) -> None:
    found = started("trap '' TERM; touch up; while :; do sleep 0.05; done", grace=0.2)
    until((tmp_path / "up").exists)
    found.signal(signal.SIGTERM)
    until(lambda: read_exit(tmp_path))
    ended = read_exit(tmp_path)
    assert ended
    assert (ended["code"], ended["forced"]) == (-signal.SIGKILL, True)
    assert processes_of(tmp_path.name) == []


def test_sigquit_kills_everything_at_once(started: Callable[..., Launcher], tmp_path: Path) -> None:
    found = started("trap '' TERM; setsid sleep 600 & touch up; sleep 600", grace=600)
    until((tmp_path / "up").exists)
    found.signal(signal.SIGQUIT)
    until(lambda: read_exit(tmp_path))
    assert processes_of(tmp_path.name) == []


ORPHAN = (
    "(env -i setsid sh -c 'echo $$ > orphan; exec sleep 600' &) ; until [ -s orphan ]; do :; done; touch up; sleep 600"
)
"""A process without a mark and in a session of its own, whose parent is gone."""


def second_of(found: Launcher) -> int:
    """The half of a launcher that does the work."""
    (pid,) = launcher.children_of(found.pid)
    return pid


@pytest.mark.parametrize("half", ["first", "second"])
def test_whichever_half_of_a_launcher_is_killed_nothing_of_the_agent_stays(
    started: Callable[..., Launcher], tmp_path: Path, half: str
) -> None:
    found = started(ORPHAN)
    until((tmp_path / "up").exists)
    orphan = int((tmp_path / "orphan").read_text())
    assert processes_of(tmp_path.name)
    assert orphan not in processes_of(tmp_path.name)
    os.kill(found.pid if half == "first" else second_of(found), signal.SIGKILL)
    until(lambda: read_exit(tmp_path))
    ended = read_exit(tmp_path)
    assert ended
    assert (ended["why"], ended["left"]) == ("its launcher was killed", {})
    assert start_time(orphan) == ""
    assert processes_of(tmp_path.name) == []
    until(lambda: not found.is_running)


def test_where_both_halves_are_killed_what_has_a_mark_is_found(
    started: Callable[..., Launcher], tmp_path: Path
) -> None:
    found = started(f"setsid sleep 600 & {ORPHAN}")
    until((tmp_path / "up").exists)
    orphan = int((tmp_path / "orphan").read_text())
    second = second_of(found)
    os.kill(second, signal.SIGSTOP)
    os.kill(found.pid, signal.SIGKILL)
    os.kill(second, signal.SIGKILL)
    until(lambda: not found.is_running and not start_time(second))
    assert read_exit(tmp_path) is None
    assert kill_processes_of(tmp_path.name) >= 1
    until(lambda: not processes_of(tmp_path.name))
    assert start_time(orphan)
    os.kill(orphan, signal.SIGKILL)


def test_a_number_that_another_process_has_now_is_no_launcher() -> None:
    mine = Launcher(os.getpid(), start_time(os.getpid()), boot_id())
    assert mine.is_running
    assert not mine._replace(start=str(int(mine.start) - 1)).is_running
    assert not mine._replace(boot="another start of the machine").is_running


def test_half_a_note_is_none(tmp_path: Path) -> None:
    (tmp_path / launcher.NOTE).write_text('{"pid": 12, "sta')
    (tmp_path / launcher.EXIT).write_text('{"code": 0}')
    assert read_launcher(tmp_path) is None
    assert read_exit(tmp_path) is None


def test_the_launcher_needs_the_standard_library_alone() -> None:
    script = f"import sys; sys.argv=['']; import runpy; runpy.run_path({launcher.__file__!r}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True)
    assert not [name for name in done.stdout.split() if name.split(".")[0] == "cn"]


def _killer(folder: Path, does: str = "") -> Path:
    """What stands for ``sudo kill``: it notes what it was asked."""
    program = folder / "kill"
    program.write_text(f'#!/bin/sh\necho "$*" >> {folder}/asked\n{does}\n')
    program.chmod(0o755)
    return program


def test_what_ends_another_users_processes_and_stands_still_is_not_waited_for_nor_piled_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that stops all processes of its user also stops what that user is asked to end it with."""
    stands = _killer(tmp_path, "kill -STOP $$")
    monkeypatch.setattr(launcher, "_ANOTHER", 0.0)
    killers = launcher.Killers([str(stands)])
    for _ in range(3 * launcher._KILLERS):
        killers.send(signal.SIGKILL, [4711])
    runs = killers.among(launcher.children_of(os.getpid()))
    try:
        assert len(runs) == launcher._KILLERS
        until(lambda: len((tmp_path / "asked").read_text().splitlines()) == len(runs))
        assert {*(tmp_path / "asked").read_text().splitlines()} == {"-KILL 4711"}
    finally:
        for run in runs:
            os.kill(run, signal.SIGKILL)
            os.waitpid(run, 0)
    assert killers.among(launcher.children_of(os.getpid())) == set()


def test_what_is_another_process_at_each_look_is_known_by_what_ends_and_ended_as_all_of_its_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No look finds it living: it has gone on in a new process, and the old one is there to be collected."""
    kills = _killer(tmp_path)
    looks = iter([[(4711, 0)]] * 5)
    monkeypatch.setattr(launcher, "children_of", lambda _: [])
    monkeypatch.setattr(launcher, "_collect", lambda: next(looks, []))
    assert launcher._end_all(launcher.Killers([])) == {}
    assert next(looks, None) is None
    monkeypatch.setattr(launcher, "_collect", lambda: [(4711, 0)])
    monkeypatch.setattr(launcher, "_PATIENCE", 0.2)
    monkeypatch.setattr(launcher, "_ANOTHER", 0.05)
    assert launcher._end_all(launcher.Killers([str(kills)])) == {"?": ""}
    until((tmp_path / "asked").exists)
    assert {*(tmp_path / "asked").read_text().splitlines()} == {"-KILL -1"}
