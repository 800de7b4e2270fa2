"""Files of cn's own that begin with exact values: outbox entries, queue items, the turn.

``---``, ``cn: <kind>/1``, one ``key: <JSON string>`` a line, ``---``, then the body as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from enum import Enum
from typing import Any, TypeVar

from cn.values.errors import CnError
from cn.values.names import NameRefused, parse_branch, parse_name, parse_oid
from cn.values.text import one_line
from cn.values.timestamps import StampRefused, format_second, parse_stamp

T = TypeVar("T")
_PLAIN = re.compile(r'"([ !#-\[\]-~]*)"')
"""A JSON string without escapes: nearly all are, and a run reads ten of them from each entry."""
_READERS: dict[str, Callable[[str], object]] = {
    "Name": parse_name,
    "Branch": parse_branch,
    "Oid": parse_oid,
    "datetime": parse_stamp,
    "int": int,
    "bytes": lambda text: text.encode("utf-8", "surrogateescape"),
}
"""How a field is read, by its type; what is not here is text."""


class RecordRefused(CnError):
    """A file that cn did not write this way."""


def texts_of(record: Any, body: str) -> dict[str, str]:
    """The fields of a dataclass as text, without the one that is the body."""
    return {part.name: _text(getattr(record, part.name)) for part in fields(record) if part.name != body}


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return (
        format_second(value) if isinstance(value, datetime) else str(value.value if isinstance(value, Enum) else value)
    )


def read_texts(kind: Callable[..., T], texts: Mapping[str, str], **given: object) -> T:
    """A record of a dataclass: some values given, the others from texts; raises for one that lacks or is none."""
    for part in fields(kind):  # type: ignore[arg-type]
        if part.name not in given and (part.name in texts or part.default is MISSING):
            given[part.name] = _READERS.get(str(part.type), str)(texts[part.name])
    return kind(**given)


def format_record(form: str, texts: Mapping[str, str], body: bytes = b"") -> bytes:
    """The file; empty fields are left out."""
    lines = [f"{key}: {json.dumps(value)}" for key, value in texts.items() if value]
    return "\n".join(["---", f"cn: {form}", *lines, "---", ""]).encode() + body


def parse_record(form: str, data: bytes, make: Callable[[dict[str, str], bytes], T]) -> T:
    """What ``make`` makes of the fields, empty ones left out, and of the body; raises :class:`RecordRefused`.

    A file that a person's tools gave a byte order mark, or CRLF between all lines, is read as without them.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    data = data.replace(b"\r\n", b"\n") if data.startswith(b"---\r\n") else data
    head, end, body = data.partition(b"\n---\n")
    lines = head.decode("utf-8", "replace").split("\n")
    if not end or lines[:2] != ["---", f"cn: {form}"]:
        raise RecordRefused(f"it is no {form.partition('/')[0]} entry", "remove it, or restore it from history")
    try:
        pairs = (line.partition(": ") for line in lines[2:])
        texts = {key: _value(text) for key, _, text in pairs}
        "".join(texts.values()).encode("utf-8", "surrogateescape")  # JSON can write half a character
        return make({key: value for key, value in texts.items() if value}, body)
    except (ValueError, KeyError, RecursionError, NameRefused, StampRefused) as error:
        raise RecordRefused(f"it is damaged ({one_line(str(error), 120)})", "restore it from history") from None


def _value(text: str) -> str:
    plain = _PLAIN.fullmatch(text)
    return plain[1] if plain else str(json.loads(text))
