"""Write the tables of ``docs/protocol/state-machines.md`` and ``agency-mcp.md`` from the code (``make tables``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cn.protocol.states import ACTOR, RECEIVER, SENDER, THREAD, Machine
from cn.server.gateway import Gateway
from cn.server.parameters import Parameter
from cn.server.tool import answer
from cn.server.tools import BASE
from cn.server.tools.repositories import ABOUT

page = Path(__file__).parent / "protocol/state-machines.md"


def shown(machine: Machine) -> str:
    """A table as the page shows it."""
    ends = f"final: {', '.join(machine.finals)}" if machine.finals else "never ends"
    return f"{machine.table}\nBegins as {machine.states[0]}; {ends}.\n"


text = page.read_text("utf-8")
for one in (THREAD, ACTOR, SENDER, RECEIVER):
    found = rf"(?s)(<!-- machine: {one.name} -->\n).*?(?=<!-- /machine -->)"
    text = re.sub(found, lambda match, one=one: f"{match[1]}\n{shown(one)}\n", text)  # type: ignore[misc]
page.write_text(text, "utf-8")


def argument(one: Parameter) -> str:
    """Its name, in brackets where it may be left out."""
    return f"`{one.name}`" if one.needed else f"[`{one.name}`]"


CHANGE = answer()["properties"]


def given(schema: Mapping[str, Any]) -> str:
    """The keys of a result, of a list in brackets those of its entries; what may be left out stands in brackets."""
    needed, found, keys = schema["required"], [], schema["properties"]
    if keys == CHANGE:
        return " ".join([*(f"`{name}`" for name in needed), "*change*"])
    for name, one in keys.items():
        entry = one
        while entry.get("type") == "array":
            entry = entry["items"]
        inner = f" ({given(entry)})" if entry.get("properties") else ""
        found.append(f"`{name}`{inner}" if name in needed else f"[`{name}`{inner}]")
    return " ".join(found)


rows = ["| tool | takes | effect | does |", "|---|---|---|---|"]
tools = (*BASE, *ABOUT, *Gateway(()).base_tools())
for tool in tools:
    takes = " ".join(argument(one) for one in tool.parameters if one.name != "request_id")
    effect = "reads" if tool.reads else "ends" if tool.ends else "writes"
    rows.append(f"| `{tool.name}` | {takes} | {effect} | {tool.about} |")
tools_page = page.with_name("agency-mcp.md")
tools_text = re.sub(
    r"(?s)(?<=<!-- tools -->\n).*?(?=<!-- /tools -->)",
    lambda match: "\n".join([*rows, ""]),
    tools_page.read_text("utf-8"),
)
change = f"*change*: {' '.join(f'[`{name}`]' for name in CHANGE)}, of what was changed."
gives = ["| tool | gives |", "|---|---|", *(f"| `{tool.name}` | {given(tool.gives)} |" for tool in tools if tool.gives)]
tools_text = re.sub(
    r"(?s)(?<=<!-- gives -->\n).*?(?=<!-- /gives -->)",
    lambda match: "\n".join(
        [f"*change*: {' '.join(f'[`{name}`]' for name in CHANGE)}, of what was changed.", "", *gives, ""]
    ),
    tools_text,
)
tools_page.write_text(tools_text, "utf-8")
