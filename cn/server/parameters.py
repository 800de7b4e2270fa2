"""What a tool takes: each argument with its JSON schema, and how its value is read; a wrong one is refused.

Schemas are those of JSON Schema 2020-12, as the Model Context Protocol has them (``tools/list``, ``inputSchema``).
"""

from __future__ import annotations

import binascii
import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from cn.agency.names import GRANTABLE, LEVELS, NameRefused, Uuid, parse_party, parse_resource, parse_uuid
from cn.agency.operations import Wanted
from cn.agency.plan.bounds import MOST_NAME, MOST_NAMED, MOST_TEXT, MOST_TITLE
from cn.agency.plan.result import Refused
from cn.values.text import is_text, one_line

ARGUMENTS = "arguments"
"""The rule that refuses what does not fit a schema."""

Schema: TypeAlias = Mapping[str, Any]
ROOT = "root"
"""What names the root handler and its outcome where a UUID is taken, as on the command line."""
MOST_CONTENT = 8 << 20
"""Bytes of a file that a call brings or takes at most; the command line takes as many."""
_MOST_NUMBER = 2**53 - 1
"""The largest whole number that each reader of JSON reads as it is (RFC 8259, section 6)."""


class Unfit(ValueError):
    """A value that is none of its kind; the text says what it should be, ``hint`` perhaps what to do instead."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


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


def _text_of(most: int, hint: str = "") -> Kind:
    """A text of at most so many characters."""

    def read(value: Any) -> str:
        if isinstance(value, str) and len(value) > most:
            raise Unfit(f"at most {most:,} characters, not {len(value):,}", hint)
        return _text(value)

    return Kind({"type": "string", "maxLength": most}, read)


NAME = _text_of(MOST_NAME)
"""What names something, or says it in a few words."""
LINE = _text_of(MOST_TITLE)
TEXT = _text_of(MOST_TEXT, "put it into a file, and name it as kb://UUID")
FILE_TEXT = Kind({"type": "string", "maxLength": MOST_CONTENT}, _text)
"""A file's content: what is too long is refused where it is taken, by its bytes."""


def _named(parse: Callable[[str], Any], *, root: bool = False) -> Kind:
    return Kind(NAME.schema, lambda value: parse(NAME.read(value).strip()), root)


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_NUMBER:
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
    except ValueError:  # what is no ASCII raises this one
        raise Unfit("bytes in base64 (RFC 4648)") from None


def list_of(kind: Kind, most: int = MOST_NAMED) -> Kind:
    """Several of a kind, at most so many, as a tuple."""

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise Unfit("a list")
        if len(value) > most:
            raise Unfit(f"at most {most:,} of them, not {len(value):,}", "ask several times, with a part of them each")
        return tuple(kind.read(one) for one in value)

    return Kind({"type": "array", "items": kind.schema, "maxItems": most}, read, kind.root)


def one_of(*words: str) -> Kind:
    """One of these words."""

    def read(value: Any) -> str:
        if value not in words:
            raise Unfit(f"one of {', '.join(words)}")
        return str(value)

    return Kind({"type": "string", "enum": [*words]}, read)


class Cursor(NamedTuple):
    """Where a list goes on: behind what a view calls ``after``, and so many entries further."""

    after: int = 0
    skip: int = 0

    def __str__(self) -> str:
        return f"{self.after}.{self.skip}"


def _cursor(value: Any) -> Cursor:
    parts = str(NAME.read(value)).split(".")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts):
        raise Unfit("the 'next' of the answer before")
    return Cursor(int(parts[0]), int(parts[1]))


UUID = _named(parse_uuid, root=True)
PARTY = _named(parse_party, root=True)
RESOURCE = _named(lambda text: str(parse_resource(text)))
CURSOR = Parameter("cursor", Kind(NAME.schema, _cursor), "'next' of the answer before", default=Cursor())
NUMBER = Kind({"type": "integer", "minimum": 0, "maximum": _MOST_NUMBER}, _number)
TRUTH = Kind({"type": "boolean"}, _truth)
OBJECT = Kind({"type": "object"}, _object)
BASE64 = Kind({"type": "string", "contentEncoding": "base64", "maxLength": -(-MOST_CONTENT // 3) * 4}, _base64)


def _wanted(value: Any) -> Wanted:
    found = _object(value)
    if unknown := found.keys() - {"resource", "level", "scope"}:
        raise Unfit(f"objects of resource, level and scope, not {one_line(min(map(str, unknown)), 40)}")
    if not {"resource", "level"} <= found.keys():
        raise Unfit("objects with a resource and a level")
    resource, level, scope = RESOURCE.read(found["resource"]), NAME.read(found["level"]), found.get("scope")
    return Wanted(resource, level, None if scope is None else UUID.read(scope))


GRANT = Kind(
    {
        "type": "object",
        "properties": {
            "resource": {**RESOURCE.schema, "description": f"KIND:NAME; kinds: {', '.join(sorted(GRANTABLE))}"},
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
            near = nearest(name, names)
            takes = f"did you mean {near!r}?" if near else f"it takes: {', '.join(names) or 'nothing'}"
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
            return Refused(ARGUMENTS, reason, why.hint or f"{one.name}: {one.about}")
    return found


def nearest(name: str, known: Iterable[str]) -> str:
    """The one that a wrong name was meant for, perhaps; empty for none, and for what is too long to be a name."""
    near = difflib.get_close_matches(name, known, 1) if len(name) <= MOST_NAME else []
    return near[0] if near else ""
