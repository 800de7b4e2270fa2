"""Conditions: told once, and shown by ``cn status`` until they are gone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from cn.values.timestamps import format_second

if TYPE_CHECKING:  # who only looks reports nothing
    from cn.values.report import Report

_MOST = 300


class Condition(NamedTuple):
    """What holds, the next step, and whom it is about."""

    text: str
    remedy: str = ""
    source: str = ""


class Conditions:
    """What holds in a clone, by kind and name; ``entries`` is its part of the clone's memory."""

    def __init__(self, entries: dict[str, Any], at: datetime) -> None:
        self._entries = entries
        self._at = at

    def set(self, kind: str, text: str, remedy: str = "", *, name: str = "") -> None:
        """Note that this holds; where it did already, only the remedy is renewed."""
        key = _key(kind, name)
        entry = self._entries.get(key) or {}
        if entry.get("text") != text:
            told = {"told": 1} if entry.get("told") else {}
            self._entries[key] = {"text": text, "since": format_second(self._at), **told}
        self._entries[key]["remedy"] = remedy
        while len(self._entries) > _MOST:
            del self._entries[next(iter(self._entries))]

    def clear(self, kind: str, name: str = "") -> None:
        """Note that it does not hold, or no more."""
        self._entries.pop(_key(kind, name), None)

    def names(self, kind: str) -> list[str]:
        """The names of what holds of a kind."""
        return [key[len(kind) + 1 :] for key in self._entries if key.startswith(f"{kind} ")]

    def replace(self, kind: str, found: Mapping[str, Condition]) -> None:
        """Note that of this kind exactly ``found`` holds, by name."""
        for name in self.names(kind):
            if name not in found:
                self.clear(kind, name)
        for name, one in found.items():
            self.set(kind, one.text, one.remedy, name=name)

    def tell(self, kind: str, found: Mapping[str, Condition], report: Report) -> None:
        """:meth:`replace`, and report each as failed: as told before where it was, under its name."""
        told = {name for name in self.names(kind) if self._entries[_key(kind, name)].get("told")}
        self.replace(kind, found)
        for name, one in found.items():
            report.failed(one.text, one.remedy, source=one.source, told_before=name in told)
            if entry := self._entries.get(_key(kind, name)):
                entry["told"] = 1

    @property
    def shown(self) -> list[tuple[str, str, str]]:
        """What holds: text, remedy, and since when."""
        entries = [entry for _, entry in sorted(self._entries.items())]
        return [(str(e["text"]), str(e.get("remedy", "")), str(e["since"])) for e in entries]


def _key(kind: str, name: str) -> str:
    return f"{kind} {name}" if name else kind
