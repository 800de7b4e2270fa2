"""Servers that run beside an agent: written into its settings when it starts, so a grant takes a new agent to hold.

Who was granted one while an agent works is told by mail: the agent saves its state and ends, and the next one has it.
No secret is among their settings; those who need one stand behind our server (``gateway.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cn.agency.names import Party, Resource, Uuid
from cn.agency.operations import ByHandler, SendMail
from cn.agency.plan.access import reason_for
from cn.agency.rows import Agent, Facts
from cn.agency.store.look import live_agents
from cn.server.gateway import KIND, LEVEL
from cn.server.machine_tools import OtherServer

SUBJECT = "Servers beside you"


class DirectServers:
    """The servers of ``agency.toml`` that are ``direct``."""

    def __init__(self, servers: Sequence[OtherServer]) -> None:
        self._servers = {one.name: one for one in servers if one.direct}
        self._told: dict[Uuid, frozenset[str]] = {}

    def __bool__(self) -> bool:
        return bool(self._servers)

    def settings_of(self, handler: Uuid, facts: Facts) -> dict[str, Any]:
        """``mcpServers`` of an agent's settings, as Claude Code and other clients read them."""
        row = facts.handler(handler)
        names = self._held(ByHandler(handler, row.tenure if row else 0, ""), facts)
        return {name: _as_settings(self._servers[name]) for name in sorted(names)}

    def _held(self, principal: ByHandler, facts: Facts) -> frozenset[str]:
        found = (name for name in self._servers if reason_for(principal, Resource(KIND, name), LEVEL, facts))
        return frozenset(found)

    def changed(self, facts: Facts) -> list[SendMail]:
        """A message to each live agent whose settings are old now; each is told once."""
        agents = [agent for id in live_agents(facts) if (agent := facts.agent(id))]
        self._told = {id: names for id, names in self._told.items() if id in {agent.id for agent in agents}}
        return [message for agent in agents if (message := self._message(agent, facts))]

    def _message(self, agent: Agent, facts: Facts) -> SendMail | None:
        now = self._held(ByHandler(agent.handler, agent.tenure, ""), facts)
        before = self._told.get(agent.id)
        if before is None:  # we saw nothing of its start: what was granted after that is new to it
            before = now - self._granted_since(agent, facts)
        self._told[agent.id] = now
        if now == before:
            return None
        parts = [f"given: {', '.join(sorted(now - before))}"] if now - before else []
        parts += [f"taken: {', '.join(sorted(before - now))}"] if before - now else []
        text = (
            f"The servers that run beside you are others now ({'; '.join(parts)}). "
            "Save where you are in the state document, submit your audit entry, and end. The next agent has them."
        )
        return SendMail(Party(agent.handler), None, SUBJECT, text)

    def _granted_since(self, agent: Agent, facts: Facts) -> set[str]:
        grants = facts.grants_of(agent.handler, agent.tenure)
        kind = f"{KIND}:"
        late = (one.resource for one in grants if one.resource.startswith(kind) and one.time > agent.started)
        return {resource.removeprefix(kind) for resource in late}


def _as_settings(server: OtherServer) -> Mapping[str, Any]:
    if server.url:
        return {"type": "http", "url": server.url, "headers": dict(server.headers)}
    return {"command": server.argv[0], "args": [*server.argv[1:]], "env": dict(server.env)}
