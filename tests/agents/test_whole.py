"""The whole of it as processes: server, launchers, wraps, bridges; killed, started anew, elsewhere."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from cn.agency.events import ResourceUsed
from cn.agency.operations import CompleteOutcome, GrantAccess, SendMail, StopHandler, Wanted
from cn.agency.store.look import last_events
from cn.agents.processes import read_launcher
from tests.support.firm import Firm, all_processes, firm
from tests.support.hubs import ROOT, git
from tests.support.servers import serve, ssh_server
from tests.support.wraps import WRAPS, guard

BRIDGE = ROOT / "tests/support/bridge_calls.py"


def program(name: str, script: str, more: str) -> str:
    """A runner that is a Python program of the tests' own, which calls tools through the bridge."""
    head = f"exec(open({str(BRIDGE)!r}).read())\n"
    argv = json.dumps([sys.executable, "-c", head + script])
    return f"[runners.{name}]\nargv = {argv}\nenv = ['PYTHONPATH']\nvisible = ['{BRIDGE}']\n{more}\n"


def said(made: Firm, handler: str) -> list[dict[str, Any]]:
    """What a handler's agents wrote, oldest first."""
    from cn.agency.events import AgentLeased

    mine = [one.agent for one in made.changes() if isinstance(one, AgentLeased) and one.handler == handler]
    found = made.kept("output")
    return [json.loads(line) for id in mine for line in found.get(id, "").splitlines()]


WORK = """
import os, socket, subprocess
from pathlib import Path
def can(act, path):
    try:
        act(path)
    except OSError:
        return False
    return True
user = can(lambda path: socket.socket(socket.AF_UNIX).connect(path), os.environ["USER_SOCKET"])
say(env=sorted(os.environ), hub=can(os.listdir, os.environ["HUB"]), user=user)
agent = Agent()
made = agent.call("repo_clone", repo="site")
say(clone=made)
site = made["path"]
me = ("-c", "user.name=a", "-c", "user.email=a@b")
run = lambda *words: subprocess.run(["git", "-C", site, *me, *words], check=True)
run("checkout", "--quiet", "-b", "work")
Path(site, "page.md").write_text("by an agent\\n")
run("commit", "--quiet", "-am", "Second")
run("bundle", "create", "--quiet", "work.bundle", "origin/HEAD..work")
mine = os.environ["CN_HANDLER"][:8]
say(refused=agent.call("repo_push", repo="site", branch="main", path=f"{site}/work.bundle"))
say(pushed=agent.call("repo_push", repo="site", branch=f"{mine}/page", path=f"{site}/work.bundle"))
say(ready=True)
while not agent.call("mail_inbox").get("mail"):
    import time; time.sleep(0.1)
say(heard=True)
agent.call("outcome_block", outcome=os.environ["CN_HANDLER"], reason="done")
"""


@pytest.mark.parametrize("wrap", WRAPS)
def test_a_wrapped_agent_works_with_repositories_and_finds_a_server_that_was_started_anew(
    tmp_path: Path, wrap: str
) -> None:
    with serve("path", tmp_path / "served", tmp_path / "scratch") as remote:
        url = remote.repo("site")
        git(remote.path("site"), "symbolic-ref", "HEAD", "refs/heads/main")
        git(tmp_path, "init", "--quiet", "-b", "main", "work")
        (tmp_path / "work/page.md").write_text("one\n")
        git(tmp_path / "work", "add", ".")
        git(tmp_path / "work", "commit", "--quiet", "-m", "First")
        git(tmp_path / "work", "push", "--quiet", url, "main")
        machine = program("coder", WORK, guard(wrap) + "\nset = {HUB = '%s', USER_SOCKET = '%s'}")
        machine += f"[repos]\nsite = '{url}'\n"
        hub = tmp_path / "cn-firm/.git"
        with firm(tmp_path, {}, machine.replace("%s", str(hub), 1).replace("%s", "/none")) as made:
            assert made.server
            user_socket = str(made.server.health["user_socket"])
            made.stop()
            made.config.write_text(made.config.read_text().replace("/none", user_socket))
            made.start()
            handler = made.handler("Change the page", "coder", (Wanted("repo:site", "push"),))
            made.until(lambda: any("ready" in one for one in said(made, handler)))
            told = {key: value for one in said(made, handler) for key, value in one.items()}
            assert (told["hub"], told["user"]) == (False, False)
            assert told["clone"] == {"repo": "site", "path": "site", "url": url}
            assert told["refused"]["rule"] == "repo-branch"
            assert git(remote.path("site"), "log", "-1", "--format=%s", f"{handler[:8]}/page") == "Second"
            commit = git(remote.path("site"), "rev-parse", f"{handler[:8]}/page")
            with made.office.agency.store.reading() as facts:
                used = last_events(facts, lambda event: isinstance(event.change, ResourceUsed), None, "")
            assert [(one.change.level, one.change.what) for one in used] == [  # type: ignore[union-attr]
                ("clone", "clones it"), ("push", f"pushes {commit} to {handler[:8]}/page"),
            ]  # fmt: skip
            agents = made.live()
            made.stop()
            made.start()
            made.do(SendMail(handler, text="Go on."))
            made.until(lambda: any("heard" in one for one in said(made, handler)))
            made.until(lambda: made.ends(handler))
            assert agents == [one for one in agents if one not in made.live()]
            assert made.ends(handler) == ["it ended"]


WAITS = """
agent = Agent()
say(up=True)
while True:
    import time; time.sleep(0.2)
    agent.call("kb_browse", words=str(time.time()))
"""


def test_a_server_killed_with_ten_live_agents_finds_them_again_and_starts_no_second_one(tmp_path: Path) -> None:
    with firm(tmp_path, {}, program("one", WAITS, "unguarded = true")) as made:
        git(made.root, "config", "agency.agents", "10")
        made.stop()
        made.start()
        handlers = [made.handler(f"Outcome {number}", "one") for number in range(10)]
        made.until(lambda: all(any("up" in one for one in said(made, handler)) for handler in handlers))
        before = sorted(made.live())
        assert len(before) == 10
        made.kill()
        (folder,) = (path for path in made.state.glob("cn/agency/*/live/*") if path.name == before[0])
        launcher = read_launcher(folder)
        assert launcher
        os.kill(launcher.pid, signal.SIGKILL)  # one of them dies while no server looks
        made.start()
        made.until(lambda: sorted(made.live()) != before and len(made.live()) == 10)
        assert len(set(before) & set(made.live())) == 9
        assert [why for handler in handlers for why in made.ends(handler)] == ["its launcher was killed"]
        launchers = [words for _, words, _ in all_processes() if any("agents/launcher.py" in w for w in words)]
        mine = [words for words in launchers if any(str(made.state) in word for word in words)]
        assert len(mine) <= 20  # each has two halves
        for handler in handlers:
            made.do(StopHandler(handler))
        made.until(lambda: not made.processes(), "an agent is left")


FAR = """
agent = Agent()
(root,) = [os.environ["CN_HANDLER"]]
say(names=sorted(name for name in os.environ if name.startswith("CN_")))
agent.call("outcome_block", outcome=root, reason="done from afar")
"""


def test_an_agent_may_be_started_elsewhere_by_ssh(tmp_path: Path) -> None:
    """It needs the token and the URL, which come over the connection; nothing shares a disk, and no argument tells."""
    with ssh_server(tmp_path, tmp_path / "scratch") as remote:
        words = shlex.split(remote.env["GIT_SSH_COMMAND"])
        port, user = re.search(r":(\d+)/", remote.base), re.search(r"//(.*)@", remote.base)
        assert port
        assert user
        script = tmp_path / "far.py"
        script.write_text(f"import os\nexec(open({str(BRIDGE)!r}).read())\n{FAR}")
        far = f". /dev/stdin; unset CN_MCP_SOCKET; PYTHONPATH={ROOT} exec {sys.executable} {script}"
        argv = json.dumps([*words, "-p", port[1], f"{user[1]}@127.0.0.1", far])
        machine = f"[runners.far]\nargv = {argv}\ninput = '{{environment}}'\nshell = false\n"
        with firm(tmp_path, {}, machine) as made:
            handler = made.handler("Do it elsewhere", "far")
            made.until(lambda: made.ends(handler))
            assert made.outcome(handler).blocked == "done from afar", made.story()
            assert "CN_AGENT_TOKEN" in said(made, handler)[0]["names"]
            made.do(CompleteOutcome(handler))


def test_agents_that_end_at_once_are_three_and_then_their_handler_pauses(tmp_path: Path) -> None:
    machine = "[runners.one]\nargv = ['true']\nshell = false\n[agents]\npause = 60000\n"
    with firm(tmp_path, {}, machine) as made:
        handler = made.handler("Do it", "one", message="Begin.")
        health = made.root / ".git/cn/agency/server.json"
        made.until(lambda: "pauses until" in json.loads(health.read_text())["problems"].get(handler, ""))
        other = made.handler("Do another thing", "one")
        made.until(lambda: len(made.ends(other)) == 3)
        assert made.ends(handler) == ["it ended"] * 3
        made.do(SendMail(handler, text="Again, please."))
        made.until(lambda: len(made.ends(handler)) == 4)


def test_what_this_machine_lacks_is_in_the_servers_health_file(tmp_path: Path) -> None:
    with firm(tmp_path, {}, "[runners.bare]\nargv = ['sh']\n") as made:
        handler = made.handler("Do it", "bare")
        health = made.root / ".git/cn/agency/server.json"
        made.until(lambda: handler in json.loads(health.read_text())["problems"])
        assert "can run programs" in json.loads(health.read_text())["problems"][handler]
        assert f"no agent for handler {handler}" in (tmp_path / "server.log").read_text()
        assert made.live() == []


def test_a_server_that_runs_beside_an_agent_stands_in_its_configuration(tmp_path: Path) -> None:
    shows = "[runners.one]\nargv = ['cat', '{mcp_config}']\nshell = false\n"
    other = "[servers.browser]\nargv = ['browser-mcp', '--quiet']\ndirect = true\n"
    with firm(tmp_path, {}, shows + other) as made:
        handler = made.handler("Browse", "one", (Wanted("mcp:browser", "use"),))
        made.until(lambda: made.ends(handler))
        servers = json.loads(next(iter(made.kept("output").values())))["mcpServers"]
        assert sorted(servers) == ["browser", "cn"]
        assert servers["browser"]["command"] == "browser-mcp"
        made.do(StopHandler(handler))


NEEDS_ANOTHER_START = """
import time
servers = sorted(json.load(open(sys.argv[1]))["mcpServers"])
say(servers=servers)
agent = Agent()
if "browser" in servers:
    agent.call("outcome_block", outcome=os.environ["CN_HANDLER"], reason=agent.call("state_read")["content"])
    sys.exit()
while not (mail := [one for one in agent.call("mail_inbox")["mail"] if one["subject"] == "Servers beside you"]):
    time.sleep(0.1)
say(told=agent.call("kb_read", file=mail[0]["file"])["content"])
agent.call("state_write", content="half the page is read")
agent.call("mail_done", mail=[mail[0]["mail"]])
"""


def test_an_agent_that_is_told_of_a_new_server_saves_its_state_and_the_next_one_has_it(tmp_path: Path) -> None:
    script = f"exec(open({str(BRIDGE)!r}).read())\n{NEEDS_ANOTHER_START}"
    argv = json.dumps([sys.executable, "-c", script, "{mcp_config}"])
    machine = f"[runners.one]\nargv = {argv}\nenv = ['PYTHONPATH']\nunguarded = true\n"
    machine += "[servers.browser]\nargv = ['browser-mcp', '--quiet']\ndirect = true\n"
    with firm(tmp_path, {}, machine) as made:
        handler = made.handler("Browse", "one")
        made.until(lambda: said(made, handler))
        made.do(GrantAccess(handler, Wanted("mcp:browser", "use")))
        made.until(lambda: len(made.ends(handler)) == 2)
        assert made.ends(handler) == ["it ended", "it ended"]
        first, told, second = said(made, handler)
        assert (first["servers"], second["servers"]) == (["cn"], ["browser", "cn"])
        assert "Save where you are in the state document" in told["told"]
        assert made.outcome(handler).blocked == "half the page is read"
