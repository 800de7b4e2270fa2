"""One stream for each open page: which parts of it have changed (server-sent events, HTML standard 9.2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

from starlette.concurrency import run_in_threadpool

from cn.git.repository import Hub
from cn.web.fingerprint import read_fingerprint

POLL = 0.3
"""Seconds between two looks at the hub, while somebody watches."""
BEAT = 15.0
"""Seconds after which a stream says that it is there; ages on a page change meanwhile."""
RETRY = b"retry: 1000\n\n"
ALIVE = b": alive\n\n"


class Watcher:
    """Looks at the hub while streams are open, and wakes them when it has changed."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._news = asyncio.Event()
        self._open = 0
        self._task: asyncio.Task[None] | None = None
        self.stopped = False

    async def changed(self) -> None:
        """Return when the hub has changed, after a while in any case, and when the server ends."""
        news = self._news
        try:
            await asyncio.wait_for(news.wait(), BEAT)
        except TimeoutError:
            return

    def stop(self) -> None:
        """The server ends."""
        self.stopped = True
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _look(self) -> None:
        before = await run_in_threadpool(read_fingerprint, self._hub)
        while self._open and not self.stopped:
            await asyncio.sleep(POLL)
            after = await run_in_threadpool(read_fingerprint, self._hub)
            if after != before:
                before = after
                self._wake()

    async def stream(self, digests: Callable[[], Mapping[str, str]], seen: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The events of a page. ``digests`` draws it; ``seen`` is what the browser has."""
        self._open += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())
        known = dict(seen)
        try:
            yield RETRY
            while not self.stopped:
                found = await run_in_threadpool(digests)
                names = [name for name, digest in found.items() if known.get(name) != digest]
                known = dict(found)
                yield f"event: changed\ndata: {' '.join(names)}\n\n".encode() if names else ALIVE
                await self.changed()
        finally:
            self._open -= 1
