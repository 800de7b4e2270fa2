"""Requests of which none costs more than it sends: a body in chunks, of which each may be one byte, is not read, and
what is asked behind a request that is at work is kept for a while alone.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

_MOST_HEADERS: Final = 64 << 10
"""Bytes of the line and the headers of a request."""
_MOST_AHEAD: Final = 64 << 10
"""Bytes that are kept behind a request that is at work (RFC 9112, section 9.3.2, "Pipelining")."""
_WHY: Final = b"a body in chunks is not read: say its length, with Content-Length\n"
_LENGTH_REQUIRED: Final = (
    b"HTTP/1.1 411 Length Required\r\nconnection: close\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_WHY), _WHY)
)
"""The answer to a request that says no length (RFC 9110, section 15.5.12)."""


class _Parser(h11.Connection):
    """``refused``: a request had a body in chunks."""

    refused = False

    def next_event(self) -> Any:
        """What came next; raises :class:`h11.RemoteProtocolError` for such a request, before a chunk is looked at."""
        event = super().next_event()
        if isinstance(event, h11.Request) and any(name == b"transfer-encoding" for name, _ in event.headers):
            self.refused = True
            raise h11.RemoteProtocolError("a body in chunks", error_status_hint=411)
        return event


class WholeBodies(H11Protocol):
    """A connection that takes bodies of a length alone: who reads a chunk (RFC 9112, section 7.1) pays for it, however
    short it is.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.conn: _Parser = _Parser(h11.SERVER, _MOST_HEADERS)

    def data_received(self, data: bytes) -> None:
        """A part of a request, or more; who sends on without end while one is at work is heard no more."""
        super().data_received(data)
        if self.conn.their_state is not h11.SEND_BODY and len(self.conn.trailing_data[0]) > _MOST_AHEAD:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """The answer to what is no request that is taken; it ends the connection."""
        if self.conn.refused:
            self.transport.write(_LENGTH_REQUIRED)
            self.transport.close()
        else:
            super().send_400_response(msg)
