"""Answer requests on sockets: one for agents and one for the user on this machine, and a port where one is wanted.

A connection to a Unix socket says of which user its process is (unix(7), ``SO_PEERCRED``); others than those that may
come are closed before they are read.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import uvicorn

from cn.bridge.owners import peer_of
from cn.server.door import App
from cn.server.sdk.connections import SECONDS, Bounds, Patient, Waiting, take_files

_GRACE = 5
_BACKLOG = 128
"""So many are accepted in one turn of the event loop, before what the first ask is read: half of what may wait."""


class _Server(uvicorn.Server):
    """One that leaves signals to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """None are."""
        yield

    async def listen(self, sock: socket.socket) -> None:
        """As at the start, at one more socket."""

        def protocol() -> asyncio.Protocol:
            given = {"config": self.config, "server_state": self.server_state, "app_state": self.lifespan.state}
            made: asyncio.Protocol = self.config.http_protocol_class(**given)
            return made

        self.servers.append(
            await asyncio.get_running_loop().create_server(protocol, sock=sock, backlog=self.config.backlog)
        )

    def leave(self, sock: socket.socket) -> None:
        """Take nobody more at a socket."""
        number = sock.fileno()
        for server in [one for one in self.servers if number in [found.fileno() for found in one.sockets]]:
            server.close()
            self.servers.remove(server)
        sock.close()


def _protocol(users: Collection[int], bounds: Bounds) -> type[Patient]:
    class Checked(Patient):
        waiting = Waiting(bounds)

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            if may_come(transport.get_extra_info("socket"), users):
                super().connection_made(transport)
            else:
                transport.abort()

        def data_received(self, data: bytes) -> None:
            if hasattr(self, "transport") and self.transport is not None:
                super().data_received(data)

        def connection_lost(self, exc: Exception | None) -> None:
            if hasattr(self, "transport") and self.transport is not None:
                super().connection_lost(exc)

    return Checked


def may_come(sock: Any, users: Collection[int]) -> bool:
    """Is the process at the other end of a Unix socket of one of these users? To a port anybody may come."""
    if sock is None or sock.family != socket.AF_UNIX:
        return True
    return peer_of(sock) in users


class Listener:
    """Requests on ``sockets``, answered by ``app``, until :meth:`close`."""

    def __init__(
        self, app: App, sockets: Sequence[socket.socket], users: Collection[int], bounds: Bounds | None = None
    ) -> None:
        bounds = bounds or take_files()
        config = uvicorn.Config(
            app,
            http=_protocol(users, bounds),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=int(SECONDS),
            timeout_graceful_shutdown=_GRACE,
            backlog=min(_BACKLOG, max(1, bounds.most // 2)),
        )
        self._server = _Server(config)
        self._task = asyncio.ensure_future(self._server.serve(sockets=[*sockets]))

    async def ready(self) -> None:
        """Until it answers; raises what keeps it from that."""
        while not self._server.started:
            if self._task.done():
                self._task.result()
                raise OSError("the server ended before it began")
            await asyncio.sleep(0.01)

    async def replace(self, old: socket.socket, new: socket.socket) -> None:
        """Answer at ``new`` from now on, and take no more at ``old``; who is connected there is answered."""
        await self._server.listen(new)
        self._server.leave(old)

    async def close(self) -> None:
        """Answer what was asked, and take no more."""
        self._server.should_exit = True
        await self._task
