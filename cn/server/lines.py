"""Whose turn it is among what one caller asks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class _Line:
    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.length = 0


class Lines:
    """One line for each caller: of those that stand in it one has its turn, in the order in which they came."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, _Line] = {}

    def length(self, caller: Hashable) -> int:
        """How many stand in the line of a caller, the one that has its turn included."""
        line = self._lines.get(caller)
        return line.length if line else 0

    @asynccontextmanager
    async def turn(self, caller: Hashable) -> AsyncIterator[bool]:
        """Wait for a turn, and give it back; did it have to be waited for?"""
        line = self._lines.setdefault(caller, _Line())
        line.length += 1
        try:
            waited = line.turn.locked()
            async with line.turn:
                yield waited
        finally:
            line.length -= 1
            if not line.length:
                self._lines.pop(caller, None)
