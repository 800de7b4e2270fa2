"""Read the Models API's answer about a model (``GET /v1/models/{id}``), and that of ``count_tokens``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from cn.llm.api_errors import HINTS
from cn.llm.request import Failure, Kind
from cn.values.text import one_line


@dataclass(frozen=True)
class Checked:
    """A model that nothing speaks against. ``id`` is what a name such as an alias stands for.

    ``known`` tells whether the API confirmed it; else ``note`` says why nobody can tell. ``note``
    also warns of a model that will be withdrawn. 0: the limit is not known.
    """

    id: str
    known: bool
    note: str = ""
    max_tokens: int = 0
    max_input_tokens: int = 0


def unchecked(model: str, why: str) -> Checked:
    """Nobody can tell whether the model exists."""
    return Checked(model, False, f"the model {one_line(model, 80)} was not checked: {one_line(why, 300)}")


def read_model(model: str, data: bytes) -> Checked | Failure:
    """The body of a response with status 200."""
    try:
        found: dict[str, Any] = json.loads(data)
        name = str(found["id"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return unchecked(model, "the server's answer is none of the Models API")
    retires = str(found.get("retires_at") or "")[:10]
    if found.get("lifecycle") == "retired":
        text = f"the model {one_line(model, 80)} is retired{f' since {one_line(retires)}' if retires else ''}"
        return Failure(Kind.NOT_FOUND, text, HINTS[Kind.NOT_FOUND], attempts=1)
    note = ""
    if found.get("lifecycle") == "deprecated":
        when = f"on {one_line(retires)}" if retires else "soon"
        note = f"the model {one_line(model, 80)} will be withdrawn {when}; choose a newer one in llm.model"
    return Checked(name, True, note, _limit(found, "max_tokens"), _limit(found, "max_input_tokens"))


def _limit(found: dict[str, Any], key: str) -> int:
    value = found.get(key)
    return value if isinstance(value, int) and value > 0 else 0


def read_count(data: bytes) -> int | None:
    """``input_tokens`` of a count; None: not readable."""
    try:
        count = json.loads(data)["input_tokens"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return count if isinstance(count, int) and count >= 0 else None
