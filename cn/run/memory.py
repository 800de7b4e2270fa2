"""Machine-local memory of a clone: back-off, reported conditions (``.git/cn/*.json``).

Losing any of it costs a repeated message or an early retry, never an effect.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from cn.git.repository import Hub
from cn.system.files import overwrite, write_file
from cn.values.errors import Blocked
from cn.values.names import Oid
from cn.values.timestamps import StampRefused, format_second, parse_stamp

_FIRST = timedelta(minutes=5)
_LONGEST = timedelta(hours=1)
_KNOWN = timedelta(days=1)
_MOST = 5000
_MODELS = 20
_GIVEN = 50
_STANDING = 300
_ROOM, _BLOCK = 3072, 4096
"""Bytes kept free for what is noted on a full disk, and those of which file systems make files."""


def _with_room(data: bytes) -> bytes:
    """The same JSON with lines behind it that are empty: the room for what a full disk makes cn note."""
    return data.ljust(-(-(len(data) + _ROOM) // _BLOCK) * _BLOCK, b"\n")


class Local:
    """One run's view of the local memory; :meth:`save` writes it when it changed."""

    def __init__(self, hub: Hub) -> None:
        self._path: Path = hub.state / "local.json"
        try:
            data = json.loads(self._path.read_text("utf-8"))
        except (OSError, ValueError):
            data = {}
        self._data: dict[str, Any] = data if isinstance(data, dict) else {}
        self._before = json.dumps(self._data, sort_keys=True)

    def save(self) -> None:
        """Write it back, if anything changed."""
        if json.dumps(self._data, sort_keys=True) == self._before:
            return
        data = json.dumps(self._data, indent=0, sort_keys=True).encode()
        try:
            write_file(self._path, _with_room(data))
        except Blocked as why:
            # Where there is no room for a new file the one that is there may do: what was told is to be
            # remembered.
            if not isinstance(why.__cause__, OSError) or not self._fit(data):
                raise
        self._before = json.dumps(self._data, sort_keys=True)

    def _fit(self, data: bytes) -> bool:
        """Write into the room that the file has; False: it has not enough."""
        try:
            room = self._path.stat().st_size
        except OSError:
            return False
        return overwrite(self._path, data.ljust(room, b"\n"))

    def checkpoint(self) -> str:
        """The memory as it is, for :meth:`rollback` when a plan is made again."""
        return json.dumps(self._data)

    def rollback(self, checkpoint: str) -> None:
        """Forget what was noted since the checkpoint."""
        self._data = json.loads(checkpoint)

    def _part(self, name: str) -> dict[str, Any]:
        part = self._data.setdefault(name, {})
        return part if isinstance(part, dict) else {}

    # Conditions that are told once.

    def is_new(self, condition: str) -> bool:
        """Was this condition (a digest) not told yet? It is from now on."""
        told = self._part("told")
        if condition in told:
            return False
        told[condition] = 1
        while len(told) > _MOST:
            del told[next(iter(told))]
        return True

    def knows(self, condition: str) -> bool:
        """Was it told before?"""
        return condition in self._part("told")

    # Peers that fail again and again back off, from 5 minutes to an hour.

    def failed(self, key: str, reason: str, now: datetime, part: str = "unreachable") -> bool:
        """Note a failure to reach ``key`` (a peer, or with another ``part`` a branch); is it new?"""
        peers = self._part(part)
        entry = peers.get(key) or {"count": 0, "since": format_second(now)}
        count = int(entry.get("count", 0)) + 1
        pause = min(_FIRST * 2 ** min(count - 2, 10), _LONGEST) if count > 1 else timedelta(0)
        peers[key] = {
            "count": count,
            "since": entry.get("since", format_second(now)),
            "reason": reason,
            "next": format_second(now + pause),
        }
        while len(peers) > _MOST:
            del peers[next(iter(peers))]
        return count == 1 or entry.get("reason") != reason

    def reached(self, key: str) -> bool:
        """Note that ``key`` answered; tells whether it had failed before."""
        return self._part("unreachable").pop(key, None) is not None

    def waiting(self, key: str, now: datetime, part: str = "unreachable") -> bool:
        """Is ``key`` still to be left alone? A clock that went backwards ends the pause."""
        entry = self._part(part).get(key)
        if not entry:
            return False
        until = parse_stamp(str(entry.get("next")))
        return now < until <= now + _LONGEST

    @property
    def unreachable(self) -> dict[str, dict[str, Any]]:
        """Key → count, since, reason, next."""
        return dict(self._part("unreachable"))

    # What stands until it is gone, and is shown by `cn status`.

    def stands(self, name: str, text: str, now: datetime, remedy: str = "") -> None:
        """Note what stands under this name, or with an empty text that nothing does any more.

        Of what stands already only the remedy is renewed.
        """
        part = self._part("standing")
        if not text:
            part.pop(name, None)
        elif (part.get(name) or {}).get("text") != text:
            part[name] = {"text": text, "remedy": remedy, "since": format_second(now)}
            while len(part) > _STANDING:
                del part[next(iter(part))]
        else:
            part[name]["remedy"] = remedy

    def stand_only(self, prefix: str, found: Mapping[str, tuple[str, str]], now: datetime) -> None:
        """Of what has this prefix in its name, exactly this stands: name → text and remedy."""
        for name in self.standing_names(prefix):
            if name not in found:
                self.stands(name, "", now)
        for name, (text, remedy) in found.items():
            self.stands(name, text, now, remedy)

    def standing_names(self, prefix: str) -> list[str]:
        """The names under which something stands."""
        return [name for name in self._part("standing") if name.startswith(prefix)]

    @property
    def standing(self) -> list[tuple[str, str, str]]:
        """What stands: text, remedy, and since when."""
        entries = [entry for _, entry in sorted(self._part("standing").items())]
        return [(str(e["text"]), str(e.get("remedy", "")), str(e["since"])) for e in entries]

    # Ledgers that were checked, or written here.

    def ledger(self, peer: str) -> Oid | None:
        """The tree of a peer's ledger that is known to be whole."""
        tree = self._part("ledgers").get(peer)
        return Oid(tree) if isinstance(tree, str) else None

    def ledger_is(self, peer: str, tree: Oid) -> None:
        """Note that it is whole."""
        self._part("ledgers")[peer] = tree

    @property
    def ledgers_key(self) -> str:
        """What names the state of all ledgers, as long as all are whole."""
        return str(self._part("checked").get("ledgers", "?"))

    def ledgers_are(self, key: str) -> None:
        """Note that all are whole."""
        self._part("checked")["ledgers"] = key

    # What stopped a whole run.

    def stopped(self, text: str, hint: str, now: datetime, kind: str = "") -> bool:
        """Note why no run can work, and of which ``kind`` that is; tells whether it is new.

        Of what is not, the newest ``hint`` counts: it may name what is there now.
        """
        entry = self._part("stopped")
        new = entry.get("text") != text
        if new:
            entry.update({"text": text, "since": format_second(now)})
        entry.update({"hint": hint, "kind": kind})
        return new

    def resumed(self) -> None:
        """A run works again."""
        self._part("stopped").clear()

    @property
    def stop(self) -> dict[str, str]:
        """``text``, ``hint`` and ``since`` of what stopped the last run; empty when nothing did."""
        return {str(k): str(v) for k, v in self._part("stopped").items()}

    # Attempts of outbox entries.

    def attempt(self, name: str, reason: str, now: datetime, hint: str = "") -> bool:
        """Note a failed delivery of an outbox file; tells whether the reason is new.

        ``hint`` is the next step where trying again is none.
        """
        part = self._part("attempts")
        entry = part.get(name) or {"count": 0}
        count, last = int(entry["count"]) + 1, format_second(now)
        part[name] = {"count": count, "reason": reason, "last": last, "hint": hint}
        return entry.get("reason") != reason

    def delivered(self, name: str) -> None:
        """The entry is through."""
        self._part("attempts").pop(name, None)

    @property
    def attempts(self) -> dict[str, dict[str, Any]]:
        """Outbox file name → count, reason, last, hint."""
        return dict(self._part("attempts"))

    def day(self, name: str, now: datetime) -> bool:
        """Is this the first call for ``name`` today (UTC)? Bounds daily housekeeping."""
        return self._first(name, now.strftime("%Y%m%d"))

    def hour(self, name: str, now: datetime) -> bool:
        """Is this the first call for ``name`` in this hour?"""
        return self._first(name, now.strftime("%Y%m%d%H"))

    def _first(self, name: str, period: str) -> bool:
        periods = self._part("days")
        if periods.get(name) == period:
            return False
        periods[name] = period
        return True

    # The agenda is looked at once an hour, and when something on it is due.

    def next_look(self, now: datetime) -> datetime | None:
        """When the agenda is looked at again; None: now."""
        try:
            at = parse_stamp(str(self._data["agenda"]))
        except (KeyError, StampRefused):
            return None
        return at if now < at <= now + _LONGEST else None

    def agenda_is_due(self, now: datetime) -> bool:
        """Is it to be looked at? A clock that went backwards asks at once."""
        return self.next_look(now) is None

    def look_again(self, now: datetime, times: Iterable[datetime]) -> None:
        """At the next full hour, at one of ``times``, or as was said before: whatever comes first."""
        hour = now.replace(minute=0, second=0, microsecond=0) + _LONGEST
        self._data["agenda"] = format_second(min(hour, self.next_look(now) or hour, *times))

    # What time alone brings about, and nobody can take back, is done when it was due for a day.

    def due_for_a_day(self, keys: Iterable[str], now: datetime) -> set[str]:
        """Of all that is due now: what was due a day ago too, and whenever cn looked since.

        So a clock that jumped ahead, and is set right within that day, has brought nothing about.
        """
        before = self.due
        since = {key: at if (at := before.get(key)) and at <= now else now for key in keys}
        if since != before:
            self._data["due"] = {key: format_second(at) for key, at in since.items()}
        return {key for key, at in since.items() if now - at >= _KNOWN}

    @property
    def due(self) -> dict[str, datetime]:
        """Since when cn has seen what is due."""
        with suppress(StampRefused, AttributeError):
            return {key: parse_stamp(str(at)) for key, at in self._data.get("due", {}).items()}
        return {}

    # Models that were looked up.

    def model_checked(self, key: str, now: datetime, *, known: bool) -> None:
        """Note that the model ``key`` was asked for: it is there, or (not ``known``) nobody can tell."""
        models = self._part("models")
        models[key] = format_second(now + (_KNOWN if known else _LONGEST))
        while len(models) > _MODELS:
            del models[next(iter(models))]

    def model_is_due(self, key: str, now: datetime) -> bool:
        """Is it to be asked for again? A clock that went backwards ends the pause."""
        try:
            until = parse_stamp(str(self._part("models")[key]))
        except (KeyError, StampRefused):
            return True
        return not now < until <= now + _KNOWN

    # Groups in which an allowed user wrote to this machine: only there a text may go.

    def hears(self, chat: str, user: int) -> None:
        """Note that this user wrote in that group."""
        chats = self._part("chats")
        chats.pop(chat, None)
        chats[chat] = user
        while len(chats) > _STANDING:
            del chats[next(iter(chats))]

    def heard(self, chat: str) -> int | None:
        """Who wrote there last."""
        user = self._part("chats").get(chat)
        return user if isinstance(user, int) else None

    # What the agent was given here, so that a late answer is known as one.

    def given(self, id: str) -> None:
        """Note the id of an input that was put before the agent on this machine."""
        ids = self._part("given")
        ids[id] = 1
        while len(ids) > _GIVEN:
            del ids[next(iter(ids))]

    def was_given(self, id: str) -> bool:
        """Was it an input here before?"""
        return id in self._part("given")
