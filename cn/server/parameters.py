"""What a tool takes: each argument with its JSON schema, and how its value is read; a wrong one is refused.

Schemas are those of JSON Schema 2020-12, as the Model Context Protocol has them (``tools/list``, ``inputSchema``).
"""

from __future__ import annotations

import binascii
import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from cn.agency.names import GRANTABLE, LEVELS, NameRefused, Uuid, parse_party, parse_resource, parse_uuid
from cn.agency.operations import Wanted
from cn.agency.plan.result import Refused
from cn.values.text import is_text, one_line

ARGUMENTS = "arguments"
"""The rule that refuses what does not fit a schema."""

Schema: TypeAlias = Mapping[str, Any]
ROOT = "root"
"""What names the root handler and its outcome where a UUID is taken, as on the command line."""
MOST_CONTENT = 8 << 20
"""Bytes of a file that a call brings or takes at most; the command line takes as many."""


class Unfit(ValueError):
    """A value that is none of its kind; the text says what it should be."""


class Kind(NamedTuple):
    """A kind of value: its schema, and what becomes of one. ``read`` raises :class:`Unfit` or :class:`NameRefused`.

    ``root``: :data:`ROOT` is one of them.
    """

    schema: Schema
    read: Callable[[Any], Any]
    root: bool = False


class Parameter(NamedTuple):
    """An argument of a tool; ``default`` is its value where it is left out."""

    name: str
    kind: Kind
    about: str
    needed: bool = False
    default: Any = None

    @property
    def schema(self) -> dict[str, Any]:
        """As a property of the tool's schema."""
        return {**self.kind.schema, "description": self.about}


def _text(value: Any) -> str:
    if not isinstance(value, str) or not is_text(value) or "\0" in value:
        raise Unfit("a text without NUL")
    return value


def _named(parse: Callable[[str], Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        return parse(_text(value).strip())

    return read


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        raise Unfit("a whole number from 0")
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Unfit("true or false")
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unfit("an object")
    return value


def _base64(value: Any) -> bytes:
    try:
        return binascii.a2b_base64(_text(value), strict_mode=True)
    except binascii.Error:
        raise Unfit("bytes in base64 (RFC 4648)") from None


def list_of(kind: Kind) -> Kind:
    """Several of a kind, as a tuple."""

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise Unfit("a list")
        return tuple(kind.read(one) for one in value)

    return Kind({"type": "array", "items": kind.schema}, read, kind.root)


def one_of(*words: str) -> Kind:
    """One of these words."""

    def read(value: Any) -> str:
        if value not in words:
            raise Unfit(f"one of {', '.join(words)}")
        return str(value)

    return Kind({"type": "string", "enum": [*words]}, read)


TEXT = Kind({"type": "string"}, _text)


class Cursor(NamedTuple):
    """Where a list goes on: behind what a view calls ``after``, and so many entries further."""

    after: int = 0
    skip: int = 0

    def __str__(self) -> str:
        return f"{self.after}.{self.skip}"


def _cursor(value: Any) -> Cursor:
    parts = str(_text(value)).split(".")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts):
        raise Unfit("the 'next' of the answer before")
    return Cursor(int(parts[0]), int(parts[1]))


UUID = Kind({"type": "string"}, _named(parse_uuid), root=True)
PARTY = Kind({"type": "string"}, _named(parse_party), root=True)
RESOURCE = Kind({"type": "string"}, _named(lambda text: str(parse_resource(text))))
CURSOR = Parameter("cursor", Kind({"type": "string"}, _cursor), "'next' of the answer before", default=Cursor())
NUMBER = Kind({"type": "integer", "minimum": 0}, _number)
TRUTH = Kind({"type": "boolean"}, _truth)
OBJECT = Kind({"type": "object"}, _object)
BASE64 = Kind({"type": "string", "contentEncoding": "base64"}, _base64)


def _wanted(value: Any) -> Wanted:
    found = _object(value)
    if unknown := found.keys() - {"resource", "level", "scope"}:
        raise Unfit(f"objects of resource, level and scope, not {one_line(min(map(str, unknown)), 40)}")
    if not {"resource", "level"} <= found.keys():
        raise Unfit("objects with a resource and a level")
    scope = found.get("scope")
    return Wanted(RESOURCE.read(found["resource"]), _text(found["level"]), None if scope is None else UUID.read(scope))


GRANT = Kind(
    {
        "type": "object",
        "properties": {
            "resource": {"type": "string", "description": f"KIND:NAME; kinds: {', '.join(sorted(GRANTABLE))}"},
            "level": {"type": "string", "enum": sorted({one for kind in GRANTABLE for one in LEVELS[kind][1:]})},
            "scope": {**UUID.schema, "description": "The outcome with which it ends; the holder's root if left out"},
        },
        "required": ["resource", "level"],
        "additionalProperties": False,
    },
    _wanted,
)


def input_schema(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """The schema of all arguments of a tool."""
    return {
        "type": "object",
        "properties": {one.name: one.schema for one in parameters},
        "required": [one.name for one in parameters if one.needed],
        "additionalProperties": False,
    }


def names_root(parameters: Sequence[Parameter], given: Mapping[str, Any]) -> bool:
    """Does an argument say :data:`ROOT` where a UUID is taken?"""
    return any(one.kind.root and ROOT in _several(given.get(one.name)) for one in parameters)


def with_root(parameters: Sequence[Parameter], given: Mapping[str, Any], root: Uuid) -> dict[str, Any]:
    """The arguments with the root handler's UUID for :data:`ROOT`."""
    named = {one.name for one in parameters if one.kind.root}
    return {name: _with_root(value, root) if name in named else value for name, value in given.items()}


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _with_root(value: Any, root: Uuid) -> Any:
    found = [root if one == ROOT else one for one in _several(value)]
    return found if isinstance(value, list) else found[0]


def read_arguments(parameters: Sequence[Parameter], given: Mapping[str, Any]) -> dict[str, Any] | Refused:
    """Each argument's value, or which one is wrong. Null counts as left out."""
    names = [one.name for one in parameters]
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            takes = f"did you mean {near[0]!r}?" if near else f"it takes: {', '.join(names) or 'nothing'}"
            return Refused(ARGUMENTS, f"there is no argument {one_line(name, 40)!r}", takes)
    found = {}
    for one in parameters:
        value = given.get(one.name)
        if value is None:
            if one.needed:
                return Refused(ARGUMENTS, f"the argument {one.name!r} is missing", f"{one.name}: {one.about}")
            found[one.name] = one.default
            continue
        try:
            found[one.name] = one.kind.read(value)
        except NameRefused as refused:
            return Refused(ARGUMENTS, f"the argument {one.name!r} does not fit: {refused.text}", refused.hint)
        except Unfit as why:
            reason = f"the argument {one.name!r} does not fit: it takes {why}"
            return Refused(ARGUMENTS, reason, f"{one.name}: {one.about}")
    return found
