"""In which order the branches of a peer are tried: what was never tried comes first, by how long it is listed; then
what was tried and did not come in, the longest ago first.

Whether a head was tried counts for it under all its names; of these, those that were tried themselves come last. So
nothing that somebody pushes under a peer's prefix keeps what was there before it from its turn, and nothing that comes
later overtakes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cn.protocol.ledger import IN
from cn.run.memory import Memory
from cn.values.names import Name, Oid, ThreadKey, digest

_LISTED, _TRIED = "listed", "tried"
_AGAIN = 4
"""One of so many in a run was tried before, also while there is more that was not."""


class Turns:
    """The turns of inbound heads. Both parts of the memory are in order: the oldest entry is the longest ago."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def note_listed(self, heads: dict[ThreadKey, Oid], kept: Sequence[Name]) -> None:
        """Remember since when these wait. What is not among them is forgotten, but for that of ``kept`` peers."""
        tried = {_tried(peer, head) for (peer, _), head in heads.items()}
        known = {_listed(key, head) for key, head in heads.items()}
        for name, found in ((_LISTED, known), (_TRIED, tried)):
            part = self._memory.section(name)
            for entry in [e for e in part if e not in found and e.partition(" ")[0] not in kept]:
                del part[entry]
        part = self._memory.section(_LISTED)
        for key, head in sorted(heads.items()):
            part.setdefault(_listed(key, head), 1)

    def note_tried(self, peer: Name, head: Oid, topic: str | None = None) -> None:
        """It was tried, and did not come in; by this name of it, where that alone was read."""
        listed = self._memory.section(_LISTED)
        if topic is not None and listed.pop(name := _listed((peer, topic), head), None) is not None:
            listed[name] = 1
        part = self._memory.section(_TRIED)
        part.pop(_tried(peer, head), None)
        part[_tried(peer, head)] = 1

    def choose(self, heads: dict[ThreadKey, Oid], most: int) -> list[ThreadKey]:
        """At most so many of a peer's branches, in the order of their turns."""
        listed, tried = _places(self._memory, _LISTED), _places(self._memory, _TRIED)
        last = {key: tried.get(_tried(key[0], head), -1) for key, head in heads.items()}
        order = sorted(heads, key=lambda key: (last[key], listed.get(_listed(key, heads[key]), len(listed)), key))
        fresh = [key for key in order if last[key] < 0]
        again = order[len(fresh) :]
        room = max(most - len(fresh), min(most // _AGAIN, len(again)))
        return fresh[: most - min(room, len(again))] + again[:room]


def _places(memory: Memory, section: str) -> dict[str, int]:
    part: dict[str, Any] = memory.section(section)
    return {entry: place for place, entry in enumerate(part)}


def _listed(key: ThreadKey, head: Oid) -> str:
    return f"{key[0]} {digest(IN, *key, head)}"


def _tried(peer: Name, head: Oid) -> str:
    return f"{peer} {head[:16]}"
