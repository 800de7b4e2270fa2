"""The page on Agency's server names each tool, argument and rule that the code has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cn.agents.choice import RULE
from cn.agents.repositories import BRANCH, BUNDLE, PLACE, UNREACHED
from cn.server.door import BRIDGE, REQUEST, TOOLS, WRITE
from cn.server.gateway import Gateway
from cn.server.parameters import ARGUMENTS, MOST_CONTENT
from cn.server.sdk.app import CONTENT
from cn.server.tool import Tool, answer
from cn.server.toolbox import READ_ONLY, UNAVAILABLE
from cn.server.tools import BASE
from cn.server.tools.repositories import ABOUT
from tests.docs.blocks import PROTOCOL, blocks_of, plain

ALL = (*BASE, *ABOUT, *Gateway(()).base_tools())
PAGE = PROTOCOL / "agency-mcp.md"
_RULES = {block.name: block for block in blocks_of(PAGE)}["rules"].rows
_ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text("utf-8").partition("<!-- tools -->\n")[2].partition("<!-- /tools -->")[0].split("\n")[2:]
    if line
]


_GIVES = PAGE.read_text("utf-8").partition("<!-- gives -->\n")[2].partition("<!-- /gives -->")[0]


def _keys(schema: Mapping[str, Any]) -> set[str]:
    """All names in a result, also those of the entries of its lists."""
    found = set(schema.get("properties", ()))
    for one in (*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])):
        found |= _keys(one)
    return found


def _takes(tool: Tool) -> list[str]:
    names = [(one.name, one.needed) for one in tool.parameters if one.name != "request_id"]
    return [f"`{name}`" if needed else f"[`{name}`]" for name, needed in names]


def _effect(tool: Tool) -> str:
    return "reads" if tool.reads else "ends" if tool.ends else "writes"


def test_the_table_of_tools_is_that_of_the_code() -> None:
    said = {plain(name): (takes.split(), effect, about) for name, takes, effect, about in _ROWS}
    assert said == {tool.name: (_takes(tool), _effect(tool), tool.about) for tool in ALL}


def test_the_table_of_results_names_each_key_that_a_tool_gives() -> None:
    change, *lines = [line for line in _GIVES.split("\n") if line]
    every = {plain(word.strip("[],")) for word in change.split() if "`" in word}
    assert every == set(answer()["properties"])
    rows = {plain(name.strip()): cell for _, name, cell, _ in (line.split("|") for line in lines[2:])}
    assert list(rows) == [tool.name for tool in ALL if tool.gives]
    for tool in ALL:
        if cell := rows.get(tool.name):
            named = set(re.findall(r"`(\w+)`", cell))
            if "*change*" in cell:
                assert set(tool.gives["required"]) == named
                assert set(tool.gives["properties"]) == every
            else:
                assert named == _keys(tool.gives), tool.name


def test_what_writes_takes_a_request_id_and_what_reads_takes_none() -> None:
    takes = {tool.name: any(one.name == "request_id" for one in tool.parameters) for tool in (*BASE, *ABOUT)}
    assert takes == {tool.name: not tool.reads for tool in (*BASE, *ABOUT)}


def test_the_rules_beside_those_of_the_records_are_all_named() -> None:
    own = ["tool", ARGUMENTS, "path", "size", READ_ONLY, UNAVAILABLE]
    assert [plain(rule) for rule, _ in _RULES] == [*own, RULE, BRANCH, BUNDLE, PLACE, UNREACHED]


def test_headers_keys_and_numbers_are_those_of_the_code() -> None:
    page = PAGE.read_text("utf-8")
    for name in (BRIDGE, REQUEST, TOOLS, WRITE):
        assert f"`{name.decode()}" in page
    assert f"`{CONTENT}`" in page
    assert f"{MOST_CONTENT >> 20} MB" in page


def test_the_bridge_knows_the_names_that_the_server_has() -> None:
    from cn.bridge import files, relay

    names = {tool.name for tool in (*BASE, *ABOUT) if any(one.name == "path" for one in tool.parameters)}
    assert set(relay.FROM_FILES) == names
    assert relay.CONTENT == CONTENT
    assert files.MOST == MOST_CONTENT
