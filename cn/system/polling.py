"""Wait for files by poll(2): of epoll(7) the kernel grants a user so many watches, which a program of that user's may
use up in seconds, from within any sandbox. Then nothing that waits by it begins (``ENOSPC``).
"""

from __future__ import annotations

import selectors
from collections.abc import Coroutine
from typing import Final, TypeVar

Result = TypeVar("Result")
Selector: Final[type[selectors.BaseSelector]] = getattr(selectors, "PollSelector", selectors.DefaultSelector)


def run(work: Coroutine[object, object, Result]) -> Result:
    """As ``asyncio.run``."""
    import asyncio

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(Selector())) as runner:
        return runner.run(work)
