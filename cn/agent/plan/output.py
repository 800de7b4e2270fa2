"""Read ``state/output.md``, which a model wrote: ops above, text below (``docs/protocol/agent.md``).

Reading is total: whatever the bytes, there is an :class:`Output`, and time is linear in
them. It is lenient in what decides nothing (fences, bullets, bold keys, quotes, white
space) and strict in the rest: ops stand in one block at the start (:mod:`cn.agent.plan.output_block`),
and where two readings differ in an op it is an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cn.agent.plan.output_block import Pair, find_block, format_value, unfenced
from cn.protocol.ops import USAGE, Op, OpRefused, format_whole, parse_op
from cn.values.text import one_line

LIMIT = 1024 * 1024
"""Bytes of an output that are read; the text of a model is a small part of it."""
ECHOED = frozenset({"from", "cadence", "queued", "thread", "attempt", "rejected"})
"""Keys of ``state/input.md`` that models copy: they mean nothing here, and are no news."""
_MANY = 20
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Controls, line boundaries, bidirectional overrides and isolates, bytes that are no UTF-8."""


@dataclass(frozen=True)
class Output:
    """One output, read.

    ``id`` is as written, empty when missing (which is no error here: whoever knows the
    input's id says so). ``unknown`` are keys that were ignored, one visible line each;
    ``errors`` name the line and the op, why, and what to write. With an error nothing of
    the output may be executed. Of very many unknown keys or errors the last says how many more.
    """

    id: str
    ops: tuple[Op, ...]
    body: str
    unknown: tuple[str, ...]
    errors: tuple[str, ...]


def format_output(id: str, ops: Sequence[Op], body: str = "") -> str:
    """The text of ``state/output.md`` in its standard format; :func:`parse_output` reads it back."""
    pairs = [("id", one_line(id, len(id) + 1)), *(format_whole(op) for op in ops)]
    text = "\n".join(["---", *(f"{key}: {format_value(value)}".rstrip() for key, value in pairs), "---"])
    body = _plain(body).strip()
    return f"{text}\n\n{body}\n" if body else f"{text}\n"


def parse_output(data: bytes) -> Output:
    """Read an output. Never raises."""
    errors = []
    if len(data) > LIMIT:
        errors.append(f"the output has {len(data)} bytes, at most {LIMIT} are read; write a shorter one")
    text = data[:LIMIT].decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    lines = _plain(text).split("\n")
    block = find_block(lines)
    ids: list[str] = []
    ops: list[Op] = []
    unknown: list[str] = []
    for pair in block.pairs:
        if not pair.name:
            if pair.key.lower() not in ECHOED:
                unknown.append(pair.key)
            continue
        value = pair.value
        fault = _fault(pair, value)
        if pair.name == "id":
            value = _decoded(value)
            if ids and value != ids[0]:
                fault = fault or f"there are two ids, {_shown(ids[0])} and {_shown(value)}; give one"
            ids.append(value)
        elif not fault:
            try:
                ops.append(parse_op(pair.name, value))
            except OpRefused as refused:
                fault = f"{refused.text}; {refused.hint}"
        if fault:
            errors.append(f"line {pair.line + 1}: {fault}")
    errors += block.errors
    body = "\n".join(unfenced(lines[block.end :], block.fence)).strip()
    keys = tuple(one_line(_decoded(key), 40) for key in _some(unknown, "keys"))
    return Output(ids[0] if ids else "", tuple(ops), _decoded(body), keys, _some(errors, "errors"))


def _plain(text: str) -> str:
    """The text with plain line feeds; only they part lines."""
    return "\n".join(line.rstrip("\r") for line in text.split("\n"))


def _decoded(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _shown(text: str) -> str:
    return repr(one_line(text, 60))


def _some(items: list[str], what: str) -> tuple[str, ...]:
    more = len(items) - _MANY
    return (*items[:_MANY], f"and {more} more {what}") if more > 0 else tuple(items)


def _fault(pair: Pair, value: str) -> str:
    """Why a value cannot be read, whatever the op."""
    if pair.is_list:
        how = f"{pair.name}: {USAGE.get(pair.name, 'ID')}"
        return f"{pair.name} has a list; write {how} on a line of its own for each"
    found = _FORBIDDEN.search(value)
    if not found:
        return ""
    char = ord(found[0])
    if char >= 0xDC80:
        return f"{pair.name} holds the byte 0x{char - 0xDC00:02X}, which is no UTF-8; write UTF-8"
    return f"{pair.name} holds the control character U+{char:04X}; write plain text"
