"""An agent is ended by a command, whoever's it is and however many processes it has, and no other one comes unasked."""

import errno
import os
import resource
import subprocess
import threading
from collections.abc import Callable

import pytest

from cn.agency.agency import places_of
from cn.agency.names import Uuid
from cn.agency.operations import Delegate, SendMail, StopHandler
from cn.agents.crowd import at_work, end, is_crowded, meant
from cn.agents.processes import processes_of, read_launcher
from cn.agents.workspace import folders_of
from cn.cli.crowd import crowded_words, insist
from cn.cli.options import Env
from cn.values.errors import Blocked
from tests.support.agents import Staff, machine_of, script_runner, until
from tests.support.hubs import cn

STAYS = script_runner("one", "trap '' TERM INT HUP; setsid sleep 600 & touch up; while :; do sleep 0.1; done")


def at_work_for(staff: Staff, handler: Uuid) -> Uuid:
    """The agent of a handler that has something to do and has begun, in the folder in which commands look."""
    staff.do(SendMail(handler, text="Please begin."))
    staff.step()
    agent = staff.agents()[handler].id
    until(lambda: (staff.folder(agent) / "workspace/up").exists())
    until(lambda: len(processes_of(agent)) >= 2)
    return agent


@pytest.fixture
def staff(staffed: Callable[..., Staff]) -> Staff:
    made = staffed(STAYS, "one")
    made.place = made.place._replace(folders=folders_of(made.agency.hub))
    made.restart()
    return made


def test_the_agent_of_the_root_handler_ends_and_none_follows_until_a_person_writes(staff: Staff) -> None:
    root, hub = staff.root(), staff.agency.hub.root
    below = staff.handler("Build the site", "person")
    agent = at_work_for(staff, root)
    refused = cn("handler", "stop", "root", hub=hub, check=1).stderr
    assert "'cn agency stop root'" in refused
    assert f"would: agent ended: {agent[:8]}" in cn("agency", "stop", "root", "--dry-run", hub=hub).stdout
    said = cn("agency", "stop", "root", hub=hub).stdout
    assert f"agent {agent[:8]} and all that it started are ended" in said
    assert f"'cn mail send {root[:8]} TEXT'" in said
    assert processes_of(agent) == []
    staff.do(SendMail(root, text="The site needs a word."), staff.as_person(below))
    staff.restart()
    staff.step_until(lambda: not staff.place.folders.live())
    assert staff.agents() == {}
    assert "was stopped by hand" in staff.spawner.problems[root]
    staff.do(SendMail(root, text="Go on."))
    staff.step()
    assert staff.agents()[root].id != agent


def test_who_is_delegated_again_begins_though_its_last_agent_was_stopped_by_hand(staff: Staff) -> None:
    handler = staff.handler("Build the site")
    agent = at_work_for(staff, handler)
    cn("agency", "stop", agent[:8], hub=staff.agency.hub.root)
    staff.step()
    assert handler not in staff.agents()
    staff.do(StopHandler(handler))
    staff.do(Delegate(handler, "one"))
    staff.step()
    assert handler in staff.agents()


def test_a_runner_that_becomes_a_persons_starts_nobody_for_a_handler_that_keeps_it(staff: Staff) -> None:
    staff.do(SendMail(staff.root(), text="Please begin."))
    staff.machine = machine_of('[runners.one]\nlike = "person"')
    staff.restart()
    staff.step()
    assert staff.agents() == {}
    assert staff.spawner.problems == {}
    staff.machine = machine_of(STAYS)
    staff.restart()
    staff.step()
    assert staff.root() in staff.agents()


def test_where_no_process_can_be_started_the_agents_that_are_meant_are_ended_first(
    staff: Staff, capsys: pytest.CaptureFixture[str]
) -> None:
    handler, root, hub = staff.handler("Build the site"), staff.root(), staff.agency.hub
    agent, other = at_work_for(staff, handler), at_work_for(staff, root)
    launcher = read_launcher(staff.folder(agent))
    assert launcher
    mine = {one.agent: one for one in at_work() if one.agent in (agent, other)}
    assert (mine[agent].pid, mine[agent].handler, mine[agent].hub) == (launcher.pid, handler, staff.place.folders.hub)
    assert mine[agent].processes >= 4  # both halves of the launcher, the shell, its child
    folder, places = staff.place.folders.hub, places_of(hub)
    assert [one.agent for one in meant("root", folder, places, whole_branch=False)] == [other]
    assert meant("root", folder, places, whole_branch=True) == []
    assert meant(handler[:8], "another:folder", places, whole_branch=True) == []
    done: list[bool] = []

    def stop() -> None:
        done.append(processes_of(agent) == [])
        if len(done) == 1:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    insist(Env(hub_path=str(hub.root)), handler[:8], stop, whole_branch=True)
    assert done == [False, True]
    assert f"agent {agent[:8]} was ended first" in capsys.readouterr().err
    assert processes_of(other)
    assert "no process can be started" in crowded_words()[0]
    assert "'kill -QUIT " in crowded_words()[1]
    assert end(meant(other[:8], folder, places, whole_branch=False)) == [other]
    assert processes_of(other) == []


@pytest.mark.parametrize(
    "why",
    [
        Blocked("cannot open the lock: Permission denied; it is yours, and its mode 000 closes it to you", "open it"),
        PermissionError(errno.EACCES, "no", "agency.lock"),
    ],
)
def test_where_the_records_are_closed_the_agents_that_are_meant_are_ended_first(
    staff: Staff, capsys: pytest.CaptureFixture[str], why: Exception
) -> None:
    """One that changes modes by their paths closes them as fast as they are opened."""
    handler = staff.handler("Build the site")
    agent = at_work_for(staff, handler)
    done: list[bool] = []

    def stop() -> None:
        done.append(processes_of(agent) == [])
        if len(done) == 1:
            raise why

    insist(Env(hub_path=str(staff.agency.hub.root)), handler[:8], stop, whole_branch=True)
    assert done == [False, True]
    assert f"it could not be recorded: agent {agent[:8]} was ended first" in capsys.readouterr().err


def test_an_agent_whose_folder_is_closed_to_the_server_has_not_ended(
    staff: Staff, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = at_work_for(staff, handler := staff.handler("Build the site"))

    def closed(path: str, flags: int, *given: int, **more: int) -> int:
        if str(path).endswith("launched.json"):
            raise PermissionError(errno.EACCES, "closed", str(path))
        return opened(path, flags, *given, **more)

    opened = os.open
    with monkeypatch.context() as context:
        context.setattr(os, "open", closed)
        for _ in range(3):
            staff.step()
    assert not staff.has_ended(agent)
    assert "closed" in staff.spawner.faults[agent]
    assert processes_of(agent)
    staff.step()
    assert staff.agents()[handler].id == agent
    assert agent not in staff.spawner.faults


def test_what_is_only_rehearsed_or_fails_otherwise_ends_nobody(staff: Staff) -> None:
    agent = at_work_for(staff, staff.root())

    def fail() -> None:
        raise OSError(errno.EIO if dry is None else errno.EAGAIN, "no")

    for dry in (None, True):
        with pytest.raises(OSError, match="no"):
            insist(Env(hub_path=str(staff.agency.hub.root), dry_run=bool(dry)), "root", fail, whole_branch=False)
    assert processes_of(agent)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
@pytest.mark.parametrize(
    "start", [os.fork, lambda: subprocess.run(["true"], check=True), threading.Thread(target=print).start]
)
def test_that_the_system_starts_no_process_is_known_by_its_errors(start: Callable[[], object]) -> None:
    if (child := os.fork()) == 0:
        os.setgroups([])
        os.setresgid(4712, 4712, 4712)
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        os.setresuid(4712, 4712, 4712)
        try:
            start()
        except BaseException as why:
            os._exit(0 if is_crowded(why) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not is_crowded(OSError(errno.ENOSPC, "full"))


def test_causes_that_go_round_in_a_circle_are_looked_at_once() -> None:
    """As those of a full disk do, where what cleans up fails for the same reason."""
    first, second = OSError(errno.ENOSPC, "No space left on device"), OSError(errno.ENOSPC, "again")
    first.__cause__, second.__cause__ = second, first
    assert not is_crowded(first)
    second.__cause__ = OSError(errno.EAGAIN, "Resource temporarily unavailable")
    assert is_crowded(first)
