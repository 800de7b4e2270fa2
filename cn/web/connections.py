"""Connections of which none keeps others out: whoever can open one to the port has time, and room, for a whole request.

Any user of the machine can connect to a port of its loopback. A connection waits while nothing whole that it asked is
unanswered; it is closed after some time, and at once when too many wait and it is the one that waits the longest.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

from cn.system.whole_bodies import WholeBodies

MOST = 200
"""Connections that are served at a time; uvicorn refuses what comes beyond them."""
WAITING = 100
"""So many of them may wait; the others are there for whoever asks for something."""
BACKLOG = WAITING // 2
"""So many are accepted in one turn of the event loop, and as many again before what the first ask is read: a burst ends
none of them before."""
SECONDS = 10.0
"""Seconds for a whole request."""


def patient_protocol(seconds: float = SECONDS, most: int = WAITING) -> type[H11Protocol]:
    """The protocol of one server's connections."""
    waiting: dict[H11Protocol, asyncio.TimerHandle] = {}

    class Patient(WholeBodies):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._look()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._look()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._look()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._go_on()

        def _look(self) -> None:
            if self.transport.is_closing():  # an answer to one that was ended takes nobody's place
                return
            if self.cycle and not self.cycle.response_complete and not self.cycle.more_body:
                self._go_on()
            elif self not in waiting:
                waiting[self] = self.loop.call_later(seconds, self._close)
                if len(waiting) > most:
                    next(iter(waiting))._end()  # type: ignore[attr-defined]

        def _go_on(self) -> None:
            if timer := waiting.pop(self, None):
                timer.cancel()

        def _close(self) -> None:
            """It stays among those who wait until what it was answered is sent."""
            self.transport.close()

        def _end(self) -> None:
            self._go_on()
            self.connections.discard(self)
            self.transport.abort()

    return Patient
