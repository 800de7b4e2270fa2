"""What a clone remembers, and no other machine needs to know (``.git/cn/local.json``).

Losing any of it costs a repeated message or an early retry, never an effect.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cn.git.repository import Hub
from cn.system.files import overwrite, read_regular, write_file
from cn.values.errors import Blocked
from cn.values.names import digest
from cn.values.shell_words import command, escape
from cn.values.timestamps import format_second, parse_stamp, stamp_or_none

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
    """What fails again and again, and is left alone for a while: from 5 minutes to an hour.

    What failed at a peer's hub failed at the URL that it had then (``hubs``): under another one it begins anew.
    """

    def __init__(self, entries: dict[str, Any], at: datetime, hubs: Mapping[str, str] | None = None) -> None:
        self.entries = entries
        """What failed → ``count``, ``since``, ``last``, ``reason``, ``hint``, ``next``; ``peer`` and ``url`` where it
        was a peer's hub.
        """
        self._at = at
        self._hubs: Mapping[str, str] = hubs or {}
        self._worked: dict[str, Any] = {}
        """What had failed before, and worked in this run."""

    def know_hubs(self, hubs: Mapping[str, str]) -> None:
        """Forget what failed at a URL that its peer has no more."""
        self._hubs = hubs
        for key, entry in [*self.entries.items()]:
            if (url := entry.get("url")) and hubs.get(str(entry.get("peer")), url) != url:
                del self.entries[key]

    def failed(
        self,
        key: str,
        reason: str,
        hint: str = "",
        *,
        hung: bool = False,
        cut_at: datetime | None = None,
        peer: str = "",
    ) -> bool:
        """Note a failure; returns whether its reason is new. ``hint``: a step other than trying again.

        The first one makes nothing wait, unless it took all its time (``hung``): the next would take that again.
        ``cut_at``: when a signal ended the run that waited for it. The pause begins then, so that a run that comes as
        often as the pause is long finds it; and where something else of it had worked in that run, the count goes on.
        ``peer``: at whose hub it failed, where the first word of the key does not say so.
        """
        now = cut_at or self._at
        before, at = self.entries.get(key) or (self._worked.get(key) if cut_at else None) or {}, format_second(now)
        count = int(before.get("count", 0)) + 1
        hung = hung or cut_at is not None
        pause = min(_FIRST * 2 ** max(0, min(count - 2, 10)), _LONGEST) if count > 1 or hung else timedelta(0)
        entry = {"count": count, "since": before.get("since", at), "last": at, "reason": reason, "hint": hint}
        peer = peer or key.partition(" ")[0]
        entry |= {"peer": peer, "url": self._hubs[peer]} if peer in self._hubs else {}
        put_bounded(self.entries, key, {**entry, "next": format_second(now + pause)})
        return before.get("reason") != reason

    def worked(self, key: str) -> bool:
        """Note that it works; returns whether it had failed before."""
        if key not in self.entries:
            return False
        self._worked[key] = self.entries.pop(key)
        return True

    def reason(self, key: str) -> str:
        """Why it failed last."""
        return str(self.entries[key]["reason"])

    def waits(self, key: str) -> bool:
        """Is it to be left alone now? A clock that went backwards ends the pause."""
        entry = self.entries.get(key) or {}
        return bool(entry) and self._at < self.next_try(key) <= self._at + _LONGEST

    def next_try(self, key: str) -> datetime:
        """Up to when it is left alone."""
        return parse_stamp(str(self.entries[key]["next"]))


class Condition(NamedTuple):
    """What holds, the next step, and whom it is about. ``plain``: that without a URL of the peer's hub."""

    text: str
    remedy: str = ""
    source: str = ""
    plain: str = ""


ANOTHER, MISNAMED = "another", "misnamed"
"""Kinds of conditions, by peer: another repository answers at its URL; the hub there calls itself otherwise. As long as
one of them holds, no step names that URL: who follows it would bring there what is for the peer alone.
"""
NAMELESS = "nameless"
"""The kind of condition, by peer, that its hub has no branch any more of the name that its main had."""


class Conditions:
    """What holds in a clone, by kind and name; ``entries`` is its part of the clone's memory.

    ``hubs`` are the peers' URLs by ``peers.md``. What is shown later than it was found may name one that is not the
    peer's any more, or never was. So what is about a peer (its name begins so) and names its URL counts for that one:
    under another URL a fault of the URL is over, and of all else the text stands with its ``plain`` remedy. Who does
    not know the URLs shows none.
    """

    def __init__(self, entries: dict[str, Any], at: datetime, hubs: Mapping[str, str] | None = None) -> None:
        self._entries = entries
        self._at = at
        self.hubs: Mapping[str, str] = hubs or {}
        self._cleared: dict[str, Any] = {}
        """What was cleared in this run: it did not begin anew when it is set again."""

    def set(self, kind: str, text: str, remedy: str = "", *, name: str = "", plain: str = "") -> None:
        """Note that this holds; where it did already, only the remedy is renewed."""
        key = _key(kind, name)
        entry = self._entries.get(key) or self._cleared.get(key) or {}
        if entry.get("text") != text:
            entry = {**entry, "text": text, "since": format_second(self._at)}
        self._entries.pop(key, None)
        kept = {one: value for one, value in entry.items() if one not in ("url", "plain")}
        self._entries[key] = {**kept, "remedy": remedy, **self._bound(key, remedy, plain)}
        if len(self._entries) > _MOST_CONDITIONS:  # the oldest of those of which there are most
            (most, _), *_ = Counter(map(_group, self._entries)).most_common(1)
            del self._entries[next(one for one in self._entries if _group(one) == most)]

    def _bound(self, key: str, remedy: str, plain: str) -> dict[str, str]:
        """To which URL of its peer it is bound, and its other remedy."""
        peer = _peer(key)
        url = self.hubs.get(peer, "")
        if key.partition(" ")[0] in (ANOTHER, MISNAMED):
            return {"url": url}
        if not url or escape(url) not in remedy:
            return {}
        return {"url": url, "plain": plain or f"{command('cn peer sync {}', peer)} tells what may be done"}

    def _read(self, key: str) -> Condition | None:
        """What holds, as far as it counts for the URL that its peer has now."""
        entry = self._entries[key]
        text, remedy, peer = str(entry["text"]), str(entry.get("remedy", "")), _peer(key)
        plain, url = str(entry.get("plain", "")), str(entry.get("url", ""))
        if not url:
            return Condition(text, remedy)
        here = self.hubs.get(peer) == url
        if not plain:
            return Condition(text, remedy) if here else None
        is_strange = any(self.get(kind, peer) is not None for kind in (ANOTHER, MISNAMED))
        return Condition(text, remedy if here and not is_strange else plain, plain=plain)

    def names_no_url(self, kind: str, name: str) -> bool:
        """Is the URL that its peer has now none that it names?"""
        entry = self._entries[_key(kind, name)]
        return not entry.get("url") or entry["url"] != self.hubs.get(_peer(_key(kind, name)))

    @property
    def bound(self) -> frozenset[str]:
        """The peers of whom a step is shown that names their URL."""
        return frozenset(_peer(key) for key, entry in self._entries.items() if entry.get("plain"))

    def clear(self, kind: str, name: str = "") -> None:
        """Note that it does not hold, or no more."""
        key = _key(kind, name)
        self._cleared |= {key: self._entries.pop(key)} if key in self._entries else {}

    def names(self, kind: str) -> list[str]:
        """The names of what holds of a kind; of what has none it is empty."""
        return [key[len(kind) + 1 :] for key in self._entries if key == kind or key.startswith(f"{kind} ")]

    def of(self, kind: str) -> list[tuple[str, str]]:
        """Text and remedy of what holds of a kind."""
        found = (self._read(_key(kind, name)) for name in self.names(kind))
        return [(one.text, one.remedy) for one in found if one is not None]

    def get(self, kind: str, name: str) -> Condition | None:
        """What holds of this kind under this name."""
        key = _key(kind, name)
        return self._read(key) if key in self._entries else None

    def since(self, kind: str, name: str = "") -> datetime:
        """Since when it holds."""
        return parse_stamp(str(self._entries[_key(kind, name)]["since"]))

    def replace(self, kind: str, found: Mapping[str, Condition]) -> None:
        """Note that of this kind exactly ``found`` holds, by name."""
        for name in self.names(kind):
            if name not in found:
                self.clear(kind, name)
        for name, one in found.items():
            self.set(kind, one.text, one.remedy, name=name, plain=one.plain)

    def tell(self, kind: str, found: Mapping[str, Condition], report: Report) -> None:
        """:meth:`replace`, and report each as failed: as told before where it was, under its name."""
        told = {name for name in self.names(kind) if self._entries[_key(kind, name)].get("told")}
        self.replace(kind, found)
        for name, one in found.items():
            report.failed(one.text, one.remedy, source=one.source, told_before=name in told)
            if entry := self._entries.get(_key(kind, name)):
                entry["told"] = 1

    @property
    def shown(self) -> list[tuple[str, str, str, str]]:
        """What holds: text, remedy, since when, and what it has in common with others: its kind and peer."""
        entries = [(key, str(e["since"]), self._read(key)) for key, e in sorted(self._entries.items())]
        return [(one.text, one.remedy, since, _group(key)) for key, since, one in entries if one is not None]


def _key(kind: str, name: str) -> str:
    return f"{kind} {name}" if name else kind


def _peer(key: str) -> str:
    """The peer with whom the name of a condition begins, if it does: ``gone pi/topic head``, ``replaced pi:topic``."""
    return re.split("[ /:]", key.partition(" ")[2], maxsplit=1)[0]


def _group(key: str) -> str:
    """The kind of a condition and the peer whom it is about, if its name begins so: ``arrival pi/topic head``."""
    kind, _, name = key.partition(" ")
    return f"{kind} {name.replace('/', ' ').partition(' ')[0]}"


_FAILED = dict.fromkeys(("unreachable", "silent", "fetch", "not-taken", "attempts"), ("reason", "since", "next"))
_NEEDED: dict[str, tuple[str, ...]] = {"standing": ("text", "since"), **_FAILED}


def _well_formed(data: object) -> dict[str, Any]:
    """What has the shape of a memory; all else is lost, as any of it may be."""
    parts = {key: part for key, part in data.items() if isinstance(part, dict)} if isinstance(data, dict) else {}
    for key, part in parts.items():
        parts[key] = {name: one for name, one in part.items() if _fits(one, _NEEDED.get(key, ()))}
    return parts if _fits(parts.get("stopped"), ("text", "hint", "since")) else {**parts, "stopped": {}}


def _fits(one: object, needed: tuple[str, ...]) -> bool:
    """Has an entry these fields, each of its kind? One that needs none is a word or a number."""
    if not needed or not isinstance(one, dict) or not set(needed) <= one.keys():
        return not needed and isinstance(one, str | int)
    kinds = (isinstance(value, int if name in ("count", "told") else str) for name, value in one.items())
    return all(kinds) and all(stamp_or_none(one[name]) for name in ("since", "next") if name in needed)


class Memory:
    """The memory of a clone as it was read at ``at``; :meth:`save` writes it when it changed.

    Each section belongs to one concept. Those that one module alone uses are read and written there.
    """

    def __init__(self, hub: Hub, at: datetime) -> None:
        self.at = at
        self._path: Path = hub.state / "local.json"
        self._mode = hub.private_mode  # it quotes what remotes said
        self._hubs: Mapping[str, str] = {}
        try:
            data = json.loads(read_regular(self._path) or b"")
        except (ValueError, RecursionError):
            data = {}
        self._take(_well_formed(data))
        self._before = self.checkpoint()

    def _take(self, data: dict[str, Any]) -> None:
        self._data = data
        self.conditions = Conditions(self.section("standing"), self.at, self._hubs)
        """What is shown until it is gone."""
        self.unreachable = Failures(self.section("unreachable"), self.at, self._hubs)
        """Peers and the mailbox, by their key."""
        self.silent = Failures(self.section("silent"), self.at, self._hubs)
        """Who lists and does not send: remote and peer whose branches they are."""
        self.unfetched = Failures(self.section("fetch"), self.at)
        """Heads of branches that could not be fetched."""
        self.not_taken = Failures(self.section("not-taken"), self.at)
        """Heads of branches with which origin takes no commit, by the name of their condition."""
        self.attempts = Failures(self.section("attempts"), self.at, self._hubs)
        """Deliveries, by the name of the file in the outbox."""
        self.stopped = self.section("stopped")
        """What stopped the last run as a whole, ``text``, ``hint``, ``since``, ``kind``, and ``run``: of which kind it
        was, where it was open, so that others may work; empty: nothing.
        """

    def know_hubs(self, hubs: Mapping[str, str]) -> Memory:
        """Go by these URLs of peers (:class:`Conditions`, :class:`Failures`)."""
        self._hubs = self.conditions.hubs = hubs
        for failures in (self.unreachable, self.silent, self.attempts):
            failures.know_hubs(hubs)
        return self

    def section(self, name: str) -> dict[str, Any]:
        """One section, to read and to change."""
        part: dict[str, Any] = self._data.setdefault(name, {})
        return part

    def note_stop(self, text: str, hint: str, kind: str, run: str = "") -> bool:
        """Note why no run can work, or none of the kind ``run``; returns whether it is new. The newest ``hint``
        counts.
        """
        new = self.stopped.get("text") != text
        if new:
            self.stopped.update({"text": text, "since": format_second(self.at)})
        self.stopped.update({"hint": hint, "kind": kind, "run": run})
        return new

    def told(self, *what: str) -> bool:
        """Note that this is told; returns whether it was before."""
        before = self.told_before(*what)
        if not before:
            put_bounded(self.section("told"), digest(*what), 1)
        return before

    def told_before(self, *what: str) -> bool:
        """Was it noted by :meth:`told`?"""
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
        self._take(json.loads(checkpoint))

    def save(self) -> None:
        """Write it back, if anything changed."""
        if self.checkpoint() == self._before:
            return
        data = json.dumps(self._data, indent=0).encode()
        padded = data.ljust(-(-(len(data) + _ROOM) // _BLOCK) * _BLOCK, b"\n")  # room on a full disk
        try:
            write_file(self._path, padded, mode=self._mode)
        except Blocked as why:
            # Where there is no room for a new file, the one that is there may do: what was told is to be
            # remembered.
            try:
                room = self._path.stat().st_size if isinstance(why.__cause__, OSError) else -1
            except OSError:
                room = -1
            if room < 0 or not overwrite(self._path, data.ljust(room, b"\n")):
                raise
        self._before = self.checkpoint()
