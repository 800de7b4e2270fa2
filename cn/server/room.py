"""Room for large requests: of one caller one is held at a time, and of all so many bytes, whoever sends them.

What a request says is in memory several times until it is answered: as it came, as text, as it is searched and written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Final

from cn.server.lines import Lines

IN_ALL: Final = 64 << 20
"""Bytes of the bodies of large requests that are under way."""


class Room:
    """Gives room in the order in which it is asked for: of a caller to one at a time, of all as there are bytes."""

    def __init__(self, bytes_in_all: int = IN_ALL) -> None:
        self._left = bytes_in_all
        self._lines = Lines()
        self._next, self._freed = asyncio.Lock(), asyncio.Event()

    @asynccontextmanager
    async def of(self, caller: Hashable, size: int) -> AsyncIterator[None]:
        """Wait for room, of at most what there is in all, and give it back."""
        async with self._lines.turn(caller), self._bytes(size):
            yield

    @asynccontextmanager
    async def _bytes(self, size: int) -> AsyncIterator[None]:
        async with self._next:
            while self._left < size:
                self._freed.clear()
                await self._freed.wait()
            self._left -= size
        try:
            yield
        finally:
            self._left += size
            self._freed.set()
