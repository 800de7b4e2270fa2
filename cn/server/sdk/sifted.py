"""What another server says without being asked: the library, which makes a task of each message, gets few of them.

A task waits for as long as the server likes. So of notifications the one that matters sets a mark, however often it
comes, and of requests so many are open, and come within a while, as a server has use for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import anyio
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from cn.server.few import Few

_MOST_OPEN: Final = 20
_MOST_ASKED: Final = 60
"""Requests, within a while. We offer a server nothing, so what it may ask is whether we are there."""
_CHANGED: Final = "notifications/tools/list_changed"


@asynccontextmanager
async def sifted(transport: AbstractAsyncContextManager[Any], changed: Callable[[], None]) -> AsyncIterator[Any]:
    """The same, of which answers are passed on, and few requests; ``changed`` hears that there are other tools."""
    async with transport as (reads, writes):
        asked = _Asked()
        yield _Read(reads, asked, changed), _Written(writes, asked)


class _Asked:
    """Requests of the server that are not answered yet, and those of a while."""

    def __init__(self) -> None:
        self._open, self._few = 0, Few[None](_MOST_ASKED)

    def takes(self) -> bool:
        """Is there room for one more? It is open then."""
        self._few.begin_anew()
        if self._open >= _MOST_OPEN or not self._few.takes(None):
            return False
        self._open += 1
        return True

    def answered(self) -> None:
        """One less is open."""
        self._open -= 1


class _Read:
    """The messages that are passed on."""

    def __init__(self, inner: Any, asked: _Asked, changed: Callable[[], None]) -> None:
        self._inner, self._asked, self._changed = inner, asked, changed

    @property
    def last_context(self) -> Any:
        """The sender's variables, which the library looks for."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Any:
        """The next one."""
        while True:
            item = await self._inner.receive()
            if self._passes(getattr(item, "message", None)):
                return item

    def _passes(self, message: Any) -> bool:
        match message:
            case JSONRPCResponse() | JSONRPCError():
                return True
            case JSONRPCRequest():
                return self._asked.takes()
            case JSONRPCNotification(method=method) if method == _CHANGED:
                self._changed()
        return False  # what cannot be read is an exception here, of which the log has been told

    async def aclose(self) -> None:
        """Read no more."""
        await self._inner.aclose()

    def __aiter__(self) -> _Read:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> _Read:
        return self

    async def __aexit__(self, *why: Any) -> None:
        await self.aclose()


class _Written:
    """What we say; that a request was answered is counted once the server has taken it, or never will."""

    def __init__(self, inner: Any, asked: _Asked) -> None:
        self._inner, self._asked = inner, asked

    async def send(self, item: Any) -> None:
        """Say it."""
        try:
            await self._inner.send(item)
        finally:
            if isinstance(item.message, JSONRPCResponse | JSONRPCError):
                self._asked.answered()

    async def aclose(self) -> None:
        """Say no more."""
        await self._inner.aclose()

    async def __aenter__(self) -> _Written:
        return self

    async def __aexit__(self, *why: Any) -> None:
        await self.aclose()
