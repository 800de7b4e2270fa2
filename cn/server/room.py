"""Room for large requests: of one caller one is held at a time, and of all so many bytes, whoever sends them.

What a request says is in memory several times until it is answered: as it came, as text, as it is searched and written.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Final

IN_ALL: Final = 64 << 20
"""Bytes of the bodies of large requests that are under way."""


class _Line:
    """One caller's large requests: how many there are, and whose turn it is."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.length = 0


class Room:
    """Gives room in the order in which it is asked for: of a caller to one at a time, of all as there are bytes."""

    def __init__(self, bytes_in_all: int = IN_ALL) -> None:
        self._left = bytes_in_all
        self._lines: defaultdict[Hashable, _Line] = defaultdict(_Line)
        self._next, self._freed = asyncio.Lock(), asyncio.Event()

    @asynccontextmanager
    async def of(self, caller: Hashable, size: int) -> AsyncIterator[None]:
        """Wait for room, of at most what there is in all, and give it back."""
        line = self._lines[caller]
        line.length += 1
        try:
            async with line.turn, self._bytes(size):
                yield
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[caller]

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
