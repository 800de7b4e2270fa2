"""Server, launchers, bridges and agents are killed at any instant: afterwards there is at most one agent a handler, all
that was answered is there, once, and no process is left.

An agent writes down what it was answered. A monkey kills what it finds, one after the other, from a fixed seed; a
server that was killed is started again, as systemd does. ``make test`` has a slice of the kills.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from cn.agency.events import AgentEnded, AgentLeased, FileCreated
from cn.agency.operations import StopHandler
from cn.agency.store.check import check_records
from cn.system.clock import now
from tests.support.figures import observed
from tests.support.firm import Firm, all_processes, firm
from tests.support.hubs import ROOT, git

BRIDGE = ROOT / "tests/support/bridge_calls.py"
AGENT = """
import os, time
log = open(os.path.join({log!r}, os.environ["CN_AGENT_ID"]), "a", buffering=1)
agent = Agent()
number = 0
while True:
    number += 1
    name = os.environ["CN_AGENT_ID"] + f" {{number}}"
    made = agent.call("kb_create", description=name, content=name, request_id=str(number))
    if "file" in made:
        print(made["file"], name, file=log)
    if number == {life}:
        agent.call("audit_submit", text=f"I made {{number}} files.")
        break
"""
HANDLERS = 3


def machine(folder: Path, life: int) -> str:
    """A runner whose agents make files until they have made ``life`` of them."""
    script = f"exec(open({str(BRIDGE)!r}).read())\n" + AGENT.format(log=str(folder), life=life)
    argv = json.dumps([sys.executable, "-c", script])
    return f"[agents]\npause = 0\ngrace = 1\n[runners.one]\nargv = {argv}\nenv = ['PYTHONPATH']\nunguarded = true\n"


def victims(made: Firm, kind: str) -> list[int]:
    """Processes of a kind."""
    agents = {one.agent for one in made.changes() if isinstance(one, AgentLeased)}
    found = []
    for pid, words, env in all_processes():
        line = " ".join(words)
        launcher = "agents/launcher.py" in line and str(made.state) in line
        ours = env.get("CN_AGENT_ID") in agents
        bridge = ours and "cn.bridge" in line
        kinds = {"launcher": launcher, "bridge": bridge, "agent": ours and not bridge and not launcher}
        found += [pid] if kinds.get(kind) else []
    return found


def strike(made: Firm, kind: str) -> None:
    """Kill one of a kind, or the server, which is started again."""
    if kind == "server":
        made.kill()
        time.sleep(random.uniform(0, 0.05))
        made.start()
        return
    found = victims(made, kind)
    if found:
        try:
            os.kill(random.choice(found), signal.SIGKILL)
        except ProcessLookupError:
            return


@pytest.mark.parametrize("kills", [12, pytest.param(150, marks=pytest.mark.full)])
def test_whatever_is_killed_nothing_is_lost_doubled_or_left(tmp_path: Path, kills: int) -> None:
    random.seed(20261124 + kills)
    log = tmp_path / "log"
    log.mkdir()
    with firm(tmp_path, {}, machine(log, 25)) as made:
        handlers = [made.handler(f"Outcome {number}", "one") for number in range(HANDLERS)]
        kinds = ["agent", "bridge", "launcher", "server"]
        for number in range(kills):
            made.until(lambda: made.live())
            time.sleep(random.uniform(0, 0.3))
            strike(made, kinds[number % 4])
            assert len(made.live()) <= HANDLERS  # and one for each handler: see Firm.live
        made.until(lambda: len(made.live()) == HANDLERS, "each handler has an agent again")
        for handler in handlers:
            made.do(StopHandler(handler))
        made.until(lambda: not made.processes(), "a process is left")
        changes = made.changes()
        files = {one.file: one.description for one in changes if isinstance(one, FileCreated)}
        answered = [line.split(" ", 1) for path in log.iterdir() for line in path.read_text().splitlines()]
        assert answered
        assert [line for line in answered if files.get(line[0]) != line[1]] == [], "answered, and lost"  # type: ignore[call-overload]
        own = Counter(name for name in files.values() if name.partition(" ")[2].isdigit())
        assert own
        assert [name for name, count in own.items() if count > 1] == [], "done twice"
        leases = [one.agent for one in changes if isinstance(one, AgentLeased)]
        ends = [one.agent for one in changes if isinstance(one, AgentEnded)]
        assert sorted(leases) == sorted(ends), "each lease ends once"
        assert list(check_records(made.office.agency.store.repository, now(), full=True)) == []
        made.until(lambda: not list(made.state.glob("cn/agency/*/live/*")), "a folder is left")
        observed(
            "agents", "killed", kills=kills, answered=len(answered), agents=len(leases), lost=0, doubled=0, orphans=0
        )


def test_two_servers_of_one_hub_never_run(tmp_path: Path) -> None:
    """Who comes second says so, and starts nobody."""
    import subprocess

    with firm(tmp_path, {}, machine(tmp_path, 10**6)) as made:
        handler = made.handler("Outcome", "one")
        made.until(lambda: made.live())
        command = [sys.executable, "-P", "-m", "cn", "--hub", str(made.root), "agency", "serve"]
        second = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
        assert second.returncode != 0
        assert "runs already" in second.stderr
        assert len(made.live()) == 1
        made.do(StopHandler(handler))
        assert git(made.root, "config", "cn.agency") == str(made.config)
