"""Files of cn's own that begin with exact values: outbox entries, queue items, the turn.

``---``, ``cn: <kind>/1``, one ``key: <JSON string>`` a line, ``---``, then the body as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from cn.values.errors import CnError
from cn.values.text import one_line

_PLAIN = re.compile(r'"([ !#-\[\]-~]*)"')
"""A JSON string without escapes: nearly all are, and a run reads ten of them from each entry."""


class HeaderRefused(CnError):
    """A file that cn did not write this way."""


def format_header(form: str, fields: Mapping[str, str], body: bytes = b"") -> bytes:
    """The file; empty fields are left out."""
    lines = [f"{key}: {json.dumps(value)}" for key, value in fields.items() if value]
    return "\n".join(["---", f"cn: {form}", *lines, "---", ""]).encode() + body


def parse_header(form: str, data: bytes) -> tuple[dict[str, str], bytes]:
    """Fields, empty ones left out, and body; raises :class:`HeaderRefused`."""
    head, end, body = data.partition(b"\n---\n")
    lines = head.decode("utf-8", "replace").split("\n")
    if not end or lines[:2] != ["---", f"cn: {form}"]:
        raise HeaderRefused(f"it is no {form.partition('/')[0]} entry")
    try:
        pairs = (line.partition(": ") for line in lines[2:])
        fields = {key: _value(text) for key, _, text in pairs}
        "".join(fields.values()).encode("utf-8", "surrogateescape")  # JSON can write half a character
    except (ValueError, RecursionError) as error:
        raise HeaderRefused(f"it is damaged ({one_line(str(error), 120)})") from None
    return {key: value for key, value in fields.items() if value}, body


def _value(text: str) -> str:
    plain = _PLAIN.fullmatch(text)
    return plain[1] if plain else str(json.loads(text))
