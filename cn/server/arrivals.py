"""New connections by time: who opens them without pause is refused early, named, and ended.

To hold few connections is no bound where each is closed and opened anew at once: the kernel's queue of those that
nobody has taken yet is one for all, and what is done for each of one would be at the cost of the others.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Callable, Hashable
from typing import Any, Final

from cn.agency.operations import ByHandler

A_SECOND: Final = 10.0
"""New connections of a process, and of an agent, in the long run."""
AT_ONCE: Final = 100
"""So many of them may come at once."""
REFUSED: Final = 1000
"""Who had so many refused without a rest is named, and ended where it is an agent."""
_MOST_KNOWN: Final = 2000
_SILENT: Final = 60.0
_IN_A_TURN: Final = 256
"""So many are refused before others are served again."""
_QUEUE: Final = 4096
"""Connections that nobody has taken yet; the system may allow fewer (listen(2))."""
NEW: Final = "cn.new"
"""In the scope of a connection's first request: the process that opened it; 0 where that is not known."""


class Pace:
    """Of each kind :data:`AT_ONCE` go through, and :data:`A_SECOND` more; how many others came since it last rested."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, tuple[float, float, int]] = {}

    def takes(self, kind: Hashable, now: float) -> bool:
        """Does one more get through? ``now`` in seconds."""
        left, at, refused = self._kinds.pop(kind, (float(AT_ONCE), now, 0))
        left = min(float(AT_ONCE), left + (now - at) * A_SECOND)
        refused = 0 if left == AT_ONCE else refused
        taken = left >= 1
        self._kinds[kind] = left - taken, now, refused + (not taken)
        _forget_oldest(self._kinds)
        return taken

    def refused(self, kind: Hashable) -> int:
        """How many did not since it rested last."""
        return self._kinds[kind][2] if kind in self._kinds else 0


class Arrivals:
    """``flooded`` is told, once in :data:`_SILENT` seconds, which agent opens connections without pause, or which
    process where that shows no token; and how many were refused by then.
    """

    def __init__(
        self, flooded: Callable[[ByHandler | int, int], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._flooded, self._clock = flooded, clock
        self._processes, self._agents = Pace(), Pace()
        self._whose: dict[int, ByHandler] = {}
        self._told: dict[ByHandler | int, float] = {}

    def come(self, process: int) -> bool:
        """A process has opened a connection, and has shown nothing: is it read?"""
        taken = self._processes.takes(process, self._clock())
        self._tell(self._whose.get(process, process), self._processes.refused(process))
        return taken

    def show(self, process: int, agent: ByHandler) -> bool:
        """An agent's token came first over a new connection: is it answered?"""
        self._whose.pop(process, None)
        self._whose[process] = agent
        _forget_oldest(self._whose)
        taken = self._agents.takes(agent, self._clock())
        self._tell(agent, self._agents.refused(agent))
        return taken

    @property
    def told(self) -> list[ByHandler | int]:
        """Of whom that was told not long ago."""
        return [who for who, at in self._told.items() if self._clock() - at < _SILENT]

    def _tell(self, who: ByHandler | int, refused: int) -> None:
        if refused < REFUSED or self._clock() - self._told.get(who, -_SILENT) < _SILENT:
            return
        self._told.pop(who, None)
        self._told[who] = self._clock()
        _forget_oldest(self._told)
        self._flooded(who, refused)


def _forget_oldest(known: dict[Any, Any]) -> None:
    """The one that was put there last stands last."""
    if len(known) > _MOST_KNOWN:
        del known[next(iter(known))]


class Counted(socket.socket):
    """A Unix socket that listens, and closes at once what :class:`Arrivals` does not let come: its queue, which is one
    for all, is empty again before anything is read.
    """

    def __init__(self, arrivals: Arrivals) -> None:
        super().__init__(socket.AF_UNIX, socket.SOCK_STREAM)
        self._arrivals = arrivals

    def listen(self, backlog: int = 0) -> None:
        """With as long a queue as the system gives."""
        super().listen(max(backlog, _QUEUE))

    def accept(self) -> tuple[socket.socket, Any]:
        """The next one that is read."""
        for _ in range(_IN_A_TURN):
            found, address = super().accept()
            process = process_of(found)
            if not process or self._arrivals.come(process):
                return found, address
            found.close()
        raise BlockingIOError


def process_of(sock: socket.socket | None) -> int:
    """The process at the other end of a Unix socket; 0 where the system does not say, and at a port."""
    if sock is None or sock.family != socket.AF_UNIX or sys.platform != "linux":
        return 0
    found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", found)[0])
