"""Each argument of each tool has a bound: its schema says it, and what is beyond is refused before anything is done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import pytest

from cn.agency.plan.result import Refused
from cn.server.gateway import Gateway
from cn.server.parameters import ARGUMENTS, CURSOR, LINE, NAME, TEXT, nearest, read_arguments
from cn.server.tool import Tool
from cn.server.tools import BASE
from cn.server.tools.repositories import ABOUT

ALL = (*BASE, *ABOUT, *Gateway(()).base_tools())
EACH = [pytest.param(tool, one.name, id=f"{tool.name} {one.name}") for tool in ALL for one in tool.parameters]
_CONTENT = ("content", "content_base64")


def _parts(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield schema
    for one in (*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])):
        yield from _parts(one)


def _is_bounded(schema: Mapping[str, Any]) -> bool:
    kind = schema["type"]
    bound = {"string": "maxLength", "array": "maxItems", "integer": "maximum"}.get(kind)
    return bound is None or bound in schema or "enum" in schema


@pytest.mark.parametrize(("tool", "name"), EACH)
def test_the_schema_of_each_argument_has_a_bound(tool: Tool, name: str) -> None:
    assert all(map(_is_bounded, _parts(tool.takes["properties"][name])))


def _beyond(schema: Mapping[str, Any]) -> Any:
    match schema["type"]:
        case "string":
            return "a" * (schema.get("maxLength", 100) + 1)
        case "integer":
            return schema["maximum"] + 1
        case "array":
            return ["3f2a9c1e-be04-4d7f-a582-a1c0d94be7f0"] * (schema["maxItems"] + 1)
        case _:
            return None


@pytest.mark.parametrize(("tool", "name"), [one for one in EACH if one.values[1] not in _CONTENT])
def test_what_is_beyond_is_refused_with_what_to_do(tool: Tool, name: str) -> None:
    (parameter,) = (one for one in tool.parameters if one.name == name)
    value = _beyond(parameter.schema)
    if value is None:
        return
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, parameter.schema)
    refused = read_arguments([parameter], {name: value})
    assert isinstance(refused, Refused)
    assert refused.rule == ARGUMENTS
    assert repr(name) in refused.reason
    assert refused.remedy
    assert len(refused.reason) < 300


@pytest.mark.parametrize("text", ["é", "YQ", "YQ==YQ==", "Y Q=="])
def test_bytes_that_are_no_base64_are_refused(text: str) -> None:
    (parameter,) = (
        one for tool in BASE for one in tool.parameters if (tool.name, one.name) == ("kb_create", _CONTENT[1])
    )
    refused = read_arguments([parameter], {parameter.name: text})
    assert isinstance(refused, Refused)
    assert "base64" in refused.reason


def test_the_reason_says_how_much_it_was_and_how_much_it_takes() -> None:
    for kind, most in ((NAME, "1,000"), (LINE, "200"), (TEXT, "65,536")):
        parameter = CURSOR._replace(name="it", kind=kind)
        refused = read_arguments([parameter], {"it": "a" * 70_000})
        assert isinstance(refused, Refused)
        assert refused.reason == f"the argument 'it' does not fit: it takes at most {most} characters, not 70,000"


def test_a_wrong_name_is_compared_with_others_only_if_it_may_be_one() -> None:
    assert nearest("kb_raed", ["kb_read", "kb_list"]) == "kb_read"
    assert nearest("kb_read" * 200, ["kb_read" * 199]) == ""
