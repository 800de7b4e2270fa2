"""Connections of which none keeps others out: who waits without asking anything is bounded, in all and by who it is.

A connection waits while nothing whole that it asked is unanswered, or its answer is not read. It is of the agent whose
token came over it last, before that of the process at its other end; what showed no token goes before what did.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from cn.server.arrivals import NEW, process_of
from cn.server.door import CALLER
from cn.server.toolbox import Caller
from cn.system.whole_bodies import WholeBodies

FILES = 4096
"""Files that the server may have open, where the system lets it."""
MOST = 256
"""Connections that wait at a time; fewer where the system gives us few files."""
OF_ONE = 64
"""So many of them of one agent, or of one process that has shown no token."""
UNREAD = 128 << 20
"""Bytes of answers that nobody reads, in all."""
UNREAD_OF_ONE = 32 << 20
"""Of those, of one agent or process; an answer has 11 MB at most."""
SECONDS = 300.0
"""Seconds for a whole request, and for the next one."""


class Bounds(NamedTuple):
    """How many connections wait, in all and of one, for how long, and with how many bytes that they do not read."""

    most: int = MOST
    of_one: int = OF_ONE
    seconds: float = SECONDS
    unread: int = UNREAD
    unread_of_one: int = UNREAD_OF_ONE


class Waiting:
    """The connections of one server that wait, the one that waits longest first."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._found: dict[Patient, asyncio.TimerHandle] = {}

    def add(self, one: Patient) -> None:
        """It waits; where that are too many, the one that waits longest goes: of the same, or of all."""
        if one not in self._found:
            self._add(one)
        if one.unread:
            self._bound([other for other in self._found if other.whose == one.whose], self.bounds.unread_of_one)
            self._bound([*self._found], self.bounds.unread)

    def _bound(self, some: Sequence[Patient], most: int) -> None:
        """Of those that do not read their answers the first go, until the others have so many bytes."""
        for one in some:
            if sum(other.unread for other in some if other in self._found) <= most:
                return
            if one.unread:
                one.end()

    def _add(self, one: Patient) -> None:
        self._found[one] = one.loop.call_later(self.bounds.seconds, one.end)
        same = [other for other in self._found if other.whose == one.whose]
        if len(same) > self.bounds.of_one:
            same[0].end()
        elif len(self._found) > self.bounds.most:
            strange = (other for other in self._found if not other.is_known)
            next(strange, next(iter(self._found))).end()

    def remove(self, one: Patient) -> None:
        """It does not wait any more."""
        if timer := self._found.pop(one, None):
            timer.cancel()


class Patient(WholeBodies):
    """One connection. ``waiting`` are all of its server."""

    waiting: Waiting
    whose: Hashable = None
    is_known = False
    _has_asked = False

    @property
    def unread(self) -> int:
        """Bytes of answers that wait for whoever asked to read them."""
        return self.transport.get_write_buffer_size()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """It may ask."""
        super().connection_made(transport)
        self.whose = process_of(transport.get_extra_info("socket"))
        self._look()

    def data_received(self, data: bytes) -> None:
        """A part of a request, or more."""
        super().data_received(data)
        if self.scope is not None and not self._has_asked:
            self._has_asked = True
            self.scope[NEW] = True  # type: ignore[typeddict-unknown-key]
        self._look()

    def on_response_complete(self) -> None:
        """By then it is known who asked."""
        caller = (self.scope or {}).get(CALLER)
        self.is_known = isinstance(caller, Caller)
        if isinstance(caller, Caller):
            self.waiting.remove(self)
            self.whose = caller.principal
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        """What was answered is not read."""
        super().pause_writing()
        self._look()

    def resume_writing(self) -> None:
        """It is."""
        super().resume_writing()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        super().connection_lost(exc)
        self.waiting.remove(self)

    def end(self) -> None:
        """Now."""
        self.waiting.remove(self)
        self.connections.discard(self)
        self.transport.abort()

    def _look(self) -> None:
        cycle = self.cycle
        asked = cycle and not cycle.response_complete and not cycle.more_body and not self.flow.write_paused
        if asked:
            self.waiting.remove(self)
        elif not self.transport.is_closing() or self.transport.get_write_buffer_size():
            self.waiting.add(self)


def take_files() -> Bounds:
    """Raise the limit of open files to what the system lets us, and leave room beside connections for what we do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    most = MOST if soft == resource.RLIM_INFINITY else max(8, min(MOST, soft // 4))
    return Bounds(most, min(OF_ONE, -(-most // 2)))
