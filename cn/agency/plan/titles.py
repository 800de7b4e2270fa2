"""UUIDs in sentences, with their titles: who reads one has to know what it is of."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from cn.agency.names import FILE, OUTCOME, Party, Uuid
from cn.agency.rows import Facts
from cn.values.text import in_quotes, one_line

_A_UUID = re.compile(r"(?<![0-9a-f-])(?<!kb://)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f-]|/)")
_MOST = 60
OPEN_TO_ALL: Final = (FILE, OUTCOME)
"""Whose titles everybody may see: the subject of a message is for who may read it."""


def title_of(id: str, facts: Facts) -> str:
    """The title of an outcome (a handler is called as its own), or of a file; empty where there is none to be told."""
    row = facts.file(Uuid(Party(id))) if _A_UUID.fullmatch(id) else None
    return one_line(row.description, _MOST) if row and row.kind in OPEN_TO_ALL else ""


def with_titles(text: str, facts: Facts, shown: Callable[[str], str] = str) -> str:
    """A sentence whose UUIDs have their titles behind them, where they are named first; ``shown`` shortens a UUID.

    One that begins a path, such as the pattern of a branch, or that is a link, stays as it is: it is to be written so.
    """
    known: set[str] = set()

    def named(found: re.Match[str]) -> str:
        id = found[0]
        title = "" if id in known or "kb://" in text else title_of(id, facts)
        known.add(id)
        return f"{shown(id)} ({in_quotes(title)})" if title else shown(id)

    return _A_UUID.sub(named, text)
