"""A command that ends a lease ends what the agent started, whether a server runs or not."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from cn.agency.names import Uuid
from cn.agency.operations import BySystem, EndAgent, StopHandler
from cn.agents import processes
from cn.agents.launcher import children_of, start_time
from cn.agents.leftover import _told, end_agents
from cn.agents.processes import (
    Launcher,
    NotKnown,
    command_to_kill,
    find_processes,
    kill_processes_of,
    processes_of,
    read_exit,
    read_launcher,
)
from cn.agents.workspace import folders_of
from cn.system.ancestors import ancestors
from tests.support.agents import Staff, script_runner, until
from tests.support.hubs import ROOT, cn

STAYS = script_runner("one", "trap '' TERM INT HUP; setsid sleep 600 & touch up; while :; do sleep 0.1; done")


def working(staff: Staff) -> tuple[Uuid, Uuid]:
    """A handler with an agent that does not end by itself, in the folder in which commands look; the agent."""
    staff.place = staff.place._replace(folders=folders_of(staff.agency.hub))
    staff.restart()
    handler = staff.handler("Build the site")
    staff.step()
    agent = staff.agents()[handler].id
    until(lambda: (staff.folder(agent) / "workspace/up").exists())
    until(lambda: len(processes_of(agent)) >= 2)
    return handler, agent


POSES = script_runner(
    "one",
    "touch up; while :; do sleep 0.1; [ ! -f pose ] || { id=$(cat pose); rm pose; CN_AGENT_ID=$id sleep 600 & }; done",
)


def test_who_passes_for_another_agent_keeps_nothing_of_that_one_alive(staffed: Callable[..., Staff]) -> None:
    """Its id may be known to others: it stands where that one wrote."""
    staff = staffed(POSES)
    staff.place = staff.place._replace(folders=folders_of(staff.agency.hub))
    staff.restart()
    handlers = [staff.handler(title) for title in ("Passes for another", "Is passed for")]
    for _ in handlers:
        staff.step()
    hostile, other = (staff.agents()[one].id for one in handlers)
    for one in hostile, other:
        until(lambda one=one: (staff.folder(one) / "workspace/up").exists())  # type: ignore[misc]
    noted = read_launcher(staff.folder(hostile))
    assert noted
    (staff.folder(hostile) / "workspace/new").write_text(other)
    (staff.folder(hostile) / "workspace/new").rename(staff.folder(hostile) / "workspace/pose")
    until(lambda: any(noted.pid in ancestors(pid) for pid in processes_of(other)))
    said = " ".join(cn("agency", "stop", other, hub=staff.agency.hub.root).stdout.split())
    assert f"agent {other[:8]} and all that it started are ended" in said
    assert "live on" not in said
    assert processes_of(other), "what the other one runs is its own, and lives with it"
    again = " ".join(cn("agency", "stop", hostile, hub=staff.agency.hub.root).stdout.split())
    assert f"agent {hostile[:8]} and all that it started are ended" in again
    until(lambda: not processes_of(other))


@pytest.mark.parametrize("launcher_lives", [True, False])
def test_a_stop_ends_the_processes_where_no_server_runs(staffed: Callable[..., Staff], *, launcher_lives: bool) -> None:
    staff = staffed(STAYS)
    handler, agent = working(staff)
    launcher = read_launcher(staff.folder(agent))
    assert launcher
    if not launcher_lives:
        os.kill(launcher.pid, signal.SIGKILL)
        until(lambda: not launcher.is_running)
    rehearsed = cn("handler", "stop", handler, "--dry-run", hub=staff.agency.hub.root).stdout
    assert "ended" in rehearsed
    assert launcher.is_running is launcher_lives
    said = cn("handler", "stop", handler, hub=staff.agency.hub.root).stdout
    assert (f"agent {agent[:8]} and all that it started are ended" in said) or not launcher_lives
    assert processes_of(agent) == []
    assert not launcher.is_running
    staff.step_until(lambda: not staff.place.folders.live())


def test_no_mode_of_an_agents_folders_hides_it_from_a_stop_or_makes_it_look_lost(staffed: Callable[..., Staff]) -> None:
    staff = staffed(STAYS)
    handler, agent = working(staff)
    folder = staff.folder(agent)
    closed = (folder / "launched.json", folder, folder.parent, folder.parent.parent, folder.parent.parent.parent)
    for place in closed:
        place.chmod(0)
    staff.step()
    assert all(place.stat().st_mode & 0o400 for place in closed)
    assert staff.agents()[handler].id == agent
    for place in closed:
        place.chmod(0)
    said = cn("handler", "stop", handler, hub=staff.agency.hub.root).stdout
    assert f"agent {agent[:8]} and all that it started are ended" in said
    assert all(place.stat().st_mode & 0o400 for place in closed)


def test_to_close_an_outcome_ends_its_agent_too(staffed: Callable[..., Staff]) -> None:
    staff = staffed(STAYS)
    handler, agent = working(staff)
    done = cn("outcome", "close", handler, "not wanted", "--json", hub=staff.agency.hub.root)
    assert f"agent {agent[:8]} and all that it started are ended" in done.stderr
    assert processes_of(agent) == []


def test_a_launcher_that_its_agent_stopped_is_ended_all_the_same(staffed: Callable[..., Staff]) -> None:
    staff = staffed(STAYS)
    handler, agent = working(staff)
    launcher = read_launcher(staff.folder(agent))
    assert launcher
    for half in (launcher.pid, *children_of(launcher.pid)):
        os.kill(half, signal.SIGSTOP)
    said = cn("handler", "stop", handler, hub=staff.agency.hub.root).stdout
    assert f"agent {agent[:8]} and all that it started are ended" in said
    assert processes_of(agent) == []


def test_the_word_of_an_end_is_found_where_a_server_put_it_meanwhile(staffed: Callable[..., Staff]) -> None:
    staff = staffed(STAYS)
    handler, agent = working(staff)
    launcher = read_launcher(staff.folder(agent))
    assert launcher
    staff.do(StopHandler(handler))
    staff.step_until(lambda: not staff.place.folders.live())
    assert "and all that it started are ended" in _told(staff.place.folders, agent, launcher)


def test_what_lives_on_is_told_with_what_ends_it(
    staffed: Callable[..., Staff], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staff = staffed(STAYS)
    _, agent = working(staff)
    launcher = read_launcher(staff.folder(agent))
    assert launcher
    with monkeypatch.context() as context:
        context.setattr(Launcher, "signal", lambda *_: None)
        (said,) = end_agents(staff.place.folders, [agent], seconds=0.1)
    assert f"lives on, pid {launcher.pid}" in said
    ends = f"kill -QUIT {launcher.pid} && kill -CONT {launcher.pid}"
    assert f"'{ends}' ends it" in said
    assert "sudo" not in said
    (staff.folder(agent) / "user").write_text("robot")
    with monkeypatch.context() as context:
        context.setattr(Launcher, "signal", lambda *_: None)
        (said,) = end_agents(staff.place.folders, [agent], seconds=0.1)
    assert "where it does not, 'sudo -u robot kill -KILL -1' ends all that robot runs" in said
    (staff.folder(agent) / "user").unlink()
    os.kill(launcher.pid, signal.SIGSTOP)
    subprocess.run(["sh", "-c", ends], check=False)
    elsewhere = staff.place.folders._replace(base=tmp_path / "elsewhere")
    until(lambda: processes_of(agent) == [])
    (said,) = end_agents(elsewhere, [agent])
    assert "was not started by this account on this machine" in said


def test_a_stop_in_a_copy_of_the_hub_leaves_the_originals_agents_alone(staffed: Callable[..., Staff]) -> None:
    """The copy's records have the same agents; whose a process is its mark says, which names the hub's folder."""
    staff = staffed(STAYS)
    handler, agent = working(staff)
    copy = staff.agency.hub.root.with_name("copy")
    shutil.copytree(staff.agency.hub.root, copy, symlinks=True)
    said = " ".join(cn("handler", "stop", handler, hub=copy).stdout.split())
    assert f"agent {agent[:8]} works for another folder of this hub" in said
    assert len(processes_of(agent)) >= 2
    assert handler in staff.agents()


def test_a_server_of_a_copy_starts_its_own_agent_and_names_the_originals(staffed: Callable[..., Staff]) -> None:
    staff = staffed(STAYS)
    handler, agent = working(staff)
    root = staff.agency.hub.root.with_name("copy")
    shutil.copytree(staff.agency.hub.root, root, symlinks=True)
    copy = Staff(root, staff.place.folders.base.parent / "elsewhere", STAYS)
    copy.place = copy.place._replace(folders=folders_of(copy.agency.hub))
    copy.restart()
    try:
        copy.step()
        assert "it works for another folder of this hub" in copy.ends(handler)[0]
        assert "does not work for this folder" in copy.spawner.faults[agent]
        assert copy.agents()[handler].id != agent
        assert len(processes_of(agent)) >= 2
    finally:
        copy.close()


@pytest.mark.parametrize("lease_lives", [True, False])
def test_after_a_move_of_the_hub_no_agent_works_on_beside_the_next_one(
    staffed: Callable[..., Staff], *, lease_lives: bool
) -> None:
    """Neither its folder is where the next server looks, nor its lease any more where that ended meanwhile."""
    staff = staffed(STAYS)
    handler, agent = working(staff)
    old, root = staff.place.folders, staff.agency.hub.root.with_name("moved")
    staff.agency.store.close()
    staff.agency.hub.root.rename(root)
    if not lease_lives:
        answer = EndAgent(agent, "by hand")
    moved = Staff(root, old.base, STAYS)
    moved.place = moved.place._replace(folders=folders_of(moved.agency.hub))
    moved.restart()
    try:
        if not lease_lives:
            moved.do(answer, BySystem())
        assert moved.place.folders.base != old.base
        moved.step()
        until(lambda: processes_of(agent) == [])
        assert moved.agents()[handler].id != agent
        assert "processes were ended" in moved.ends(handler)[0] or not lease_lives
    finally:
        moved.close()


FULL = 'ulimit -f 0; exec "$@"'
"""As on a full disk: the system lets no file grow (setrlimit(2))."""
READ_ONLY = """
unshare -m sh -c 'mount --bind .git/cn .git/cn && mount -o remount,bind,ro .git/cn && exec "$@"' sh "$@"
"""


@pytest.mark.parametrize("where", [FULL, READ_ONLY])
def test_a_stop_ends_the_processes_though_nothing_can_be_written(staffed: Callable[..., Staff], where: str) -> None:
    if where == READ_ONLY and subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    staff = staffed(STAYS)
    handler, agent = working(staff)
    stop = [sys.executable, "-m", "cn", "handler", "stop", handler]
    argv = ["sh", "-c", where, "sh", *stop]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=staff.agency.hub.root, env=env, capture_output=True, text=True, check=False)
    said = " ".join(done.stderr.split())
    assert done.returncode != 0
    assert f"agent {agent[:8]} and all that it started are ended" in said
    assert "this is not recorded" in said
    assert processes_of(agent) == []
    assert handler in staff.agents()
    assert "all that it started" not in cn("handler", "stop", handler, hub=staff.agency.hub.root).stdout
    assert handler not in staff.agents()


@pytest.mark.parametrize("words", [("handler", "stop"), ("agency", "stop")])
def test_a_stop_is_recorded_though_the_agent_filled_the_disk(
    small_disk: Path, hub_template: Path, *, words: tuple[str, ...]
) -> None:
    """What it made goes before the record is made, and its launcher has room to say how it ended."""
    shutil.copytree(hub_template, small_disk / "hub", symlinks=True)
    fills = script_runner("one", "until ! cat /dev/zero > full 2> errors; do :; done; touch up; sleep 600")
    staff = Staff(small_disk / "hub", small_disk / "agents", fills)
    state = {"XDG_STATE_HOME": str(small_disk / "state")}
    staff.place = staff.place._replace(folders=folders_of(staff.agency.hub, state))
    staff.restart()
    try:
        handler = staff.handler("Build the site")
        staff.step()
        agent = staff.agents()[handler].id
        until(lambda: os.statvfs(small_disk).f_bavail == 0)
        said = cn(*words, handler, hub=staff.agency.hub.root, env=state).stdout
        assert f"agent {agent[:8]} and all that it started are ended" in said
        assert staff.agents() == {}
        assert staff.ends(handler)[-1] != "its launcher was killed"
        staff.step()
        assert staff.agents() == {}
    finally:
        staff.close()


@pytest.fixture
def other_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Processes of agents are another user's: we see none of them, and ``sudo`` does. What it was asked for."""
    asked = tmp_path / "asked"
    sudo = tmp_path / "bin/sudo"
    sudo.parent.mkdir()
    sudo.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$*" >> {asked}\nuntil [ "$1" = -- ]; do shift; done\nshift\nexec "$@"\n'
    )
    sudo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sudo.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(processes, "marked", lambda: iter(()))
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    yield asked
    for process in processes._standing.pop("nobody", ()):
        process.kill()
        process.wait()


def without_launcher(staff: Staff, agent: Uuid) -> None:
    """Both halves are killed, and what they started, which is another user's, lives on."""
    launcher = read_launcher(staff.folder(agent))
    assert launcher
    (second,) = children_of(launcher.pid)
    (staff.folder(agent) / "user").write_text("nobody")
    # Neither acts on the end of the other. A process that is stopped when its parent dies has the whole group hang up
    # (credentials(7)), so the parent goes last.
    for half in (launcher.pid, second):
        os.kill(half, signal.SIGSTOP)
    for half in (second, launcher.pid):
        os.kill(half, signal.SIGKILL)
    until(lambda: not launcher.is_running and not start_time(second))


@pytest.mark.parametrize("lease_lives", [True, False])
@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("exec sleep 600", "sudo did not answer within"),
        ("echo sudo: a password is required >&2; exit 1", "sudo: a password is required"),
    ],
)
def test_where_another_user_does_not_say_what_it_runs_that_is_told_and_no_other_agent_begins(
    staffed: Callable[..., Staff],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    does: str,
    said: str,
    *,
    lease_lives: bool,
) -> None:
    staff = staffed(STAYS)
    handler, agent = working(staff)
    pids = processes_of(agent)
    asked: Path = request.getfixturevalue("other_user")
    without_launcher(staff, agent)
    sudo = asked.with_name("bin") / "sudo"
    works = sudo.read_text()
    sudo.write_text(f"#!/bin/sh\necho asked >> {asked}\n{does}\n")
    monkeypatch.setattr(processes, "_SECONDS", 0.5)
    if not lease_lives:
        staff.do(EndAgent(agent, "by hand"), BySystem())
    for _ in range(3):
        staff.step()
        assert said in staff.spawner.faults[agent]
        assert "'sudo -u nobody kill -KILL -1' ends all that nobody runs" in staff.spawner.faults[agent]
        assert [one.id for one in staff.agents().values()] == ([agent] if lease_lives else [])
    assert asked.read_text().splitlines() == ["asked"]
    (told,) = end_agents(staff.place.folders, [agent], seconds=0.1)
    assert "it is not known which processes of agents nobody runs" in told
    assert [pid for pid in pids if start_time(pid)]
    sudo.write_text(works)
    staff.skip += timedelta(minutes=1)
    staff.step()
    assert not [pid for pid in pids if start_time(pid)]
    assert agent not in staff.spawner.faults
    staff.step_until(lambda: handler in staff.agents())
    assert staff.agents()[handler].id != agent


def test_what_a_user_is_asked_and_does_not_answer_does_not_pile_up(
    other_user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (other_user.with_name("bin") / "sudo").write_text(f"#!/bin/sh\necho asked >> {other_user}\nexec sleep 600\n")
    monkeypatch.setattr(processes, "_SECONDS", 0.2)
    for _ in range(processes._MOST_STANDING):
        with pytest.raises(NotKnown, match="did not answer"):
            find_processes(users=["nobody"])
    with pytest.raises(NotKnown, match="4 commands that it was asked stand still"):
        find_processes(users=["nobody"])


def test_what_a_launcher_could_not_end_keeps_the_lease_until_it_is_gone(staffed: Callable[..., Staff]) -> None:
    staff = staffed(script_runner("one", "exit 0"))
    staff.place = staff.place._replace(folders=folders_of(staff.agency.hub))
    staff.restart()
    handler = staff.handler("Build the site")
    staff.step()
    agent = staff.agents()[handler].id
    launcher = read_launcher(staff.folder(agent))
    until(lambda: launcher and not launcher.is_running)
    ended = read_exit(staff.folder(agent))
    with subprocess.Popen(["sleep", "600"]) as left:
        try:
            told = {**(ended or {}), "left": {str(left.pid): start_time(left.pid), "?": ""}}
            (staff.folder(agent) / "exit.json").write_text(json.dumps(told))
            staff.step()
            assert f"'kill -KILL {left.pid}' ends them" in staff.spawner.faults[agent]
            assert staff.agents()[handler].id == agent
        finally:
            left.kill()
    staff.skip += timedelta(minutes=1)
    staff.step()
    assert staff.ends(handler) == ["it ended"]


@pytest.mark.parametrize("who", ["a stop", "the server"])
def test_what_runs_as_another_user_is_ended_where_both_halves_of_its_launcher_were_killed(
    staffed: Callable[..., Staff], request: pytest.FixtureRequest, who: str
) -> None:
    staff = staffed(STAYS)
    handler, agent = working(staff)
    pids = processes_of(agent)
    asked: Path = request.getfixturevalue("other_user")
    without_launcher(staff, agent)
    assert [pid for pid in pids if start_time(pid)]
    if who == "a stop":
        (said,) = end_agents(staff.place.folders, [agent], seconds=0.1)
        assert "its processes that could be found are ended" in said
    else:
        staff.step()
        assert staff.ends(handler) == ["its launcher was killed"]
    assert not [pid for pid in pids if start_time(pid)]
    assert "-n -u nobody -- kill -KILL " in asked.read_text()


def test_what_another_user_names_is_killed_as_that_user_alone(other_user: Path) -> None:
    """Its agents may have made it up: numbers of our own processes, of all, or no numbers."""
    sudo = other_user.with_name("bin") / "sudo"
    mark = '{"CN_AGENT_ID": "some"}'
    rows = f'[[{os.getpid()}, {mark}], [-1, {mark}], [1, {mark}], ["x", {mark}]]'
    sudo.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$*\" >> {other_user}\necho '{rows}'\n")
    (found,) = find_processes("some", users=["nobody"])
    assert found.pid == os.getpid()
    assert command_to_kill(found) == f"'sudo -u nobody kill -KILL {found.pid}'"
    assert kill_processes_of("some", users=["nobody"]) == 1
    kills = {line.partition(" -- ")[2] for line in other_user.read_text().splitlines() if " kill " in line}
    assert kills == {f"kill -KILL {os.getpid()}"}
    for said in ("", "[1]", "[[5, 6]]", "null"):
        sudo.write_text(f"#!/bin/sh\necho '{said}'\n")
        with pytest.raises(NotKnown, match="what it says is no list of them"):
            find_processes(users=["nobody"])
    assert find_processes(users=["of-nobody"]) == []
