"""Whose turn it is to get an agent, where more wait than may work at once (``docs/agency.md``, "Whose turn it is").

At each handler, from the root down, the choice is between itself and the branches of its underlings: itself, unless the
last turn among these was its own; then the branch in which the fewest work, then the one whose last turn is the longest
ago. So no branch gets more by having more handlers, and a boss is never kept out by those below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from cn.agency.names import Uuid

_FIRST, _BRANCH, _LAST = range(3)
_LATER: Final = 2**53
"""More than the number of any event."""


class Claim(NamedTuple):
    """A handler that waits or works. ``line`` are those above it from the root down, and itself; ``since`` is the
    number of the event from which on it waits, ``had`` that of the lease of its last agent (0: it had none).
    """

    line: tuple[Uuid, ...]
    since: int
    had: int

    @property
    def handler(self) -> Uuid:
        """Whose it is."""
        return self.line[-1]


_Key: TypeAlias = tuple[tuple[int, int, int, int], ...]


def in_turn(waiting: Sequence[Claim], working: Sequence[Claim]) -> list[Claim]:
    """Those that wait, in the order in which they get what becomes free."""
    left, busy, order = list(waiting), list(working), list[Claim]()
    while left:
        branches = _Branches(left, busy)
        taken = min(left, key=lambda one: (branches.key(one), one.since, one.handler))
        left.remove(taken)
        busy.append(taken._replace(had=_LATER + len(order)))
        order.append(taken)
    return order


class _Branches:
    """For each handler how many work in its branch, the last turn there and of itself, and since when one waits."""

    def __init__(self, waiting: Sequence[Claim], working: Sequence[Claim]) -> None:
        self._live: dict[Uuid, int] = {}
        self._had: dict[Uuid, int] = {}
        self._below: dict[Uuid, int] = {}
        self._since: dict[Uuid, int] = {}
        for one in (*waiting, *working):
            for id in one.line:
                self._had[id] = max(self._had.get(id, 0), one.had)
            for id in one.line[:-1]:
                self._below[id] = max(self._below.get(id, 0), one.had)
        for one in working:
            for id in one.line:
                self._live[id] = self._live.get(id, 0) + 1
        for one in waiting:
            for id in one.line:
                self._since[id] = min(self._since.get(id, one.since), one.since)

    def key(self, one: Claim) -> _Key:
        """The smallest comes first."""
        way = [(_BRANCH, self._live.get(id, 0), self._had[id], self._since[id]) for id in one.line[1:]]
        own = _FIRST if one.had <= self._below.get(one.handler, 0) else _LAST
        return (*way, (own, 0, 0, 0))
