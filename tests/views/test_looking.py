"""``cn status`` and ``cn inbox`` cost what they show: few processes, few modules."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.hubs import cn_env
from tests.support.world import Node, World

LOOKS = ("status", "inbox")
_PROBE = (
    "import sys\n"
    "sys.argv = ['cn', *sys.argv[1:]]\n"
    "from cn.cli.start import run\n"
    "try:\n"
    "    run()\n"
    "finally:\n"
    "    print(*sorted(sys.modules), file=sys.stderr)\n"
)
"""A run of cn that names the modules it loaded."""


@pytest.fixture
def waiting(world: World, sigma: Node, pi: Node) -> Node:
    """A hub in which one thread waits."""
    world.propose(pi, sigma)
    sigma.sync()
    return sigma


def loaded(node: Node, *words: str) -> set[str]:
    """The modules that a command imports; it must name the thread."""
    command = [sys.executable, "-c", _PROBE, "--hub", str(node.root), *words]
    done = subprocess.run(command, env=cn_env(), capture_output=True, text=True, timeout=120, check=True)
    assert "proposal" in done.stdout
    return set(done.stderr.split())


@pytest.mark.parametrize("words", LOOKS)
def test_a_look_starts_four_gits_whatever_waits(waiting: Node, tmp_path: Path, words: str) -> None:
    events, config = tmp_path / "events", tmp_path / "gitconfig"
    events.mkdir()
    config.write_text(f"[trace2]\n\teventTarget = {events}\n")
    waiting.cn(words, env={"GIT_CONFIG_GLOBAL": str(config)})
    assert len(list(events.iterdir())) == 4, "configuration, refs, one reading of objects, what main holds"


@pytest.mark.parametrize("words", LOOKS)
def test_a_look_loads_nothing_of_what_only_acts(waiting: Node, words: str) -> None:
    names = loaded(waiting, words)
    outside = {"rich", "git", "hashlib", "secrets", "shutil", "tempfile", "click.shell_completion"}
    ours = {
        *("protocol.thread_file", "protocol.rules", "protocol.message", "protocol.outbox_entry"),
        *("protocol.effects", "protocol.queue_item", "protocol.thread_life"),
        *("inbox.plan.decisions", "secrets.findings", "run.secret_gate", "run.executor"),
        *("values.report", "peers.observe", "git.remote"),
        "cli.render.report",
    }
    missing = [name for name in ours if importlib.util.find_spec(f"cn.{name}") is None]
    assert not missing, "the modules have these names"
    wrong = names & (outside | {f"cn.{name}" for name in ours})
    assert not wrong, wrong


def test_a_run_of_a_hub_without_an_agent_loads_nothing_of_the_agents(waiting: Node) -> None:
    waiting.triage("pi/proposal", "do:merge")
    agents = {
        "cn.agent.execute",
        "cn.agent.interface",
        "cn.agent.queue",
        "cn.agent.plan.ops",
        "cn.agent.plan.chat",
        "cn.protocol.ops",
    }
    assert not loaded(waiting, "inbox", "process") & agents


def test_a_thread_that_somebody_decided_is_read_with_what_that_needs(waiting: Node) -> None:
    waiting.triage("pi/proposal", "do:merge")
    assert {"cn.inbox.working_copies", "cn.run.secret_gate"} <= loaded(waiting, "status")
