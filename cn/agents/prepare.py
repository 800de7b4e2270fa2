"""From a runner to the command of one agent: its files, its environment, its argv.

Placeholders in a runner's texts: ``{workspace}``, ``{home}``, ``{files}`` (folders); ``{system}`` and ``{prompt}``
(files with what the agent is told: the stable part, and how things are now); ``{mcp_config}`` and ``{settings}`` (files
in the form of Claude Code's, whose one server is the bridge); ``{environment}`` (a file for a shell, with what the
agent needs to reach the server, for agents that start elsewhere); ``{session}`` (the agent's id), ``{model}``,
``{tools}``, ``{socket}``, ``{url}``, ``{python}``. All other braces stay.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from cn.agency.names import Uuid
from cn.agents.launcher import Word
from cn.agents.machine import Runner
from cn.agents.place import Address
from cn.agents.processes import HANDLER, MARK, OF_HUB
from cn.agents.workspace import Folder, write_below
from cn.agents.wraps import Inside, has_tmp, killer_of, wrap_argv
from cn.system.files import write_file

_PASSED: Final = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS")
"""What every agent gets of the server's environment; a runner names more."""
_PRIVATE: Final = 0o600
_READABLE: Final = 0o644


class Told(NamedTuple):
    """What an agent is told at its start; ``servers`` are those of MCP that it starts beside the bridge."""

    system: str
    prompt: str
    servers: Mapping[str, Any] = MappingProxyType({})


class Start(NamedTuple):
    """One agent to be started: whose, where, with what. ``hub`` names the hub's folder in the mark of its processes;
    ``hidden`` are folders that no wrap shows.
    """

    agent: Uuid
    handler: Uuid
    token: str
    folder: Folder
    runner: Runner
    address: Address
    told: Told
    grace: float
    hub: str = ""
    hidden: tuple[str, ...] = ()


def prepare(start: Start, env: Mapping[str, str] = os.environ) -> Word:
    """Write the agent's files, and say what is to be started."""
    runner, folder = start.runner, start.folder
    mine = _environment(start, env)
    given = _placeholders(start)
    _write_files(start, given, mine)
    argv = [_fill(part, given) for part in runner.argv]
    inside = Inside(
        folder.workspace, folder.home, folder.files, start.address.socket, argv[0], tuple(mine), start.hidden
    )
    return Word(
        argv=wrap_argv(runner.wrap, inside, argv),
        env=mine,
        cwd=str(folder.workspace),
        input=_fill(runner.input, given),
        grace=start.grace,
        killer=killer_of(runner.wrap),
    )


def bridge_argv() -> list[str]:
    """The bridge to the server, as an agent starts it."""
    return [sys.executable, "-P", "-m", "cn", "mcp"]


def bridge_environment(env: Mapping[str, str] = os.environ) -> dict[str, str]:
    """By which Python finds this cn where it is not installed; other programs of an agent have other packages."""
    return {name: env[name] for name in ("PYTHONPATH",) if env.get(name)}


def _environment(start: Start, env: Mapping[str, str]) -> dict[str, str]:
    """An allow-list; the token stands here, and in no argument."""
    found = {name: env[name] for name in (*_PASSED, *start.runner.env) if env.get(name)}
    folder = start.folder
    return found | {
        **dict(start.runner.set),
        "HOME": str(folder.home),
        "TMPDIR": "/tmp" if has_tmp(start.runner.wrap) else str(folder.home),  # noqa: S108  it has one of its own
        "GIT_CEILING_DIRECTORIES": str(folder.path),
        **_identity(start),
    }


def _identity(start: Start) -> dict[str, str]:
    who = {MARK: start.agent, OF_HUB: start.hub, HANDLER: start.handler, "CN_AGENT_TOKEN": start.token}
    return who | start.address.variables


def _placeholders(start: Start) -> dict[str, str]:
    folder, files = start.folder, start.folder.files
    return {
        "workspace": str(folder.workspace),
        "home": str(folder.home),
        "files": str(files),
        "system": str(files / "system.md"),
        "prompt": str(files / "prompt.md"),
        "mcp_config": str(files / "mcp.json"),
        "settings": str(files / "settings.json"),
        "environment": str(files / "environment"),
        "session": start.agent,
        "model": start.runner.model,
        "tools": start.runner.tools,
        "socket": str(start.address.socket or ""),
        "url": start.address.url,
        "python": sys.executable,
    }


def _fill(text: str, given: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: given.get(found[1], found[0]), text)


def _write_files(start: Start, given: Mapping[str, str], env: Mapping[str, str]) -> None:
    """What the runner's placeholders name; what has the token is written only where a runner asks for it."""
    runner, files = start.runner, start.folder.files
    bridge = {"command": bridge_argv()[0], "args": bridge_argv()[1:], "env": bridge_environment()}
    servers = {**start.told.servers, "cn": bridge}
    allowed = [*(f"mcp__{name}" for name in servers), *_allowed(runner.tools)]
    texts = {
        "system.md": start.told.system,
        "prompt.md": start.told.prompt,
        "mcp.json": json.dumps({"mcpServers": servers}, indent=2),
        "settings.json": json.dumps({"permissions": {"allow": allowed}}, indent=2),
    }
    other_user = runner.wrap is not None and runner.wrap.name == "sudo"
    for name, text in texts.items():
        write_file(files / name, text.encode(), root=files, mode=_READABLE if other_user else _PRIVATE)
    if "{environment}" in " ".join((*runner.argv, runner.input)):
        text = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in _identity(start).items())
        write_file(files / "environment", text.encode(), root=files, mode=_PRIVATE)
    for path, template in runner.files:
        write_below(start.folder.workspace, path, _fill(template, given))


def _allowed(tools: str) -> Sequence[str]:
    return [name for name in re.split(r"[\s,]+", tools) if name]
