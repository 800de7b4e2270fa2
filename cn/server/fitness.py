"""Which tools of other servers can stand beside ours in a list that a model is given.

The Messages API refuses a whole request for one tool whose name or schema it does not take, or whose name comes twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from cn.server.gateway import SEPARATOR, OtherTool

_LONGEST: Final = 128 - len("mcp__cn__")
"""Of a name; clients put the name of our server before it."""
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NOT_AT_THE_TOP = ("oneOf", "allOf", "anyOf")
Fault = Callable[[Mapping[str, Any]], str]
"""What is wrong with a JSON schema, else empty."""


def find_unfit(server: str, tools: Sequence[OtherTool], fault: Fault) -> list[OtherTool]:
    """These tools, once each, with why one does not fit. One without a name, or of a name before, is no tool."""
    found: dict[str, OtherTool] = {}
    twice: set[str] = set()
    for tool in tools:
        if tool.name in found:
            twice.add(tool.name)
        elif tool.name:
            found[tool.name] = tool
    return [
        tool._replace(unfit=_why(server, tool, fault) or ("its server lists it twice" if name in twice else ""))
        for name, tool in found.items()
    ]


def _why(server: str, tool: OtherTool, fault: Fault) -> str:
    if not _NAME.fullmatch(tool.name):
        return "its name has other signs than letters, digits, '_' and '-'"
    if len(f"{server}{SEPARATOR}{tool.name}") > _LONGEST:
        return f"its name with its server's is longer than {_LONGEST} signs"
    properties = tool.takes.get("properties", {})
    if tool.takes.get("type") != "object" or not isinstance(properties, Mapping):
        return "its arguments are no object"
    if word := next((word for word in _NOT_AT_THE_TOP if word in tool.takes), ""):
        return f"the schema of its arguments has {word} at its top"
    if not all(_PROPERTY.fullmatch(str(name)) for name in properties):
        return "an argument's name is too long, or has strange signs"
    return fault(tool.takes)
