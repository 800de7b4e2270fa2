"""What a call answers: at most 64 KiB, then a cursor; with a short text; a refusal says rule, reason and remedy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from cn.agency.plan.result import Refused
from cn.server.parameters import Cursor
from cn.server.tool import Tool, View
from cn.values.text import one_line

MOST: Final = 60 << 10
"""Bytes of a result's value; with its text and the frame around it, 64 KiB hold all."""
_SCALARS = 6


def size_of(value: object) -> int:
    """Bytes of a value as JSON."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))


def fit(tool: Tool, value: View, cursor: Cursor) -> View:
    """The value, whose list is cut to what fits, with what asks for the rest.

    A list that is told backwards (its tool takes ``before``, or no cursor) keeps its end.
    """
    entries: Any = value.get(tool.listed, ())
    rest = {key: one for key, one in value.items() if key != tool.listed and (key, one) != ("next", None)}
    if not tool.listed:
        return rest
    names = {one.name for one in tool.parameters}
    if "cursor" not in names:
        kept = _tail(entries, MOST - size_of(rest))
        cut = len(kept) < len(entries)
        more = {"next": kept[0]["seq"]} if cut and kept and "before" in names else {}
        return rest | {tool.listed: kept} | more
    shown = _head(entries[cursor.skip :], MOST - size_of(rest))
    end = cursor.skip + len(shown)
    if end < len(entries):
        rest["next"] = str(Cursor(cursor.after, end))
    elif "next" in rest:
        rest["next"] = str(Cursor(int(str(rest["next"])), 0))
    return rest | {tool.listed: shown}


def _head(entries: Sequence[Any], room: int) -> list[Any]:
    """As many as there is room for, and one at least."""
    kept: list[Any] = []
    for entry in entries:
        room -= size_of(entry) + 1
        if room < 0 and kept:
            break
        kept.append(entry)
    return kept


def _tail(entries: Sequence[Any], room: int) -> list[Any]:
    return _head(entries[::-1], room)[::-1]


def say(tool: Tool, value: View) -> str:
    """What came of it, on a line."""
    if tool.listed:
        entries: Any = value.get(tool.listed, ())
        more = f"; there are more, from {value['next']!r} on" if "next" in value else ""
        return f"{tool.title}: {len(entries)}{more}"
    told = [f"{key} {_short(one)}" for key, one in value.items() if isinstance(one, str | int | list) and one]
    return f"{tool.title}: {', '.join(told[:_SCALARS]) or 'done'}"


def _short(value: object) -> str:
    if isinstance(value, list):
        return str(len(value)) if len(value) != 1 or not isinstance(value[0], str) else value[0]
    return one_line(str(value), 80)


def refusal(refused: Refused, asked: str = "") -> tuple[str, View]:
    """A refusal as text and value: the rule, the reason, the next step, whom to ask, and what that one is ``asked``."""
    value = {"rule": refused.rule, "reason": refused.reason, "remedy": refused.remedy}
    value |= {"ask": refused.ask or "", "ask_title": asked}
    text = f"refused, {refused.rule}: {refused.reason}" + (f"; {refused.remedy}" if refused.remedy else "")
    return text, {key: one for key, one in value.items() if one}
