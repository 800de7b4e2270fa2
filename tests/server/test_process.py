"""The server's process: one a hub, stopped and killed at any moment; what it answered is there, and clients go on."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from datetime import datetime, timedelta
from pathlib import Path

import httpx2
import pytest

from cn.agency.events import FileRead
from cn.agency.operations import CreateFile, CreateOutcome, GrantAccess, SendMail, Wanted, actor_of
from cn.agency.store.check import check_records
from cn.system.clock import now
from cn.values.errors import EXIT_CONFIG, EXIT_REFUSED
from tests.support.agency_server import Office, Server, open_office, serving, start_server, stop_server, uuid
from tests.support.hubs import ROOT, bare, cn, cn_env, git
from tests.support.mcp_clients import BRIDGE, connect, talk

_SECONDS = 120.0


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    """A hub that no other test uses."""
    cn("init", "office", cwd=tmp_path)
    made = open_office(tmp_path / "cn-office")
    yield made
    made.agency.store.close()


def test_there_is_one_server_and_it_ends_tidily(office: Office) -> None:
    with serving(office.root) as server:
        second = cn("agency", "serve", "--no-agents", hub=office.root, check=75)
        assert f"pid {server.process.pid}" in second.stderr
        assert stop_server(server) == 0
        assert not Path(server.socket).exists()
    health = json.loads((office.root / ".git/cn/agency/server.json").read_text())
    assert (health["state"], health["last_error"]) == ("stopped", None)


def test_where_no_watch_of_epoll_is_left_the_server_answers_and_commands_work(office: Office) -> None:
    """An agent may use up those of its user; poll(2) has no such limit."""
    without = [sys.executable, str(ROOT / "tests/support/no_epoll.py")]
    tries = "import selectors, socket; selectors.EpollSelector().register(socket.socket(), selectors.EVENT_READ)"
    tried = subprocess.run([*without, sys.executable, "-c", tries], capture_output=True, text=True, check=False)
    assert "No space left on device" in tried.stderr
    server = start_server(office.root, within=without)
    agent = office.lease()
    try:
        answer = httpx2.post(
            server.url,
            headers={"Authorization": f"Bearer {agent.token}", "Accept": "application/json, text/event-stream"},
            json={
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": "handlers_list", "arguments": {}},
            },
            timeout=_SECONDS,
        )
        assert answer.status_code == 200, answer.text
        base = [*without, sys.executable, "-P", "-m", "cn", "--hub", str(office.root)]
        for words in (
            ["agency", "status"],
            ["mail", "send", "root", "Hello", "--body", "x"],
            ["agency", "stop", "root"],
            ["sync"],
        ):
            done = subprocess.run([*base, *words], env=cn_env(), capture_output=True, text=True, check=False)
            assert done.returncode == 0, (words, done.stdout, done.stderr)
    finally:
        assert stop_server(server) == 0


def test_systemd_is_told_when_it_answers_and_when_it_stops(office: Office, tmp_path: Path) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        listener.settimeout(_SECONDS)
        with serving(office.root, env={"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "9000000"}):
            said = []
            while "WATCHDOG=1" not in said:
                said += listener.recv(4096).decode().split("\n")
            assert "READY=1" in said
        while "STOPPING=1" not in said:
            said += listener.recv(4096).decode().split("\n")


def test_a_client_goes_on_when_the_server_is_killed_and_started_again(office: Office, workspace: Path) -> None:
    agent = office.lease(office.handler("Goes on"))
    server = start_server(office.root)

    async def work() -> None:
        nonlocal server
        async with connect(server, agent.token, "bridge", workspace=workspace) as ask:
            first = await ask.do("kb_create", description="Before", content="1")
            server.process.kill()
            server.process.wait()
            asked = asyncio.ensure_future(ask.do("kb_create", description="Between", content="2"))
            await asyncio.sleep(0.3)
            server = await asyncio.to_thread(start_server, office.root)
            second = await asked
            assert (await ask.do("kb_read", file=first["file"]))["content"] == "1"
            assert (await ask.do("kb_read", file=second["file"]))["content"] == "2"

    try:
        talk(work)
    finally:
        stop_server(server)
    with office.agency.store.reading() as facts:
        names = [one.description for one in facts.files_like("Be", 0, 100) if one.kind == "file"]
    assert sorted(names) == ["Before", "Between"]


def test_a_token_from_before_a_restart_counts_over_the_socket_alone(office: Office, workspace: Path) -> None:
    """While no server runs anybody may listen at its port, and be told the tokens of agents that live on."""
    agent = office.lease(office.handler("Lives on"))
    with serving(office.root) as server:
        headers = {"Authorization": f"Bearer {agent.token}", "Content-Type": "application/json"}
        told = httpx2.post(server.url, json={}, headers=headers)
        assert told.status_code == 401
        assert "the token counts over the server's socket alone" in told.json()["error"]
        later = office.lease(office.handler("Begins now"))
        again = httpx2.post(server.url, json={}, headers={**headers, "Authorization": f"Bearer {later.token}"})
        assert again.status_code != 401

        async def work() -> None:
            async with connect(server, agent.token, "bridge", workspace=workspace) as ask:
                await ask.do("kb_list")

        talk(work)
        env = {"CN_AGENT_TOKEN": agent.token, "CN_MCP_URL": server.url}
        line = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'
        done = subprocess.run(
            BRIDGE, input=line, env=cn_env(env), cwd=workspace, capture_output=True, text=True, check=True
        )
        assert "the server was started anew since this token was given" in done.stdout
        assert "so end" in done.stdout


@pytest.mark.parametrize("kills", [3, pytest.param(25, marks=pytest.mark.full)])
def test_whenever_it_is_killed_what_it_answered_is_there_once(office: Office, kills: int, workspace: Path) -> None:
    """Several agents write without a pause; each call has a name, and is repeated until it is answered."""
    agents = [office.lease(office.handler(f"Writer {number}")) for number in range(4)]
    answered: dict[str, str] = {}
    stop = threading.Event()
    server = start_server(office.root)

    async def write(number: int) -> None:
        count = 0
        async with connect(server, agents[number].token, "bridge", workspace=workspace) as ask:
            while not stop.is_set():
                name = f"{number}-{count}"
                done = await ask("kb_create", description=f"File {name}", content=name, request_id=name)
                assert not done.refused, done
                answered[name] = done.value["file"]
                count += 1

    async def work() -> None:
        nonlocal server
        writers = [asyncio.ensure_future(write(number)) for number in range(len(agents))]
        try:
            for kill in range(kills):
                before = len(answered)
                while len(answered) < before + 3 + kill % 4:
                    await asyncio.sleep(0.003 * (kill % 7))
                    for writer in writers:
                        assert not writer.done() or writer.result()
                os.kill(server.process.pid, signal.SIGKILL)
                server.process.wait()
                server = await asyncio.to_thread(start_server, office.root)
        finally:
            stop.set()
            await asyncio.gather(*writers)

    async def bounded() -> None:
        await asyncio.wait_for(work(), 240 + 20 * kills)

    try:
        asyncio.run(bounded())
    finally:
        stop_server(server)
    with office.agency.store.reading() as facts:
        rows = [one for one in facts.files_like("File", 0, 100_000) if one.kind == "file"]
    found = {row.description.removeprefix("File "): row.id for row in rows}
    assert len(found) == len(rows), "nothing was done twice"
    assert found == answered, "all that was answered is there, and what is there was answered"
    flaws = check_records(office.agency.store.repository, now(), full=True)
    assert [flaw for flaw in flaws if flaw.serious] == []


def test_what_is_due_is_delivered_and_what_was_written_beside_it_is_seen(office: Office) -> None:
    handler = office.handler("Waits for mail")
    agent = office.lease(handler)
    with serving(office.root) as server:

        async def work() -> None:
            async with connect(server, agent.token, "socket") as ask:
                office.do(SendMail(handler, text="By hand, beside the server"))
                office.do(SendMail(handler, text="In a moment", due=_soon()))
                for _ in range(200):
                    waiting = (await ask.do("mail_inbox"))["mail"]
                    if len(waiting) == 2:
                        return
                    await asyncio.sleep(0.1)
                raise AssertionError(waiting)

        talk(work)


def _soon() -> datetime:
    return now() + timedelta(seconds=2)


def test_an_agent_is_told_that_it_needs_other_settings(office: Office, tmp_path: Path) -> None:
    config = tmp_path / "agency.toml"
    config.write_text('[servers.browser]\nargv = ["browser-mcp"]\ndirect = true\n')
    git(office.root, "config", "cn.agency", str(config))
    handler = office.handler("Browses")
    agent = office.lease(handler)
    time.sleep(1.1)  # times of events have whole seconds
    with serving(office.root) as server:
        office.do(GrantAccess(handler, Wanted("mcp:browser", "use")))

        async def work() -> None:
            async with connect(server, agent.token, "socket") as ask:
                assert not [tool for tool in (await ask.client.list_tools()).tools if "__" in tool.name]
                for _ in range(200):
                    if waiting := (await ask.do("mail_inbox"))["mail"]:
                        break
                    await asyncio.sleep(0.1)
                assert [one["subject"] for one in waiting] == ["Servers beside you"]
                assert "given: browser" in (await ask.do("kb_read", file=waiting[0]["file"]))["content"]

        talk(work)


def test_the_copy_follows_the_writes(office: Office, tmp_path: Path) -> None:
    copy = bare(tmp_path / "copy.git")
    git(office.root, "config", "agency.remote", str(copy))
    agent = office.lease(office.handler("Is copied"))
    with serving(office.root) as server:

        async def work() -> None:
            async with connect(server, agent.token, "socket") as ask:
                await ask.do("kb_create", description="Copied", content="1")

        talk(work)
        records = office.root / ".git/cn/agency.git"
        deadline = time.monotonic() + _SECONDS
        tip = ("for-each-ref", "--format=%(objectname)", "refs/heads/main")  # there may be none yet
        while git(copy, *tip) != git(records, *tip):
            assert time.monotonic() < deadline
            time.sleep(0.1)


_WITH_SPAWNER = """
import sys
from pathlib import Path
from cn.agency.agency import open_agency
from cn.agency.names import parse_uuid
from cn.agency.operations import BySystem, LeaseAgent
from cn.agency.tokens import hash_token
from cn.git.repository import open_hub
from cn.server.machine_tools import Settings
from cn.server.places import places_of
from cn.server.serve import Plan, serve
from cn.server.tools import BASE

said = open(sys.argv[2], "a", buffering=1)

class Spawner:
    def __init__(self, agency, perform, reach):
        self.agency, self.perform, self.reach, self.steps = agency, perform, reach, 0
        print("made", reach.socket, reach.url, file=said)
    async def step(self, now):
        self.steps += 1
        if self.steps == 1:
            with self.agency.store.reading() as facts:
                root = facts.head().root
            agent = parse_uuid("11111111-1111-4111-8111-111111111111")
            answer = await self.perform(LeaseAgent(agent, root, hash_token("known")), BySystem())
            print("leased", answer.answer["agent"], file=said)
        if self.steps == 3:
            raise OSError("the disk of a spawner is full")
    def heard(self, agent, call="", now=0.0):
        print("heard", agent, call.split()[0], file=said)
    def flooded(self, agent, why):
        print("flooded", agent, why, file=said)
    async def close(self):
        print("closed", file=said)

hub = open_hub(Path(sys.argv[1]))
sys.exit(serve(open_agency(hub), places_of(hub), Plan(Settings(Path("agency.toml")), BASE, Spawner)))
"""


def test_a_spawner_leases_through_it_is_stepped_hears_calls_and_is_closed(office: Office, tmp_path: Path) -> None:
    script, said = tmp_path / "serve.py", tmp_path / "said"
    script.write_text(_WITH_SPAWNER)
    health = office.root / ".git/cn/agency/server.json"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, script, office.root, said], env=env, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + _SECONDS
        while not said.exists() or "leased" not in said.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        server = Server(process, json.loads(health.read_text()))

        async def work() -> None:
            async with connect(server, "known") as ask:
                for _ in range(4):  # each write steps it, also after a step that failed
                    await ask.do("audit_submit", text="here")
                    await asyncio.sleep(0.1)

        talk(work)
    finally:
        assert stop_server(Server(process, {})) == 0
    lines = said.read_text().split("\n")
    assert lines[0] == f"made {server.socket} {server.url}"
    assert lines.count("heard 11111111-1111-4111-8111-111111111111 audit_submit") == 4
    assert lines[-2] == "closed"
    assert "the disk of a spawner is full" in json.loads(health.read_text())["last_error"]["text"]


def test_clients_that_read_and_write_at_once_share_commits(office: Office) -> None:
    top = office.handler("Top")
    plan = uuid(office.do(CreateFile("The plan", b"Begin with the start page."))["file"])
    grants = (Wanted(f"kb:{plan}", "read"),)
    agents = [office.lease(office.handler(f"One {number}", top, grants)) for number in range(16)]
    records = office.root / ".git/cn/agency.git"

    def commits() -> int:
        return int(git(records, "rev-list", "--count", "main"))

    with serving(office.root) as server:

        async def work() -> None:
            async with AsyncExitStack() as stack:
                asks = [await stack.enter_async_context(connect(server, one.token, "socket")) for one in agents]

                async def both(number: int, title: str) -> None:
                    await asks[number].do("outcome_create", title=title, parents=[agents[number].principal.handler])
                    assert (await asks[number].do("kb_read", file=plan))["content"] == "Begin with the start page."

                before = commits()
                with office.agency.store.repository.lock.held(_SECONDS):  # whoever asks meanwhile waits for one write
                    waiting = [asyncio.ensure_future(both(number, "first")) for number in range(len(agents))]
                    await asyncio.sleep(1)
                await asyncio.gather(*waiting)
                assert commits() - before < 2 * len(agents)
                await asyncio.gather(*(both(number, f"{n}") for n in range(3) for number in range(len(agents))))

        talk(work)
    with office.agency.store.reading() as facts:
        counts = [facts.count_open(one.principal.handler) for one in agents]
        readers = [event.actor for event in facts.history(plan, 2**53, 100) if isinstance(event.change, FileRead)]
    assert counts == [5] * 16
    assert Counter(readers) == {actor_of(one.principal): 4 for one in agents}
    assert uuid(office.do(CreateOutcome("Still", "", (top,)))["outcome"])


def test_the_unit_is_one_that_systemd_takes_and_agents_outlive_its_stop(tmp_path: Path) -> None:
    text = (ROOT / "cron/cn-agency.service").read_text()
    settings = dict(row.split("=", 1) for row in text.splitlines() if "=" in row and row[0] != "#")
    assert (settings["Type"], settings["KillMode"]) == ("notify", "process")
    assert settings["RestartPreventExitStatus"] == str(EXIT_CONFIG)
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is missing")
    unit = tmp_path / "cn-agency@home-ann-hub.service"
    unit.write_text(text.replace("%h/.local/bin/cn", "/bin/true"))
    env = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)}
    command = [program, "verify", "--user", str(unit)]
    done = subprocess.run(command, env=env, capture_output=True, encoding="utf-8", check=False)
    if "cn-agency" not in done.stderr and done.returncode:
        pytest.skip(f"systemd-analyze does not work here: {done.stderr}")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_configuration_that_makes_no_sense_ends_it_for_good(office: Office) -> None:
    (office.root / "agency.toml").write_text("[runners.x]\nargv = 'sh'\n")
    git(office.root, "config", "cn.agency", str(office.root / "agency.toml"))
    ended = cn("agency", "serve", hub=office.root, check=EXIT_CONFIG)
    assert "runners.x.argv" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_server_whose_hub_was_moved_says_so_does_nothing_and_ends(office: Office, workspace: Path) -> None:
    agent = office.lease(office.handler("Goes on"))
    server = start_server(office.root)
    try:
        headers = {"Authorization": f"Bearer {agent.token}", "Content-Type": "application/json"}
        os.kill(server.process.pid, signal.SIGSTOP)  # the call comes before it looks by itself
        moved = office.root.rename(office.root.with_name("moved"))
        waiting = threading.Timer(0.2, os.kill, (server.process.pid, signal.SIGCONT))
        waiting.start()
        with suppress(httpx2.HTTPError):  # it may have ended before
            told = httpx2.post(server.url, json={}, headers=headers, timeout=_SECONDS)
            assert (told.status_code, "moved or removed" in told.json()["error"]) == (503, True)
        waiting.join()
        assert server.process.wait(_SECONDS) == EXIT_REFUSED
    finally:
        server.process.kill()
        server.process.wait()
    log = (office.root.parent / "server.log").read_text()
    assert f"{office.root} was moved or removed while this server ran" in log
    assert "Traceback" not in log
    assert not office.root.exists()
    assert "server: none runs" in cn("agency", "status", hub=moved).stdout
    with serving(moved) as again:
        assert again.health["state"] == "running"
