"""The tools that every agent has, by what they are about. What may be done with them is asked of the records."""

from __future__ import annotations

from pathlib import Path

from cn.agents.machine import Machine
from cn.server.tool import Tool
from cn.server.tools.audit import AUDIT
from cn.server.tools.knowledge import KNOWLEDGE
from cn.server.tools.mail import MAIL
from cn.server.tools.outcomes import OUTCOMES
from cn.server.tools.permissions import permission_tools


def base_tools(machine: Machine) -> tuple[Tool, ...]:
    """With what this machine lets agents choose."""
    return (*KNOWLEDGE, *OUTCOMES, *MAIL, *permission_tools(machine), *AUDIT)


BASE = base_tools(Machine(Path("agency.toml")))
"""Those of a machine that defines nothing."""
