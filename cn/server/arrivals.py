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
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from cn.agency.operations import ByHandler

A_SECOND: Final = 10.0
"""New connections of one origin, and of an agent, in the long run."""
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
"""In the scope of a connection's first request: its :class:`Origin`; None where that is not known."""


class Origin(NamedTuple):
    """From where a connection over a Unix socket comes: a process, or the PID namespace of a sandbox
    (pid_namespaces(7)), to which each new process in it belongs. The other is 0; both are where the process is gone.
    """

    process: int = 0
    namespace: int = 0

    def __str__(self) -> str:
        return f"process {self.process}" if self.process else f"a sandbox (pid:[{self.namespace}])"


GONE: Final = Origin()


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
    """``flooded`` is told, once in :data:`_SILENT` seconds, which agent opens connections without pause, or from where
    they come that show no token; and how many were refused by then.
    """

    def __init__(
        self, flooded: Callable[[ByHandler | Origin, int], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._flooded, self._clock = flooded, clock
        self._origins, self._agents = Pace(), Pace()
        self._whose: dict[Origin, ByHandler] = {}
        self._told: dict[ByHandler | Origin, float] = {}

    def come(self, origin: Origin) -> bool:
        """A connection is there, and has shown nothing: is it read?"""
        taken = self._origins.takes(origin, self._clock())
        if origin != GONE:  # what nobody could look at names nobody
            self._tell(self._whose.get(origin, origin), self._origins.refused(origin))
        return taken

    def show(self, origin: Origin | None, agent: ByHandler) -> bool:
        """An agent's token came first over a new connection: is it answered?"""
        if origin not in (None, GONE):
            self._whose.pop(origin, None)
            self._whose[origin] = agent
            _forget_oldest(self._whose)
        taken = self._agents.takes(agent, self._clock())
        self._tell(agent, self._agents.refused(agent))
        return taken

    @property
    def told(self) -> list[ByHandler | Origin]:
        """Of whom that was told not long ago."""
        return [who for who, at in self._told.items() if self._clock() - at < _SILENT]

    def _tell(self, who: ByHandler | Origin, refused: int) -> None:
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
            origin = origin_of(found)
            if not origin or self._arrivals.come(origin):
                return found, address
            found.close()
        raise BlockingIOError


def origin_of(sock: socket.socket | None) -> Origin | None:
    """Of who is at the other end of a Unix socket (SO_PEERCRED, unix(7)); None where the system does not say, and at a
    port.
    """
    if sock is None or sock.family != socket.AF_UNIX or sys.platform != "linux":
        return None
    found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    process, _, _ = struct.unpack("3i", found)
    return _origin(process, int(time.monotonic()))


@lru_cache(256)
def _origin(process: int, _second: int) -> Origin:
    """A flood must cost less to refuse than to make: who it is, is looked up once a second."""
    namespace = _namespace(str(process))
    return Origin(process) if namespace in (None, _namespace("self")) else Origin(namespace=namespace or 0)


def _namespace(process: str) -> int | None:
    """The PID namespace of a process; 0 where it is gone, None where it is another user's, which is not shown to us."""
    try:
        return Path("/proc", process, "ns/pid").stat().st_ino
    except PermissionError:
        return None
    except OSError:
        return 0
