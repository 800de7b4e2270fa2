"""What a clone remembers, and no other machine needs to know (``.git/cn/local.json``).

Losing any of it costs a repeated message or an early retry, never an effect.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cn.git.repository import Hub
from cn.system.files import overwrite, write_file
from cn.values.errors import Blocked
from cn.values.names import digest
from cn.values.timestamps import format_second, parse_stamp

if TYPE_CHECKING:  # who only looks reports nothing
    from cn.values.report import Report

_FIRST = timedelta(minutes=5)
_LONGEST = timedelta(hours=1)
_MOST, _MOST_CONDITIONS = 5000, 300
_ROOM, _BLOCK = 3072, 4096
"""Bytes kept free for what is noted on a full disk, and those of which file systems make files."""


def put_bounded(entries: dict[str, Any], key: str, value: Any, most: int = _MOST) -> None:
    """Set an entry of a section as its newest; of more than ``most`` the oldest go."""
    entries.pop(key, None)
    entries[key] = value
    while len(entries) > most:
        del entries[next(iter(entries))]


class Failures:
    """What fails again and again, and is left alone for a while: from 5 minutes to an hour."""

    def __init__(self, entries: dict[str, Any], at: datetime) -> None:
        self.entries = entries
        """What failed → ``count``, ``since``, ``last``, ``reason``, ``hint``, ``next``."""
        self._at = at

    def failed(self, key: str, reason: str, hint: str = "") -> bool:
        """Note a failure; returns whether its reason is new. ``hint``: a step other than trying again."""
        before, at = self.entries.get(key) or {}, format_second(self._at)
        count = int(before.get("count", 0)) + 1
        pause = min(_FIRST * 2 ** min(count - 2, 10), _LONGEST) if count > 1 else timedelta(0)
        entry = {"count": count, "since": before.get("since", at), "last": at, "reason": reason, "hint": hint}
        put_bounded(self.entries, key, {**entry, "next": format_second(self._at + pause)})
        return before.get("reason") != reason

    def worked(self, key: str) -> bool:
        """Note that it works; returns whether it had failed before."""
        return self.entries.pop(key, None) is not None

    def reason(self, key: str) -> str:
        """Why it failed last."""
        return str(self.entries[key]["reason"])

    def waits(self, key: str) -> bool:
        """Is it to be left alone now? A clock that went backwards ends the pause."""
        entry = self.entries.get(key) or {}
        return bool(entry) and self._at < parse_stamp(str(entry.get("next"))) <= self._at + _LONGEST


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
            entry = {**entry, "text": text, "since": format_second(self._at)}
        put_bounded(self._entries, key, {**entry, "remedy": remedy}, _MOST_CONDITIONS)

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


class Memory:
    """The memory of a clone as it was read at ``at``; :meth:`save` writes it when it changed.

    Each section belongs to one concept. Those that one module alone uses are read and written there.
    """

    def __init__(self, hub: Hub, at: datetime) -> None:
        self.at = at
        self._path: Path = hub.state / "local.json"
        try:
            data = json.loads(self._path.read_text("utf-8"))
        except (OSError, ValueError):
            data = {}
        self._data: dict[str, Any] = data if isinstance(data, dict) else {}
        self._before = self.checkpoint()

    def section(self, name: str) -> dict[str, Any]:
        """One section, to read and to change."""
        part = self._data.setdefault(name, {})
        if not isinstance(part, dict):
            part = self._data[name] = {}
        return part

    @property
    def conditions(self) -> Conditions:
        """What is shown until it is gone."""
        return Conditions(self.section("standing"), self.at)

    @property
    def unreachable(self) -> Failures:
        """Peers and the mailbox, by their key."""
        return Failures(self.section("unreachable"), self.at)

    @property
    def unfetched(self) -> Failures:
        """Heads of branches that could not be fetched."""
        return Failures(self.section("fetch"), self.at)

    @property
    def attempts(self) -> Failures:
        """Deliveries, by the name of the file in the outbox."""
        return Failures(self.section("attempts"), self.at)

    @property
    def stopped(self) -> dict[str, Any]:
        """What stopped the last run as a whole, ``text``, ``hint``, ``since`` and ``kind``; empty: nothing."""
        return self.section("stopped")

    def note_stop(self, text: str, hint: str, kind: str) -> bool:
        """Note why no run can work; returns whether it is new. The newest ``hint`` counts."""
        new = self.stopped.get("text") != text
        if new:
            self.stopped.update({"text": text, "since": format_second(self.at)})
        self.stopped.update({"hint": hint, "kind": kind})
        return new

    def tell_once(self, *what: str) -> bool:
        """Note that this is told; returns whether it is for the first time."""
        if self.told_before(*what):
            return False
        put_bounded(self.section("told"), digest(*what), 1)
        return True

    def told_before(self, *what: str) -> bool:
        """Was it noted by :meth:`tell_once`?"""
        return digest(*what) in self.section("told")

    def begin(self, name: str, period: str = "%Y%m%d") -> bool:
        """Note that a work of each day (or another period, UTC) is done; returns whether it is the first time in it."""
        periods, now = self.section("days"), self.at.strftime(period)
        new = periods.get(name) != now
        periods[name] = now
        return new

    def checkpoint(self) -> str:
        """The memory as it is, for :meth:`rollback` when a plan is made again."""
        return json.dumps(self._data)

    def rollback(self, checkpoint: str) -> None:
        """Forget what was noted since the checkpoint."""
        self._data = json.loads(checkpoint)

    def save(self) -> None:
        """Write it back, if anything changed."""
        if self.checkpoint() == self._before:
            return
        data = json.dumps(self._data, indent=0).encode()
        padded = data.ljust(-(-(len(data) + _ROOM) // _BLOCK) * _BLOCK, b"\n")  # room on a full disk
        try:
            write_file(self._path, padded)
        except Blocked as why:
            # Where there is no room for a new file, the one that is there may do: what was told is to be
            # remembered.
            if not isinstance(why.__cause__, OSError) or not self._fit(data):
                raise
        self._before = self.checkpoint()

    def _fit(self, data: bytes) -> bool:
        """Write into the room that the file has; False: it has not enough."""
        try:
            room = self._path.stat().st_size
        except OSError:
            return False
        return overwrite(self._path, data.ljust(room, b"\n"))
