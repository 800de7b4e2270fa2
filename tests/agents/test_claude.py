"""Claude Code as an agent: the real program, offline, through the scenes that cn's own agent plays."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cn.agency.operations import CompleteOutcome, CreateFile, StopHandler, Wanted, WriteFile
from cn.agency.operations import Seen as SeenVersion
from cn.agency.perform import read_content
from cn.agents.machine import read_machine
from cn.agents.outputs import problem_of_start
from tests.agents.test_builtin import boss, get_a_tool, late, works
from tests.support.agency_server import uuid
from tests.support.firm import Firm, firm, transcript
from tests.support.plays import Play, Scene, call
from tests.support.wraps import NEEDS

MACHINE = """
[agents]
runner = "claude"
grace = 2
silence = 120

[runners.coder]
like = "claude"
tools = "Bash,Write"
wrap = "bwrap"

[runners.locked]
like = "claude"
wrap = "sandlock"
unguarded = true

[runners.open]
like = "claude"
tools = "Bash"
unguarded = true
"""


def find_claude() -> str:
    """The program on this machine, else the one that the package ``claude-agent-sdk`` brings; empty: there is none."""
    if found := shutil.which("claude"):
        return found
    spec = importlib.util.find_spec("claude_agent_sdk")
    inside = Path(spec.origin).parent / "_bundled/claude" if spec and spec.origin else None
    return str(inside) if inside and inside.is_file() else ""


CLAUDE = find_claude()
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not CLAUDE, reason="there is no program 'claude', and the extra 'claude' is not installed"),
]


def shells(scene: Scene) -> Play:
    """An agent that runs a shell command which takes long."""
    yield call("Bash", command="touch up; setsid sleep 600 & sleep 600", timeout=600000)


def leaves(scene: Scene) -> Play:
    """An agent that leaves a process behind."""
    yield call("Bash", command="setsid sleep 600 > /dev/null 2>&1 & echo begun")
    yield call("outcome_block", outcome=scene.handler, reason="done")


def spies(scene: Scene) -> Play:
    """An agent with a shell, which looks for what is not its own, and imports a file that it wrote."""
    (tokens,) = yield call("Bash", command="cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep ^CN_AGENT_TOKEN | sort -u")
    (hub,) = yield call("Bash", command="ls $(dirname $PWD)/.. ; ls ~; ls / ; true")
    yield call("Write", file_path=f"{scene.title.split(' in ')[1]}/note.md", content="x")
    yield call("Bash", command="echo '# Note' > note.md")
    (made,) = yield call("kb_create", description="A note", path="note.md")
    yield call("state_write", content=f"{tokens.text.count('CN_AGENT_TOKEN')}\n{hub.text}\n{made.text}\n")
    yield call("outcome_block", outcome=scene.handler, reason="done")


@pytest.fixture(scope="module", autouse=True)
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The program is on the server's PATH."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "claude").symlink_to(CLAUDE)
    path = os.environ["PATH"]
    os.environ["PATH"] = f"{folder}{os.pathsep}{path}"
    yield
    os.environ["PATH"] = path


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firm]:
    folder = tmp_path_factory.mktemp("claude")
    plays = {"Build the site": works, "Run the web": boss, "Run a shell": shells, "Leave something": leaves}
    with firm(folder, plays, MACHINE, any_client=True) as made:
        yield made


def test_it_works_an_outcome_and_what_it_began_with_is_what_was_asked_for(running: Firm) -> None:
    handler = running.handler("Build the site", message="Please begin with the start page.")
    running.until(lambda: running.ends(handler))
    assert running.ends(handler)[0].startswith("it ended; "), running.story()
    (page,) = [one for one in running.titled("Write the start page") if one.responsible == handler]
    assert page.status == "completed"
    assert running.outcome(handler).blocked == "it waits for verification"
    (output,) = [path for path in running.state.rglob("output") if "init" in path.read_text()]
    runner = read_machine(running.config).runner("claude")
    assert runner
    agent = output.parent.name
    assert problem_of_start(runner, agent, output) == ""
    init = next(one for one in transcript(running, agent) if one.get("subtype") == "init")
    assert {tool for tool in init["tools"] if not tool.startswith("mcp__cn__")} == set()
    assert "mcp__cn__kb_read" in init["tools"]
    running.do(CompleteOutcome(handler))


def test_a_stale_version_is_refused_and_the_change_is_put_into_what_is_there(running: Firm) -> None:
    file = uuid(running.do(CreateFile("Price list", b"one\n"))["file"])
    running.stage.plays[f"Correct {file}"] = late

    def write_meanwhile() -> None:
        with running.office.agency.store.reading() as facts:
            row = facts.file(file)
        assert row
        running.do(WriteFile(file, b"theirs\n", SeenVersion(row.version, row.hash)))

    running.stage.pause_before = ("kb_browse", write_meanwhile)
    handler = running.handler(f"Correct {file}", grants=(Wanted(f"kb:{file}", "write"),))
    running.until(lambda: running.ends(handler))
    with running.office.agency.store.reading() as facts:
        row = facts.file(file)
    assert row
    assert read_content(running.office.agency.store, file, row.hash) == b"theirs, and mine\n"


def test_a_boss_delegates_verifies_and_completes(running: Firm) -> None:
    top = running.handler("Run the web")
    running.until(lambda: any(one.status == "completed" for one in running.below(top)))
    running.until(lambda: not running.processes(), "no agent has anything to do")
    running.do(CompleteOutcome(top))


@NEEDS["sandlock"]
def test_in_sandlock_it_works_an_outcome_too(running: Firm) -> None:
    handler = running.handler("Build the site", "locked")
    running.until(lambda: running.ends(handler))
    assert running.ends(handler)[0].startswith("it ended; "), running.story()
    assert running.outcome(handler).blocked == "it waits for verification"
    running.do(CompleteOutcome(handler))


@pytest.mark.parametrize("runner", [pytest.param("coder", marks=NEEDS["bwrap"]), "open"])
def test_it_is_stopped_in_the_middle_of_a_shell_command_and_nothing_is_left(running: Firm, runner: str) -> None:
    before = set(running.live())
    handler = running.handler("Run a shell", runner)
    running.until(lambda: set(running.live()) - before)
    (agent,) = set(running.live()) - before
    running.until(lambda: list(running.state.glob(f"cn/agency/*/live/{agent}/workspace/up")))
    assert running.processes()
    running.do(StopHandler(handler))
    running.until(lambda: not running.processes(), "a process is left")


def test_what_it_leaves_in_the_background_ends_with_it(running: Firm) -> None:
    handler = running.handler("Leave something", "open")
    running.until(lambda: running.ends(handler))
    running.until(lambda: not running.processes(), "a process is left")


@NEEDS["bwrap"]
def test_wrapped_it_sees_its_own_workspace_and_no_others_token(running: Firm) -> None:
    title = f"Look around in {running.root}"
    running.stage.plays[title] = spies
    handler = running.handler(title, "coder")
    running.until(lambda: running.ends(handler))
    with running.office.agency.store.reading() as facts:
        row = facts.handler(handler)
        assert row
        state = facts.file(row.state)
    assert state
    count, *seen = read_content(running.office.agency.store, state.id, state.hash).decode().splitlines()
    assert count == "1"
    assert "cn-firm" not in " ".join(seen)
    assert "file" in seen[-1]
    assert not (running.root / "note.md").exists()


def test_a_tool_that_is_granted_is_there_without_a_restart(tmp_path: Path) -> None:
    get_a_tool(tmp_path, MACHINE, any_client=True)
