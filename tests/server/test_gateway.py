"""Other servers behind ours: granted and revoked while an agent lives, called by name, no secret of theirs seen."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cn.agency.operations import GrantAccess, RevokeAccess, Wanted
from tests.support.agency_server import Office, Server, serving, uuid
from tests.support.hubs import ROOT, cn, git
from tests.support.mcp_clients import Agent, connect, talk
from tests.support.servers import free_port

SECRET = "Tr0ub4dor-and-3-horses"
OTHER = ROOT / "tests/support/other_server.py"
_SECONDS = 120.0


@pytest.fixture(scope="module")
def server(office: Office, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server behind it is started, one reached by a URL, one cannot be started."""
    folder = tmp_path_factory.mktemp("config")
    port = free_port()
    remote = subprocess.Popen([sys.executable, OTHER, str(port)], env=_env(), stderr=subprocess.DEVNULL)
    (folder / "key").write_text(f"{SECRET}\n")
    (folder / "agency.toml").write_text(f"""
[secrets]
key = {{command = ["sh", "-c", "echo asked >> {folder}/asked; cat {folder}/key"]}}
word = {{env = "OTHER_WORD"}}

[servers.mailer]
argv = ["{sys.executable}", "{OTHER}"]
env = {{OTHER_SECRET = "{{secret:key}}", PYTHONPATH = "{ROOT}"}}
seconds = 2

[servers.remote]
url = "http://127.0.0.1:{port}/mcp"
headers = {{Authorization = "Bearer {{secret:key}}"}}

[servers.broken]
argv = ["{folder}/nothing"]
""")
    config = folder / "agency.toml"
    cn("--hub", str(office.root), "status")
    subprocess.run(["git", "-C", office.root, "config", "cn.agency", config], check=True)
    with serving(office.root, env={"OTHER_WORD": "abracadabra"}) as started:
        _wait_for_servers(office.root)
        yield started
    remote.kill()
    remote.wait()


def _env() -> dict[str, str]:
    return {**os.environ, "OTHER_SECRET": SECRET, "PYTHONPATH": str(ROOT)}


def _states(root: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((root / ".git/cn/agency/server.json").read_text())["servers"]
    return found


def _wait_for_servers(root: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while not {"mailer", "remote"} <= {name for name, state in _states(root).items() if state == "ready"}:
        assert time.monotonic() < deadline, _states(root)
        time.sleep(0.1)


def _grant(office: Office, handler: str, resource: str) -> str:
    """By the user."""
    return str(office.do(GrantAccess(uuid(handler), Wanted(resource, "use")))["grants"][0])


async def _names(ask: Agent) -> set[str]:
    """The tools of other servers that are listed now."""
    listed = await ask.client.list_tools(cache_mode="bypass")
    return {tool.name for tool in listed.tools if "__" in tool.name}


@pytest.mark.parametrize("name", ["mailer", "remote"])
def test_a_grant_shows_and_opens_tools_at_once_and_its_end_closes_them(
    office: Office, server: Server, name: str, workspace: Path
) -> None:
    handler = office.handler(f"Uses {name}")
    agent = office.lease(handler)

    async def work() -> None:
        async with connect(server, agent.token, "bridge", workspace=workspace) as ask:
            assert await _names(ask) == set()
            assert (await ask.no("mcp_call", server=name, tool="tell"))["rule"] == "access"
            assert (await ask.no(f"{name}__tell"))["ask"] == office.head
            grant = _grant(office, handler, f"mcp:{name}")
            told = (await ask.do("mcp_call", server=name, tool="tell", arguments={"words": "So"}))["content"]
            assert told[0]["text"].startswith("So my secret is ***")
            assert f"{name}__send" in await _names(ask)
            sent = await ask.do(f"{name}__send", to="ann", text="Hello")
            assert (sent["to"], sent["key"]) == ("ann", "***")
            log = cn("--hub", str(office.root), "agency", "log", "--by", handler, "--type", "resource_used", "--json")
            used = [(one["actor"], one["grant"], one["what"]) for one in json.loads(log.stdout)]
            assert used == [(f"{handler}/{agent.principal.agent}", grant, f"calls {tool}") for tool in ("tell", "send")]
            rows = (await ask.do("mcp_tools"))["tools"]
            assert {row["server"] for row in rows} == {name}
            assert {row["tool"] for row in rows} >= {"tell", "send", "fail"}
            office.do(RevokeAccess(uuid(grant)))
            assert (await ask.no("mcp_call", server=name, tool="tell"))["rule"] == "access"
            assert await _names(ask) == set()

    talk(work)


def test_the_client_is_told_that_there_are_other_tools(office: Office, server: Server, workspace: Path) -> None:
    handler = office.handler("Is told")
    agent = office.lease(handler)

    async def work() -> None:
        async with connect(server, agent.token, "bridge", "legacy", workspace) as ask:
            before = await ask.client.list_tools()
            _grant(office, handler, "mcp:mailer")
            await ask.do("mail_inbox")
            for _ in range(200):  # the client lists again by itself once it has heard
                after = await ask.client.list_tools()
                if len(after.tools) > len(before.tools):
                    return
                await asyncio.sleep(0.05)
            raise AssertionError("nothing was heard")

    talk(work)


def test_what_other_servers_do_is_told_as_it_is(office: Office, server: Server) -> None:
    handler = office.handler("Sees it fail")
    _grant(office, handler, "mcp:mailer")
    _grant(office, handler, "mcp:broken")
    agent = office.lease(handler)

    async def work() -> None:
        async with connect(server, agent.token) as ask:
            failed = await ask.do("mcp_call", server="mailer", tool="fail")
            assert failed["failed"]
            assert "the key *** was refused" in json.dumps(failed)
            assert (await ask.client.call_tool("mailer__fail", {})).is_error
            assert "no tool 'nothing'" in (await ask.no("mcp_call", server="mailer", tool="nothing"))["reason"]
            late = await ask.no("mcp_call", server="mailer", tool="wait", arguments={"seconds": 20})
            assert "no answer within 2 s" in late["reason"]
            assert "look, before you ask again" in late["remedy"]
            long = await ask("mcp_call", server="mailer", tool="long", arguments={"size": 200_000})
            assert len(str(long)) < 64 << 10
            assert "cut: ask for less" in json.dumps(long.value)
            broken = await ask.no("mcp_call", server="broken", tool="tell")
            assert broken["rule"] == "unavailable"

    talk(work)


def test_a_server_that_dies_in_a_call_is_started_again_with_its_secret_which_is_asked_for_once(
    office: Office, server: Server
) -> None:
    handler = office.handler("Sees it die")
    _grant(office, handler, "mcp:mailer")
    agent = office.lease(handler)

    async def work() -> None:
        async with connect(server, agent.token) as ask:
            old = await _send_when_ready(ask)
            died = await ask.no("mcp_call", server="mailer", tool="die")
            assert died["rule"] == "unavailable"
            assert await _send_when_ready(ask) != old
            told = await ask.do("mcp_call", server="mailer", tool="tell")
            assert told["content"][0]["text"].startswith(" my secret is ***")

    talk(work)
    config = Path(git(office.root, "config", "cn.agency"))
    assert (config.parent / "asked").read_text() == "asked\n"


async def _send_when_ready(ask: Agent) -> str:
    """The process that answers."""
    for _ in range(300):
        answer = await ask("mcp_call", server="mailer", tool="send", arguments={"to": "a", "text": "b"})
        if not answer.refused:
            return str(answer.value["value"]["pid"])
        await asyncio.sleep(0.1)
    raise AssertionError(answer)


def test_no_secret_is_in_anything_that_is_kept_said_or_shown(office: Office, server: Server) -> None:
    handler = office.handler("Looks for secrets")
    for name in ("mailer", "remote"):
        _grant(office, handler, f"mcp:{name}")
    agent = office.lease(handler)
    seen: list[Any] = []

    async def work() -> None:
        async with connect(server, agent.token) as ask:
            for name in ("mailer", "remote"):
                seen.append(await ask("mcp_call", server=name, tool="tell"))
                seen.append(await ask("mcp_call", server=name, tool="fail"))
            seen.append(await ask("mcp_tools"))
            seen.append(str((await ask.client.list_tools()).model_dump()))

    talk(work)
    log = office.root.parent / "server.log"
    texts = [str(seen), log.read_text(), (office.root / ".git/cn/agency/server.json").read_text()]
    assert "I begin with ***" in texts[1]
    assert "I break *** │ here" in texts[1]
    for form in (SECRET, SECRET[10:], base64.b64encode(SECRET.encode()).decode()):
        for text in texts:
            assert form[:8] not in text  # nor where it was cut
        for path in office.root.rglob("*"):
            if path.is_file():
                assert form.encode() not in path.read_bytes()
    everything = subprocess.run(
        ["git", "-C", office.root / ".git/cn/agency.git", "log", "-p", "--all"], capture_output=True, check=True
    ).stdout
    assert SECRET.encode() not in everything


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_server_cannot_be_dumped_and_children_inherit_no_secret(server: Server) -> None:
    limits = Path(f"/proc/{server.process.pid}/limits").read_text()
    (core,) = [line.split() for line in limits.splitlines() if line.startswith("Max core file size")]
    assert core[4:6] == ["0", "0"]
    assert Path(f"/proc/{server.process.pid}/environ").stat().st_uid == 0
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    environments = [Path(f"/proc/{child}/environ").read_bytes() for child in children]
    assert environments
    assert not any(b"abracadabra" in one for one in environments)
