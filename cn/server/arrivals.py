"""New connections by time: who opens them without pause is refused early, named, and ended.

To hold few connections is no bound where each is closed and opened anew at once: the kernel's queue of those that
nobody has taken yet is one for all, and what is done for each of one would be at the cost of the others.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Hashable, Mapping
from itertools import islice
from typing import Any, Final, NewType, TypeAlias

from cn.agency.names import Uuid
from cn.system.ancestors import ancestors

A_SECOND: Final = 10.0
"""New connections of an agent, or of a process that is no agent's, in the long run."""
AT_ONCE: Final = 100
"""So many of them may come at once."""
REFUSED: Final = 1000
"""Who had so many refused without a rest is named, and ended where it is an agent."""
_MOST_KNOWN: Final = 2000
_DEEP: Final = 2000
_SILENT: Final = 60.0
IN_A_TURN: Final = 64
"""So many are refused before others are served again."""
_QUEUE: Final = 4096
"""Connections that nobody has taken yet; the system may allow fewer (listen(2))."""
NEW: Final = "cn.new"
"""In the scope of a connection's first request."""
Pid = NewType("Pid", int)
Origin: TypeAlias = Uuid | Pid
"""From where connections come: an agent, or a process that is no agent's."""
GONE: Final = Pid(0)
"""All processes that were gone when somebody looked, or of which nobody can say whose they are."""


class Agents:
    """Whose a process is: below which launcher of an agent it runs. What a launcher began, also what was left by its
    parent, is below it (PR_SET_CHILD_SUBREAPER, prctl(2)), in whichever namespace, session or user.

    ``launchers`` gives them, process → agent. It is asked once a second, and so is the system about a process: a flood
    must cost less to refuse than to make.
    """

    def __init__(self, launchers: Callable[[], Mapping[int, Uuid]]) -> None:
        self._launchers, self._now, self._second = launchers, dict[int, Uuid](), -1
        self._known: dict[int, Origin | None] = {}
        """For this second the agent of each process that was looked at; None: of none. Of a flood by ever new
        processes, however deep, each costs one step to what is known."""

    def whose(self, process: int) -> Origin:
        """The agent, else the process itself; :data:`GONE` where nobody can say, since there is none any more, or it is
        one of more than :data:`_DEEP`, each started by the other.
        """
        if self._second != (second := int(time.monotonic())):
            self._second, self._now = second, dict(self._launchers())
            self._known.clear()
        if process not in self._known:
            self._look(process)
        known = self._known[process]
        return Pid(process) if known is None else known

    def _look(self, process: int) -> None:
        above, found = list[int](), None
        for one in islice(ancestors(process), _DEEP):
            if one in self._now or one in self._known:
                found = self._now.get(one, self._known.get(one))
                break
            above.append(one)
        if len(above) == _DEEP or (not above and found is None and not _is_there(process)):
            found = GONE
        self._known |= dict.fromkeys([*above, process], found)


def _is_there(process: int) -> bool:
    """Also one that the system hides from us (``hidepid``, proc(5))."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


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
    process; and how many were refused by then. ``agents`` knows whose a process is.
    """

    def __init__(
        self, flooded: Callable[[Origin, int], None], agents: Agents, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._flooded, self.agents, self._clock = flooded, agents, clock
        self._origins, self._tokens = Pace(), Pace()
        self._told: dict[Origin, float] = {}

    def come(self, origin: Origin) -> bool:
        """A connection is there, and has shown nothing: is it read?"""
        return self._takes(self._origins, origin)

    def show(self, agent: Uuid) -> bool:
        """An agent's token came first over a new connection, from wherever: is it answered?"""
        return self._takes(self._tokens, agent)

    @property
    def told(self) -> list[Origin]:
        """Of whom that was told not long ago."""
        return [who for who, at in self._told.items() if self._clock() - at < _SILENT]

    def _takes(self, pace: Pace, who: Origin) -> bool:
        taken, refused = pace.takes(who, self._clock()), pace.refused(who)
        if who != GONE and refused >= REFUSED and self._clock() - self._told.get(who, -_SILENT) >= _SILENT:
            self._told.pop(who, None)
            self._told[who] = self._clock()
            _forget_oldest(self._told)
            self._flooded(who, refused)
        return taken


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
        self._arrivals, self._left = arrivals, IN_A_TURN

    def listen(self, backlog: int = 0) -> None:
        """With as long a queue as the system gives."""
        super().listen(max(backlog, _QUEUE))

    def accept(self) -> tuple[socket.socket, Any]:
        """The next one that is read; none, which ends the turn of the event loop, once :data:`IN_A_TURN` were refused
        since that came last: else the more is taken in a turn, the more is refused in it, and the longer the next is.
        """
        try:
            while self._left:
                found, address = super().accept()
                process = process_of(found)
                if not process or self._arrivals.come(self._arrivals.agents.whose(process)):
                    return found, address
                found.close()
                self._left -= 1
            raise BlockingIOError
        except BlockingIOError:
            self._left = IN_A_TURN
            raise


def process_of(sock: socket.socket | None) -> int:
    """The process at the other end of a Unix socket (SO_PEERCRED, unix(7)); 0 where the system does not say, and at a
    port.
    """
    if sock is None or sock.family != socket.AF_UNIX or sys.platform != "linux":
        return 0
    found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", found)[0])
