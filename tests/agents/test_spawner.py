"""The spawner: who needs an agent gets one, at most one, and everybody is seen off, whoever was killed meanwhile."""

import errno
import json
import os
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cn.agency.names import Party, Uuid
from cn.agency.operations import (
    BlockOutcome,
    CompleteOutcome,
    CreateOutcome,
    Delegate,
    EndAgent,
    FinishMail,
    MoveHandler,
    SendMail,
    StopHandler,
)
from cn.agency.plan.result import Refused
from cn.agency.tokens import principal_of_token
from cn.agents import outputs
from cn.agents.launcher import OUTPUT
from cn.agents.processes import Launcher, processes_of, read_exit, read_launcher
from cn.agents.workspace import Folder, Folders
from cn.values.errors import Blocked
from tests.support.agents import Staff, script_runner, until

WAITS = script_runner("one", "touch up; sleep 600")


def up(staff: Staff, handler: str) -> bool:
    """Has its agent begun?"""
    agent = staff.agents().get(handler)  # type: ignore[call-overload]
    return bool(agent and (staff.folder(agent.id) / "workspace/up").exists())


def test_a_handler_with_something_workable_gets_an_agent_and_no_second_one(staffed: Callable[..., Staff]) -> None:
    staff = staffed(WAITS)
    handler = staff.handler("Build the site")
    staff.step()
    agent = staff.agents()[handler]
    until(lambda: up(staff, handler))
    staff.step()
    staff.restart()
    staff.step()
    assert staff.agents()[handler] == agent
    assert len(staff.place.folders.live()) == 1


def test_no_other_agent_is_started_while_the_last_one_lives(
    staffed: Callable[..., Staff], monkeypatch: pytest.MonkeyPatch
) -> None:
    staff = staffed(WAITS)
    handler = staff.handler("Build the site")
    staff.step_until(lambda: up(staff, handler))
    agent = staff.agents()[handler].id
    with monkeypatch.context() as context:
        context.setattr(Launcher, "signal", lambda *_: None)  # one that cannot be ended
        staff.do(EndAgent(agent, "it was stopped by hand"))
        staff.do(SendMail(handler, text="Go on."))
        staff.step()
        staff.restart()
        staff.step()
        assert staff.agents() == {}
        staff.skip = timedelta(minutes=1)
        staff.step()
        assert "lives on, though its lease has ended" in staff.spawner.faults[agent]
    staff.step_until(lambda: up(staff, handler))
    assert processes_of(agent) == []


def test_nobody_is_started_where_nothing_is_workable(staffed: Callable[..., Staff]) -> None:
    staff = staffed(WAITS)
    handler = staff.handler("Build the site", "person")
    staff.do(BlockOutcome(staff.handler("Open the shop"), "it waits"))
    staff.step()
    assert staff.agents() == {}
    staff.do(MoveHandler(handler, Party("user:ann")))
    staff.step()
    assert staff.agents() == {}


def test_what_is_blocked_for_a_time_is_started_when_that_has_passed(staffed: Callable[..., Staff]) -> None:
    staff = staffed(WAITS)
    handler = staff.handler("Build the site")
    staff.do(BlockOutcome(handler, "the shop is closed", staff.now + timedelta(hours=1)))
    staff.step()
    assert staff.agents() == {}
    staff.skip = timedelta(hours=2)
    staff.step()
    assert list(staff.agents()) == [handler]


def test_an_agent_has_its_token_its_prompt_and_nothing_else_of_the_servers_environment(
    staffed: Callable[..., Staff],
) -> None:
    os.environ["SECRET_OF_THE_SERVER"] = "hidden"
    try:
        staff = staffed(script_runner("one", "env > seen; cat > told", "input = '{prompt}'"))
        handler = staff.handler("Build the site", message="Please begin with the start page.")
        staff.step()
        agent = staff.agents()[handler]
        until(lambda: staff.has_ended(agent.id))
        workspace = staff.folder(agent.id) / "workspace"
        env = dict(line.split("=", 1) for line in (workspace / "seen").read_text().splitlines())
        told = (workspace / "told").read_text()
    finally:
        del os.environ["SECRET_OF_THE_SERVER"]
    assert "SECRET_OF_THE_SERVER" not in env
    assert env["CN_AGENT_ID"] == agent.id
    assert env["CN_HANDLER"] == handler
    assert env["HOME"] == str(workspace.parent / "home")
    with staff.agency.store.reading() as facts:
        assert principal_of_token(env["CN_AGENT_TOKEN"], facts) == staff.as_agent(handler)
    assert f"{handler} Build the site" in told
    assert "Help Ann" in told
    assert "Process inbox" in told
    assert "Delegated" in told
    told_of = [path for path in workspace.parent.rglob("*") if path.is_file() and path.name != "seen"]
    assert not [path for path in told_of if env["CN_AGENT_TOKEN"] in path.read_text()]


def test_gits_own_look_for_a_repository_ends_at_the_agents_folder(staffed: Callable[..., Staff]) -> None:
    """Below another repository, as a state folder in a home under version control is, it would act on that one."""
    staff = staffed(script_runner("one", "git rev-parse --git-dir > found 2>&1; touch up"))
    handler = staff.handler("Build the site")
    base = staff.place.folders.base
    base.mkdir(parents=True)
    from tests.support.hubs import git

    git(base, "init", "--quiet")
    staff.step()
    until(lambda: up(staff, handler))
    assert "not a git repository" in (staff.folder(staff.agents()[handler].id) / "workspace/found").read_text()


def test_its_end_is_recorded_and_its_workspace_removed(staffed: Callable[..., Staff]) -> None:
    staff = staffed(script_runner("one", "echo said; mkdir closed; touch closed/x; chmod 0 closed; exit 3"))
    handler = staff.handler("Build the site")
    staff.step()
    agent = staff.agents()[handler]
    staff.step_until(lambda: staff.ends(handler))
    assert staff.ends(handler)[0] == "it failed: exit 3; said"
    folder = staff.place.folders.ended(agent.id).path
    assert {path.name for path in folder.iterdir()} == {"output", "errors", "launched.json", "exit.json"}
    assert (folder / "output").read_text() == "said\n"


def test_transcripts_are_kept_for_some_days(staffed: Callable[..., Staff]) -> None:
    staff = staffed(script_runner("one", "exit 0"))
    first = staff.handler("Build the site")
    staff.step()
    agent = staff.agents()[first].id
    staff.step_until(lambda: staff.ends(first))
    staff.do(StopHandler(first))
    os.utime(staff.folder(agent), (1, 1))  # as an agent may that can tell the path
    other = staff.handler("Look around")
    staff.step_until(lambda: staff.ends(other))
    assert staff.folder(agent).is_dir()
    staff.skip = timedelta(days=staff.place.days + 1)
    second = staff.handler("Open the shop")
    staff.step_until(lambda: staff.ends(second))
    assert not staff.folder(agent).exists()


def test_an_ended_handler_takes_its_agent_with_it_to_the_last_child(staffed: Callable[..., Staff]) -> None:
    staff = staffed(script_runner("one", "trap '' TERM; setsid sleep 600 & touch up; while :; do sleep 0.1; done"))
    handler = staff.handler("Build the site")
    staff.step()
    until(lambda: up(staff, handler))
    agent = staff.agents()[handler].id
    until(lambda: len(processes_of(agent)) >= 2)
    staff.do(StopHandler(handler))
    staff.step_until(lambda: not staff.place.folders.live())
    assert processes_of(agent) == []


def test_a_dead_agents_token_is_worth_nothing(staffed: Callable[..., Staff]) -> None:
    staff = staffed(WAITS)
    handler = staff.handler("Build the site")
    staff.step()
    principal = staff.as_agent(handler)
    staff.do(EndAgent(principal.agent, "ended by hand"))  # type: ignore[arg-type]
    answer = staff.ask(SendMail(staff.root(), text="I am still here"), principal)
    assert isinstance(answer, Refused)
    assert answer.rule == "active-handler"


def test_what_no_server_could_hear_is_not_an_agents_silence(staffed: Callable[..., Staff]) -> None:
    staff = staffed(script_runner("one", "touch up; sleep 600") + "[agents]\nsilence = 300")
    handler = staff.handler("Build the site")
    staff.step()
    until(lambda: up(staff, handler))
    agent = staff.agents()[handler].id
    staff.restart()
    staff.skip = timedelta(seconds=800)  # so long no server ran
    staff.step()
    staff.pass_time(200)
    assert not staff.has_ended(agent)
    assert not staff.spawner._heard[agent].ending
    staff.pass_time(200)
    staff.step_until(lambda: staff.ends(handler))
    assert staff.ends(handler)[0].startswith("it was silent for")


@pytest.mark.parametrize("jump", [800, -800], ids=["it stood still, or a clock was set", "a clock was set back"])
def test_while_a_server_stood_still_nobody_was_silent(staffed: Callable[..., Staff], jump: int) -> None:
    """A machine that sleeps, a process that is stopped: what was asked meanwhile waits to be heard."""
    staff = staffed(script_runner("one", "touch up; sleep 600") + "[agents]\nsilence = 300")
    handler = staff.handler("Build the site")
    staff.step()
    until(lambda: up(staff, handler))
    agent = staff.agents()[handler].id
    staff.spawner.heard(agent, "kb_read")
    staff.pass_time(200)
    staff.skip += timedelta(seconds=jump)
    staff.step()
    assert not staff.spawner._heard[agent].ending
    staff.pass_time(120)
    staff.step_until(lambda: staff.ends(handler))
    assert staff.ends(handler)[0].startswith("it was silent for 3"), "by the time that it was looked at"


def test_silence_past_its_limit_ends_an_agent_and_its_boss_is_told(staffed: Callable[..., Staff]) -> None:
    staff = staffed(
        script_runner("one", "echo I look at the start page; touch up; sleep 600") + "[agents]\nsilence = 300"
    )
    handler = staff.handler("Build the site")
    staff.step()
    until(lambda: up(staff, handler))
    staff.pass_time(200)
    assert staff.agents()
    agent = staff.agents()[handler].id
    staff.spawner.heard(agent, "kb_read")  # what it asks is a sign of life too
    staff.pass_time(200)
    assert not staff.has_ended(agent)
    staff.pass_time(200)
    staff.step_until(lambda: staff.ends(handler))
    (said,) = [text for subject, text in staff.letters(staff.root())]
    assert f'Agent {agent[:8]} of {handler[:8]} ("Build the site") was ended: it was silent for' in said
    assert "It said last: I look at the start page" in said
    assert processes_of(agent) == []


def test_what_an_agent_says_is_a_sign_of_life_whatever_the_clocks_say(staffed: Callable[..., Staff]) -> None:
    staff = staffed(script_runner("one", "echo I look; touch up; sleep 600") + "[agents]\nsilence = 300")
    handler = staff.handler("Build the site")
    staff.step()
    until(lambda: up(staff, handler))
    agent = staff.agents()[handler].id
    staff.pass_time(200)
    os.utime(staff.folder(agent) / OUTPUT, (staff.now.timestamp() + 10_000,) * 2)
    staff.pass_time(200)
    assert not staff.spawner._heard[agent].ending
    staff.pass_time(200)
    staff.step_until(lambda: staff.ends(handler))
    assert staff.ends(handler)[0].startswith("it was silent for")


def test_a_server_that_stops_before_it_recorded_an_end_leaves_the_reason(staffed: Callable[..., Staff]) -> None:
    staff = staffed(script_runner("one", "touch up; sleep 600") + "[agents]\nsilence = 300")
    handler = staff.handler("Build the site")
    staff.step()
    until(lambda: up(staff, handler))
    agent = staff.agents()[handler].id
    while not ((heard := staff.spawner._heard.get(agent)) and heard.ending):
        staff.pass_time(10)
    staff.restart()
    assert not staff.ends(handler)
    until(lambda: processes_of(agent) == [])
    staff.step_until(lambda: staff.ends(handler))
    assert staff.ends(handler)[0].startswith("it was silent for")
    (said,) = [text for subject, text in staff.letters(staff.root())]
    assert "was ended: it was silent for" in said


def test_who_asks_for_the_same_over_and_over_is_ended(staffed: Callable[..., Staff]) -> None:
    staff = staffed(WAITS + "[agents]\ncalls = 5")
    handler = staff.handler("Build the site")
    staff.step()
    agent = staff.agents()[handler].id
    for _ in range(4):
        staff.spawner.heard(agent, "kb_read 1a2b")
    staff.spawner.heard(agent, "kb_read 3c4d")
    for _ in range(4):
        staff.spawner.heard(agent, "kb_read 1a2b")
        staff.spawner.heard(agent, "mail_inbox 5e6f")  # as a loop does between any two calls
    staff.step()
    assert handler in staff.agents()
    staff.spawner.heard(agent, "kb_read 1a2b")
    staff.step_until(lambda: staff.ends(handler))
    assert staff.ends(handler) == ["it asked 5 times in a row for the same"]
    assert "Its last call: kb_read 1a2b" in staff.letters(staff.root())[0][1]


def test_who_floods_is_ended_without_grace(staffed: Callable[..., Staff], monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[signal.Signals] = []
    send = Launcher.signal

    def note(one: Launcher, number: signal.Signals) -> None:
        sent.append(number)
        send(one, number)

    monkeypatch.setattr(Launcher, "signal", note)
    staff = staffed(script_runner("one", "trap '' TERM; touch up; while :; do sleep 1; done"))
    handler = staff.handler("Build the site")
    staff.step()
    until(lambda: up(staff, handler))
    staff.spawner.flooded(staff.agents()[handler].id, "it opens one connection after the other")
    staff.step_until(lambda: staff.ends(handler))
    assert staff.ends(handler) == ["it opens one connection after the other"]
    assert set(sent) == {signal.SIGQUIT}
    assert "opens one connection" in staff.letters(staff.root())[0][1]


def test_three_agents_that_get_nowhere_make_a_pause_that_grows_until_somebody_writes(
    staffed: Callable[..., Staff],
) -> None:
    staff = staffed(script_runner("one", "echo nothing; exit 0") + "[agents]\nsilence = 100000\npause = 600")
    handler = staff.handler("Build the site")
    staff.step_until(lambda: len(staff.ends(handler)) == 3)
    staff.step()
    assert staff.agents() == {}
    (said,) = [text for _, text in staff.letters(staff.root())]
    assert f"cn mail send {handler[:8]}" in said
    staff.restart()  # what is known of it is in the records
    staff.step()
    assert staff.agents() == {}
    staff.skip = timedelta(seconds=700)
    staff.step_until(lambda: len(staff.ends(handler)) == 4)
    staff.skip = timedelta(seconds=1100)  # less than twice as many
    staff.step()
    assert staff.agents() == {}
    staff.do(SendMail(handler, text="Begin with the start page."))
    staff.step_until(lambda: len(staff.ends(handler)) == 5)
    assert len(staff.letters(staff.root())) == 1, "the boss is told once"


def test_a_clock_that_was_ahead_pauses_no_handler_until_that_date(staffed: Callable[..., Staff]) -> None:
    staff = staffed(script_runner("one", "exit 0") + "[agents]\npause = 600")
    staff.skip = behind = timedelta(days=-730)  # as seen by the server, what is written now is two years ahead
    handler = staff.handler("Build the site")
    staff.step_until(lambda: len(staff.ends(handler)) == 3)
    staff.step()
    assert staff.agents() == {}
    year = str(staff.now.year)
    assert staff.spawner.problems[handler].startswith(f"it pauses until {year}-")
    (said,) = [text for _, text in staff.letters(staff.root())]
    assert f"has to wait until {year}-" in said
    staff.skip = behind + timedelta(seconds=300)
    staff.step()
    assert staff.agents() == {}, "less than the pause"
    staff.skip = behind + timedelta(seconds=700)
    staff.step_until(lambda: len(staff.ends(handler)) == 4)
    staff.step()
    assert staff.agents() == {}, "the next pause counts from the next end"


def test_an_agent_that_changes_something_ends_the_row(staffed: Callable[..., Staff]) -> None:
    staff = staffed(script_runner("one", "touch up; sleep 600"))
    handler = staff.handler("Build the site")
    for number in range(5):
        staff.step_until(lambda: up(staff, handler))
        principal = staff.as_agent(handler)
        if number == 2:
            staff.do(CreateOutcome("Draw it", "", (handler,)), principal)
        launcher = read_launcher(staff.folder(principal.agent))  # type: ignore[arg-type]
        assert launcher
        launcher.signal(signal.SIGQUIT)
        staff.step_until(lambda number=number: len(staff.ends(handler)) == number + 1)  # type: ignore[misc]
    staff.step_until(lambda: up(staff, handler))


def test_who_only_complains_to_its_boss_gets_nowhere_and_complains_once(staffed: Callable[..., Staff]) -> None:
    staff = staffed(WAITS + "[agents]\npause = 600")
    handler = staff.handler("Build the site")
    words = SendMail(staff.root(), text="I do not get any further.")
    answers = []
    for number in range(3):
        staff.step_until(lambda: up(staff, handler))
        principal = staff.as_agent(handler)
        answers.append(staff.ask(words, principal))
        staff.do(SendMail(staff.root(), text=f"For the {number + 1}. time: I do not get any further."), principal)
        launcher = read_launcher(staff.folder(principal.agent))  # type: ignore[arg-type]
        assert launcher
        launcher.signal(signal.SIGQUIT)
        staff.step_until(lambda number=number: len(staff.ends(handler)) == number + 1)  # type: ignore[misc]
    staff.step()
    assert staff.agents() == {}, "it has to wait"
    again = [one.rule for one in answers if isinstance(one, Refused)]
    assert again == ["said-already", "said-already"]
    assert [text for _, text in staff.letters(staff.root())].count("I do not get any further.") == 1
    subject, said = staff.letters(staff.root())[-1]
    assert subject == f'{handler[:8]} ("Build the site") pauses: 3 agents got nowhere'
    assert f"cn handler stop {handler[:8]}" in said


def test_who_only_blocks_what_it_has_gets_nowhere(staffed: Callable[..., Staff]) -> None:
    staff = staffed(WAITS + "[agents]\npause = 600")
    handler = staff.handler("Build the site")
    staff.do(CreateOutcome("Draw it", "", (handler,)), staff.as_person(handler))
    answers = []
    for number in range(3):
        staff.step_until(lambda: up(staff, handler))
        principal = staff.as_agent(handler)
        staff.do(SendMail(handler, text=f"{number}"), principal)
        with staff.agency.store.reading() as facts:
            own = tuple(mail.id for mail in facts.pending(handler))
        staff.do(FinishMail(own), principal)
        answers.append(staff.ask(BlockOutcome(handler, "it waits for my boss"), principal))
        launcher = read_launcher(staff.folder(principal.agent))  # type: ignore[arg-type]
        assert launcher
        launcher.signal(signal.SIGQUIT)
        staff.step_until(lambda number=number: len(staff.ends(handler)) == number + 1)  # type: ignore[misc]
    staff.step()
    assert staff.agents() == {}, "it has to wait"
    assert staff.spawner.problems[handler].startswith("it pauses")
    assert [one.rule for one in answers if isinstance(one, Refused)] == ["nothing-to-change"] * 2


def test_an_end_is_told_with_its_exit_though_its_words_look_like_a_secret(staffed: Callable[..., Staff]) -> None:
    key = "AKIA" + "Q3EGZ7XN2MWPLR5T"
    staff = staffed(script_runner("one", f"echo {key}; exit 3"))
    handler = staff.handler("Build the site")
    staff.step_until(lambda: staff.ends(handler))
    (end,) = staff.ends(handler)
    assert end.startswith("it failed: exit 3")
    assert key not in end


def test_a_reminder_to_itself_does_not_end_a_handlers_pause(staffed: Callable[..., Staff]) -> None:
    staff = staffed(script_runner("one", "exit 0") + "[agents]\npause = 600")
    handler = staff.handler("Build the site")
    staff.step_until(lambda: len(staff.ends(handler)) == 3)
    staff.do(SendMail(handler, text="Go on."), staff.as_person(handler))
    staff.step()
    assert staff.agents() == {}
    staff.do(SendMail(handler, text="Go on."))
    staff.step()
    assert list(staff.agents()) == [handler]


def test_a_flood_of_an_underlings_messages_is_one_start(staffed: Callable[..., Staff]) -> None:
    staff = staffed(script_runner("one", "exit 0") + "[agents]\npause = 600")
    boss = staff.handler("Build the site")
    part = staff.outcome("Draw it", boss)
    under = Uuid(Party(str(staff.do(Delegate(part, "person"), staff.as_person(boss))["handler"])))
    staff.do(CreateOutcome("Write it", "", (boss,)), staff.as_person(boss))
    staff.step_until(lambda: len(staff.ends(boss)) == 3)
    staff.step()
    assert staff.agents() == {}, "it pauses"
    for number in range(3):
        staff.do(SendMail(boss, text=f"urgent {number}"), staff.as_person(under))
        staff.step_until(lambda: len(staff.ends(boss)) == 4)
        staff.step()
        assert staff.agents() == {}, "the first one ended the pause, and no other of the same sender"
    staff.do(SendMail(boss, text="What is it?"))
    staff.step_until(lambda: len(staff.ends(boss)) == 5)


def test_the_root_handlers_pause_names_what_can_be_done_about_it(staffed: Callable[..., Staff]) -> None:
    staff = staffed(script_runner("builtin", "exit 0") + "[agents]\npause = 600", runner="")
    root = staff.root()
    staff.step_until(lambda: len(staff.ends(root)) == 3)
    ((_, said),) = staff.letters("user:ann")
    assert f"cn outcome block {root[:8]} REASON" in said
    assert "handler stop" not in said
    staff.do(BlockOutcome(root, "it rests"))


_DEEP = """python3 -c '
import os
for number in range(3000):
    os.mkdir("deep" * 10)
    os.chdir("deep" * 10)
'; mkdir -p closed/in; touch closed/in/x; chmod 0 closed/in closed"""


def test_a_workspace_of_any_depth_is_removed_and_nobody_waits_for_it(staffed: Callable[..., Staff]) -> None:
    staff = staffed(script_runner("deep", _DEEP) + script_runner("one", "exit 0"))
    deep = staff.handler("Dig", "deep")
    staff.step()
    agent = staff.agents()[deep].id
    staff.step_until(lambda: staff.ends(deep))
    staff.do(StopHandler(deep))
    other = staff.handler("Build the site")
    staff.step_until(lambda: staff.ends(other))
    staff.step_until(lambda: not (staff.folder(agent) / "workspace").exists())
    assert staff.spawner.faults == {}
    assert staff.place.folders.left_over() == []


def test_what_goes_wrong_with_one_agent_keeps_nobody_else_from_anything(
    staffed: Callable[..., Staff], monkeypatch: pytest.MonkeyPatch
) -> None:
    staff = staffed(script_runner("one", "exit 0"))
    first, second = staff.handler("Build the site"), staff.handler("Open the shop")
    staff.step()
    broken = staff.agents()[first].id
    until(lambda: staff.has_ended(broken))
    whole = outputs.last_words

    def last_words(folder: Path) -> str:
        if folder.name == broken:
            raise RecursionError("too deep")
        return whole(folder)

    monkeypatch.setattr(outputs, "last_words", last_words)
    staff.step_until(lambda: broken in staff.spawner.faults)
    assert "RecursionError: too deep" in staff.spawner.faults[broken]
    assert staff.ends(first) == ["it ended, and what it said cannot be read"]
    staff.step_until(lambda: len(staff.ends(second)) >= 2)
    staff.do(StopHandler(first))
    third = staff.handler("Write to all")
    staff.step_until(lambda: third in staff.agents())
    kept = staff.agents()[third].id
    monkeypatch.setattr(Folders, "retire", _fails_for(kept))
    staff.step_until(lambda: staff.spawner.faults.get(kept) == "OSError: the disk is full")
    staff.do(SendMail(second, text="Go on."))
    ends = len(staff.ends(second))
    staff.step_until(lambda: len(staff.ends(second)) > ends)


def _fails_for(agent: Uuid) -> Callable[[Folders, Folder], str]:
    whole = Folders.retire

    def retire(self: Folders, folder: Folder) -> str:
        if folder.agent == agent:
            raise OSError("the disk is full")
        return whole(self, folder)

    return retire


def test_what_it_made_is_removed_before_its_end_is_recorded_which_may_need_the_room(
    staffed: Callable[..., Staff],
) -> None:
    staff = staffed(script_runner("one", "touch big ../home/big; mkdir .big; mv ../workspace ../moved"))
    handler = staff.handler("Build the site")
    staff.step()
    folder, ask = staff.place.folders.find(staff.agents()[handler].id), staff.spawner.perform
    assert folder
    until(lambda: read_exit(folder.path))

    async def on_a_small_disk(operation: Any, principal: Any) -> Any:
        if any(folder.path.rglob("big")):
            raise Blocked("No space left on device", "make room")
        return await ask(operation, principal)

    staff.spawner.perform = on_a_small_disk
    staff.step_until(lambda: staff.ends(handler))
    staff.step_until(lambda: not folder.path.exists())
    assert not staff.place.folders.left_over()
    assert not [one for one in staff.place.folders.ended(folder.agent).path.iterdir() if one.is_dir()]


def test_what_cannot_be_removed_is_set_aside_and_named(
    staffed: Callable[..., Staff], monkeypatch: pytest.MonkeyPatch
) -> None:
    staff = staffed(script_runner("one", "touch kept"))
    handler = staff.handler("Build the site")
    whole = os.unlink

    def unlink(path: Any, **more: Any) -> None:
        if path == "kept":
            raise PermissionError(errno.EPERM, "Operation not permitted")
        whole(path, **more)

    monkeypatch.setattr(os, "unlink", unlink)
    staff.step()
    agent = staff.agents()[handler].id
    staff.step_until(lambda: staff.spawner.faults)
    ended = staff.place.folders.ended(agent)
    assert staff.spawner.faults == {agent: f"{ended.path} cannot be removed: Operation not permitted"}
    assert staff.place.folders.left_over() == [ended]
    assert (ended.workspace / "kept").exists()
    staff.step()
    assert staff.ends(handler)


def test_what_an_agent_says_is_no_reason_that_its_lease_does_not_end(staffed: Callable[..., Staff]) -> None:
    deep = "python3 -c 'print(chr(91) * 100000)'"
    staff = staffed(script_runner("one", deep, 'result = "claude"'))
    handler = staff.handler("Build the site")
    staff.step_until(lambda: staff.ends(handler))
    assert staff.spawner.faults == {}


def test_no_more_agents_live_than_may_and_who_waited_longest_comes_first(staffed: Callable[..., Staff]) -> None:
    staff = staffed(script_runner("one", "exit 0") + "[agents]\npause = 0")
    staff.agency = staff.agency._replace(limits=staff.agency.limits._replace(agents=1))
    staff.place = staff.place._replace(agency=staff.agency)
    staff.restart()
    handlers = [staff.handler(f"Outcome {number}") for number in range(3)]
    order: list[str] = []

    def look() -> bool:
        live = list(staff.agents())
        assert len(live) <= 1
        order.extend(one for one in live if not order or order[-1] != one)
        return len(order) >= 6

    staff.step_until(look)
    assert order[:6] == handlers * 2


def few_places(staff: Staff, agents: int) -> None:
    staff.agency = staff.agency._replace(limits=staff.agency.limits._replace(agents=agents))
    staff.place = staff.place._replace(agency=staff.agency)
    staff.restart()


def test_who_looks_busy_and_gets_nowhere_gives_its_place_to_who_waits(staffed: Callable[..., Staff]) -> None:
    staff = staffed(WAITS + "[agents]\nlife = 600\nsilence = 100000\ngrace = 0.1", runner="one")
    root = staff.root()
    staff.do(BlockOutcome(root, "nothing to do"))
    few_places(staff, 2)
    staff.skip = timedelta(seconds=-700)  # what is written has the time of the clock, 0
    hog = staff.handler("Look busy")
    under = staff.do(Delegate(staff.outcome("Look busy too", hog), "one"), staff.as_person(hog))["handler"]
    staff.do(CreateOutcome("More", "", (hog,)), staff.as_person(hog))
    staff.step()
    staff.step()
    assert staff.agents().keys() == {hog, under}
    staff.skip = timedelta(seconds=-200)
    honest = staff.handler("Work")
    staff.do(SendMail(root, text="Stop who looks busy."))
    for one in staff.agents().values():
        staff.spawner.heard(one.id, "kb_browse")
    staff.step()
    assert staff.agents().keys() == {hog, under}, "not yet"
    staff.do(CreateOutcome("A step", "", (hog,)), staff.as_agent(hog))
    staff.skip = timedelta()
    staff.step_until(lambda: root in staff.agents(), "the one that got nowhere goes, and the boss of all comes first")
    assert staff.agents().keys() == {root, hog}
    (why,) = staff.ends(str(under))  # type: ignore[arg-type]
    assert why.startswith("it got nowhere for ")
    assert why.endswith(f"while {root[:8]} waits for a place")
    staff.restart()  # what a server knows of steps is in the records
    staff.step()
    assert staff.agents().keys() == {root, hog}
    staff.skip = timedelta(seconds=700)
    staff.step_until(lambda: honest in staff.agents())


def test_nobody_gives_its_place_where_nobody_waits_and_who_gets_somewhere_gives_it_late(
    staffed: Callable[..., Staff],
) -> None:
    staff = staffed(WAITS + "[agents]\nlife = 600\nsilence = 1000000\ngrace = 0.1")
    few_places(staff, 1)
    staff.skip = timedelta(seconds=-4900)
    first = staff.handler("Build the site")
    staff.step()
    staff.step()
    staff.skip = timedelta(seconds=-800)
    staff.step()
    assert staff.agents().keys() == {first}
    second = staff.handler("Open the shop")
    for number in range(2):
        staff.do(CreateOutcome(f"Part {number}", "", (first,)), staff.as_agent(first))
        staff.step()
        assert staff.agents().keys() == {first}
    staff.skip = timedelta()
    staff.do(CreateOutcome("Part 3", "", (first,)), staff.as_agent(first))
    staff.step_until(lambda: second in staff.agents())
    assert [one.partition(" s, ")[0].rstrip("0123456789") for one in staff.ends(first)] == ["it had its place for "]


def test_a_server_that_was_killed_between_lease_and_start_leaves_no_lease(staffed: Callable[..., Staff]) -> None:
    staff = staffed(WAITS)
    handler = staff.handler("Build the site")
    import uuid

    from cn.agency.operations import BySystem, LeaseAgent

    staff.do(LeaseAgent(str(uuid.uuid4()), handler, "0" * 64), BySystem())  # type: ignore[arg-type]
    staff.restart()
    staff.step_until(lambda: up(staff, handler))
    assert staff.ends(handler) == ["it was never started, or not here: this account has nothing of it on this machine"]


def test_a_launcher_that_was_killed_takes_its_agent_along_and_another_one_comes(staffed: Callable[..., Staff]) -> None:
    staff = staffed(script_runner("one", "setsid sleep 600 & touch up; sleep 600"))
    handler = staff.handler("Build the site")
    staff.step()
    until(lambda: up(staff, handler))
    agent = staff.agents()[handler].id
    launcher = read_launcher(staff.folder(agent))
    assert launcher
    os.kill(launcher.pid, signal.SIGKILL)
    staff.step_until(lambda: handler in staff.agents() and staff.agents()[handler].id != agent)
    assert processes_of(agent) == []
    assert staff.ends(handler) == ["its launcher was killed"]


def test_a_process_that_has_the_launchers_number_by_now_is_not_taken_for_it(staffed: Callable[..., Staff]) -> None:
    staff = staffed(WAITS)
    handler = staff.handler("Build the site")
    staff.step()
    until(lambda: up(staff, handler))
    agent = staff.agents()[handler].id
    launcher = read_launcher(staff.folder(agent))
    assert launcher
    launcher.signal(signal.SIGQUIT)
    until(lambda: not launcher.is_running)
    note = staff.folder(agent) / "launched.json"
    note.write_text(json.dumps(json.loads(note.read_text()) | {"pid": os.getpid()}))  # ours was started at another time
    staff.restart()
    staff.step_until(lambda: staff.ends(handler))


def test_agents_live_on_while_no_server_runs_and_their_end_is_told_by_the_next(staffed: Callable[..., Staff]) -> None:
    staff = staffed(script_runner("one", "touch up; while ! test -e go; do sleep 0.02; done; echo done"))
    handler = staff.handler("Build the site")
    staff.step()
    until(lambda: up(staff, handler))
    agent = staff.agents()[handler].id
    folder = staff.folder(agent)
    staff.restart()
    assert (folder / "workspace").is_dir()
    (folder / "workspace/go").touch()
    until(lambda: staff.has_ended(agent))
    staff.step_until(lambda: staff.ends(handler))
    assert staff.ends(handler)[0] == "it ended"


def test_what_this_machine_lacks_is_told_and_nothing_is_started(staffed: Callable[..., Staff]) -> None:
    own = "[runners.bare]\nargv = ['sh']\n[runners.wrapped]\nargv = ['sh']\nwrap = ['no-such-wrap']\n"
    staff = staffed(own)
    bare, wrapped, unknown = (staff.handler(f"With {name}", name) for name in ("bare", "wrapped", "elsewhere"))
    staff.step()
    assert staff.agents() == {}
    assert "can run programs" in staff.spawner.problems[bare]
    assert "unguarded = true" in staff.spawner.problems[bare]
    assert "no-such-wrap, which is not on this machine" in staff.spawner.problems[wrapped]
    assert "no runner 'elsewhere'" in staff.spawner.problems[unknown]


def test_a_command_that_does_not_start_ends_with_its_reason(staffed: Callable[..., Staff]) -> None:
    staff = staffed("[runners.one]\nargv = ['/no/such/program']\nshell = false")
    handler = staff.handler("Build the site")
    staff.step_until(lambda: staff.ends(handler))
    assert staff.ends(handler)[0] == "cannot start /no/such/program: No such file or directory"


def test_an_outcome_that_is_completed_meanwhile_ends_the_agent(staffed: Callable[..., Staff]) -> None:
    staff = staffed(WAITS)
    handler = staff.handler("Build the site")
    staff.step()
    until(lambda: up(staff, handler))
    agent = staff.agents()[handler].id
    staff.do(CompleteOutcome(handler, "It is online."))
    staff.step_until(lambda: not staff.place.folders.live())
    assert processes_of(agent) == []
    assert staff.agents() == {}


AWAY = script_runner(
    "one",
    "echo 'cn: no model answered: x cannot be reached; look' >&2; test -e BASE/back || exit 69; exit 0",
    "result = 'builtin'",
)


def test_a_model_that_is_not_reached_is_no_fault_of_agents_and_asked_again_soon(
    staffed: Callable[..., Staff], tmp_path: Path
) -> None:
    """Neither pauses grow to a day, nor is a boss told of agents that did nothing."""
    staff = staffed(AWAY.replace("BASE", str(tmp_path)) + "[agents]\npause = 60\nsilence = 1000000")
    first, second = staff.handler("Build the site"), staff.handler("Open the shop")
    staff.step_until(lambda: staff.ends(first) and staff.ends(second))
    staff.step()
    assert staff.agents() == {}, "the others of its runner would meet the same"
    assert staff.ends(first)[0].startswith("no model answered: x cannot be reached; look")
    assert "agents of its runner are started again at " in staff.spawner.problems[first]
    for count in range(2, 8):
        staff.skip += timedelta(minutes=11)
        staff.step()
        staff.step()
        assert first not in staff.agents() or "it is asked again now" in staff.spawner.faults[first]
        staff.step_until(lambda count=count: len(staff.ends(first)) == count and len(staff.ends(second)) == count)  # type: ignore[misc]
    letters = [text for subject, text in staff.letters(staff.root()) if "Build the site" in subject]
    subjects = [subject for subject, _ in staff.letters(staff.root())]
    assert ["no model answers" in subject for subject in subjects] == [True, True], subjects
    assert "That is no fault of theirs" in letters[0]
    assert "did no more than" not in "".join(letters)
    (tmp_path / "back").touch()
    staff.skip += timedelta(minutes=11)
    staff.step_until(lambda: len(staff.ends(first)) == 8)
    staff.step()
    assert first not in staff.spawner.problems, "that one counts as the first that got nowhere"
