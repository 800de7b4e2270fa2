"""What a clone remembers, and no other machine needs to know (``.git/cn/local.json``).

Losing any of it costs a repeated message or an early retry, never an effect.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from cn.git.repository import Hub
from cn.run.conditions import Conditions
from cn.system.files import overwrite, write_file
from cn.values.errors import Blocked
from cn.values.names import digest
from cn.values.timestamps import format_second, parse_stamp

_FIRST = timedelta(minutes=5)
_LONGEST = timedelta(hours=1)
_MOST = 5000
_ROOM, _BLOCK = 3072, 4096
"""Bytes kept free for what is noted on a full disk, and those of which file systems make files."""


def put_bounded(entries: dict[str, Any], key: str, value: Any, most: int = _MOST) -> None:
    """Set an entry of a section as its newest; of more than ``most`` the oldest go."""
    entries.pop(key, None)
    entries[key] = value
    while len(entries) > most:
        del entries[next(iter(entries))]


class BackOff:
    """Who fails again and again is left alone for a while, from 5 minutes to an hour."""

    def __init__(self, entries: dict[str, Any], at: datetime) -> None:
        self.entries = entries
        """Who failed → ``count``, ``since``, ``reason``, ``next``."""
        self._at = at

    def failed(self, key: str, reason: str) -> bool:
        """Note a failure; returns whether it is new."""
        entry = self.entries.get(key) or {}
        count = int(entry.get("count", 0)) + 1
        pause = min(_FIRST * 2 ** min(count - 2, 10), _LONGEST) if count > 1 else timedelta(0)
        now = {
            "count": count,
            "since": entry.get("since", format_second(self._at)),
            "reason": reason,
            "next": format_second(self._at + pause),
        }
        put_bounded(self.entries, key, now)
        return count == 1 or entry.get("reason") != reason

    def reached(self, key: str) -> bool:
        """Note an answer; returns whether it had failed before."""
        return self.entries.pop(key, None) is not None

    def reason(self, key: str) -> str:
        """Why it failed last."""
        return str(self.entries[key]["reason"])

    def waits(self, key: str) -> bool:
        """Is it to be left alone now? A clock that went backwards ends the pause."""
        entry = self.entries.get(key) or {}
        return bool(entry) and self._at < parse_stamp(str(entry.get("next"))) <= self._at + _LONGEST


class Attempts:
    """Failed deliveries, by the name of the file in the outbox."""

    def __init__(self, entries: dict[str, Any], at: datetime) -> None:
        self.entries = entries
        """File name → ``count``, ``reason``, ``last``, ``hint``."""
        self._at = at

    def failed(self, name: str, reason: str, hint: str = "") -> bool:
        """Note a failure; returns whether its reason is new. ``hint``: a step other than trying again."""
        entry = self.entries.get(name) or {"count": 0}
        count, last = int(entry["count"]) + 1, format_second(self._at)
        self.entries[name] = {"count": count, "reason": reason, "last": last, "hint": hint}
        return entry.get("reason") != reason

    def delivered(self, name: str) -> None:
        """Forget them: the file is through."""
        self.entries.pop(name, None)


class Stop:
    """What stopped the last run as a whole."""

    def __init__(self, entries: dict[str, Any], at: datetime) -> None:
        self.entries = entries
        """``text``, ``hint``, ``since`` and ``kind`` of the error; empty: nothing stopped it."""
        self._at = at

    def set(self, text: str, hint: str, kind: str = "") -> bool:
        """Note why no run can work; returns whether it is new. The newest ``hint`` counts."""
        new = self.entries.get("text") != text
        if new:
            self.entries.update({"text": text, "since": format_second(self._at)})
        self.entries.update({"hint": hint, "kind": kind})
        return new

    def clear(self) -> None:
        """Note that a run works again."""
        self.entries.clear()


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
    def unreachable(self) -> BackOff:
        """Peers and the mailbox, by their key."""
        return BackOff(self.section("unreachable"), self.at)

    @property
    def unfetched(self) -> BackOff:
        """Heads of branches that could not be fetched."""
        return BackOff(self.section("fetch"), self.at)

    @property
    def attempts(self) -> Attempts:
        """Failed deliveries."""
        return Attempts(self.section("attempts"), self.at)

    @property
    def stop(self) -> Stop:
        """What stopped the last run."""
        return Stop(self.section("stopped"), self.at)

    def tell_once(self, *what: str) -> bool:
        """Note that this is told; returns whether it is for the first time."""
        if self.told_before(*what):
            return False
        put_bounded(self.section("told"), digest(*what), 1)
        return True

    def told_before(self, *what: str) -> bool:
        """Was it noted by :meth:`tell_once`?"""
        return digest(*what) in self.section("told")

    def begin_day(self, name: str) -> bool:
        """Note the day (UTC) of a daily work; returns whether it is the first call today."""
        return self._begin(name, self.at.strftime("%Y%m%d"))

    def begin_hour(self, name: str) -> bool:
        """Note the hour of an hourly work; returns whether it is the first call in it."""
        return self._begin(name, self.at.strftime("%Y%m%d%H"))

    def _begin(self, name: str, period: str) -> bool:
        periods = self.section("days")
        new = periods.get(name) != period
        periods[name] = period
        return new

    def checkpoint(self) -> str:
        """The memory as it is, for :meth:`rollback` when a plan is made again."""
        return json.dumps(self._data, sort_keys=True)

    def rollback(self, checkpoint: str) -> None:
        """Forget what was noted since the checkpoint."""
        self._data = json.loads(checkpoint)

    def save(self) -> None:
        """Write it back, if anything changed."""
        if self.checkpoint() == self._before:
            return
        data = json.dumps(self._data, indent=0, sort_keys=True).encode()
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
