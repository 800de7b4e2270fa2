"""How fast a caller may go on with what costs everybody: large answers of other servers, each read and searched.

The first comes as fast as it can; then calls wait until what was answered is as old as it would be at a steady pace.
Who gets small answers never waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Final

LARGE: Final = 64 << 10
"""Bytes of an answer up to which it costs next to nothing."""
RATE: Final = 2 << 20
"""Bytes of large answers a second."""
AT_ONCE: Final = 8
"""Calls of one caller that are under way, whose answers may all be large."""


class _Caller:
    def __init__(self, at_once: int) -> None:
        self.room, self.turn = asyncio.Semaphore(at_once), asyncio.Lock()
        self.under_way, self.goes_on = 0, 0.0


class Pace:
    """One pace for each caller; ``clock`` gives seconds."""

    def __init__(self, rate: float = RATE, at_once: int = AT_ONCE, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._at_once, self._clock = rate, at_once, clock
        self._callers: dict[Hashable, _Caller] = {}

    @asynccontextmanager
    async def of(self, caller: Hashable) -> AsyncIterator[Callable[[int], None]]:
        """Wait for its turn; what is given hears how many bytes the answer had."""
        self._forget()
        one = self._callers.setdefault(caller, _Caller(self._at_once))
        one.under_way += 1
        try:
            async with one.room:
                async with one.turn:
                    while (wait := one.goes_on - self._clock()) > 0:
                        await asyncio.sleep(wait)

                def answered(size: int) -> None:
                    if size > LARGE:
                        one.goes_on = max(one.goes_on, self._clock()) + size / self._rate

                yield answered
        finally:
            one.under_way -= 1

    def _forget(self) -> None:
        now = self._clock()
        over = [caller for caller, one in self._callers.items() if not one.under_way and one.goes_on <= now]
        for caller in over:
            del self._callers[caller]
