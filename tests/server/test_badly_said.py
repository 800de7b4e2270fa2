"""What another server says badly, or in other ways than as a text, shows no secret: kind and place are told."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.test_gateway import _grant, _states
from tests.support.agency_server import Office, Server, serving
from tests.support.hubs import ROOT
from tests.support.mcp_clients import connect, talk
from tests.support.servers import free_port

SECRET = "ghp0aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5zA7bC9dE1fG3hI5jK7"
DIGITS = "482910573829"
BAD = ROOT / "tests/support/bad_server.py"
BY_STREAMS = ("chat", "init", "proto", "list", "call")
BY_PORT = ("badjson", "badsse", "badresult", "oddsse", "oddtype")
_SECONDS = 120.0


@pytest.fixture(scope="module")
def server(office: Office, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Each server behind it answers badly in a way of its own; ``bank`` says its secret as a number."""
    config, port = tmp_path_factory.mktemp("config") / "agency.toml", free_port()
    started = [(mode, "s") for mode in BY_STREAMS] + [("bank", "d")]
    config.write_text(
        f'[secrets]\ns = {{command = ["echo", "{SECRET}"]}}\nd = {{command = ["echo", "{DIGITS}"]}}\n'
        + "".join(
            f'[servers.{mode}]\nargv = ["{sys.executable}", "{BAD}"]\nseconds = 20\n'
            f'env = {{TOKEN = "{{secret:{key}}}", MODE = "{mode}"}}\n'
            for mode, key in started
        )
        + "".join(
            f'[servers.{mode}]\nurl = "http://127.0.0.1:{port}/{mode}"\nseconds = 20\n'
            'headers = {Authorization = "Bearer {secret:s}"}\n'
            for mode in BY_PORT
        )
    )
    subprocess.run(["git", "-C", office.root, "config", "cn.agency", config], check=True)
    remote = subprocess.Popen([sys.executable, BAD, str(port)])
    try:
        with serving(office.root) as found:
            _wait(office.root)
            yield found
    finally:
        remote.kill()
        remote.wait()


def _wait(root: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    ready = {"chat", "call", "bank", *BY_PORT}
    while "starting" in (states := _states(root)).values() or not all(states.get(name) == "ready" for name in ready):
        assert time.monotonic() < deadline, _states(root)
        time.sleep(0.1)


@pytest.mark.parametrize("name", [*BY_STREAMS, *BY_PORT])
def test_an_answer_that_is_none_of_the_protocol_is_told_by_place_and_kind(
    office: Office, server: Server, name: str
) -> None:
    handler = office.handler(f"Hears {name}")
    _grant(office, handler, f"mcp:{name}")
    agent = office.lease(handler)
    seen: list[str] = []

    async def work() -> None:
        async with connect(server, agent.token) as ask:
            answer = await ask("mcp_call", server=name, tool="give")
            if name == "chat":
                assert not answer.value["failed"]
            else:
                assert answer.value["rule"] == "unavailable"
                assert answer.value["remedy"]
            seen.extend(map(str, (answer, await ask("mcp_tools"))))

    talk(work)
    if name in BY_PORT or name == "call":
        assert "none of the protocol" in seen[0]
        assert "it may have done what was asked" in seen[0]
    seen.append(json.dumps(_states(office.root)))
    seen.append((office.root.parent / "server.log").read_text())
    for text in seen:
        assert SECRET[:8] not in text
        assert SECRET[-8:] not in text


def test_what_libraries_log_is_told_by_place_and_kind(office: Office, server: Server) -> None:
    log = (office.root.parent / "server.log").read_text()
    (line,) = [line for line in log.splitlines() if "chat: mcp.client.stdio at mcp/client/stdio.py:" in line][:1]
    assert "ValidationError at pydantic/" in line
    assert "Traceback" not in log
    assert "input_value" not in log
    assert _states(office.root)["init"].startswith("its answer is none of the protocol: capabilities (")
    assert _states(office.root)["proto"] == "it speaks no version of the protocol that cn knows"


def test_a_secret_of_digits_is_not_shown_as_a_number(office: Office, server: Server) -> None:
    handler = office.handler("Asks the bank")
    _grant(office, handler, "mcp:bank")
    agent = office.lease(handler)

    async def work() -> None:
        async with connect(server, agent.token) as ask:
            told = await ask.do("mcp_call", server="bank", tool="give")
            assert told["value"] == {"account": {"pin": "***", "sum": 7}, "f": "***"}
            (row,) = (await ask.do("mcp_tools"))["tools"]
            assert row["takes"]["properties"]["pin"] == {"type": "integer", "default": "***", "minimum": "***"}
            listed = (await ask.client.list_tools(cache_mode="bypass")).model_dump()
            by_name = await ask.client.call_tool("bank__give", {})
            assert DIGITS not in f"{told} {row} {listed} {by_name.model_dump()}"

    talk(work)
