"""The MCP Inspector's command line, a client of the npm registry's, lists and calls our tools over the bridge."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cn.server.tools import BASE
from tests.support.agency_server import Leased, Office, Server
from tests.support.hubs import cn_env
from tests.support.mcp_clients import BRIDGE

_BROUGHT = Path(sys.prefix) / "inspector/node_modules/.bin/mcp-inspector"  # by `make full`
INSPECTOR = str(_BROUGHT) if _BROUGHT.exists() else shutil.which("mcp-inspector")
pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(INSPECTOR is None, reason="no mcp-inspector: make full brings it where npm is"),
]


def _ask(env: dict[str, str], folder: Path, method: str, tool: str = "", *arguments: str) -> dict[str, Any]:
    call = ["--tool-name", tool] if tool else []
    words = [word for one in arguments for word in ("--tool-arg", one)]
    command = [str(INSPECTOR), "--cli", *BRIDGE, "--method", method, *call, *words]
    done = subprocess.run(
        command, cwd=folder, env=cn_env(env), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def agent(office: Office) -> Leased:
    return office.lease(office.handler("Is inspected"))


@pytest.mark.parametrize("way", ["socket", "url"])
def test_over_the_bridge(server: Server, agent: Leased, workspace: Path, way: str) -> None:
    (workspace / "note.md").write_text("inspected")
    env = {"CN_AGENT_TOKEN": agent.token, f"CN_MCP_{way.upper()}": str(server.health[way])}
    listed = _ask(env, workspace, "tools/list")
    assert {tool.name for tool in BASE} <= {tool["name"] for tool in listed["tools"]}
    made = _ask(env, workspace, "tools/call", "kb_create", "description=A note", "path=note.md")["structuredContent"]
    assert made["version"] == 1
    read = _ask(env, workspace, "tools/call", "kb_read", f"file={made['file']}")["structuredContent"]
    assert (workspace / read["path"]).read_text() == "inspected"
