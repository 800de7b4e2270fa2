"""The processor as a child of the daemon: one at a time, as often as there is work."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress

from cn.app.monitor import Monitor, clock
from cn.core.errors import EXIT_LOCKED, EXIT_MORE, CnError
from cn.core.stamp import format_second
from cn.shell.child import Child
from cn.shell.clock import now
from cn.shell.service import Level


class Runner:
    """Starts the processor and waits for it. Set ``work`` to have it run soon.

    It ends with :data:`EXIT_MORE` when more waits, with :data:`EXIT_LOCKED` when another
    run was in its way; after anything else it comes again with the next message, or when
    ``period`` seconds are over.
    """

    def __init__(self, monitor: Monitor, command: Sequence[str], period: float) -> None:
        self._monitor, self._command, self._period = monitor, command, period
        self.work = asyncio.Event()
        self._stir = asyncio.Event()

    def stir(self) -> None:
        """Look again: a child ended, or the daemon stops."""
        self._stir.set()
        if self._monitor.stop.is_set():
            self.work.set()

    async def run(self) -> None:
        """Run the child at the start, for each message, and once per period."""
        wait = 0.0
        while True:
            if wait:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.work.wait(), wait)
            if self._monitor.stop.is_set():
                return
            self.work.clear()
            code = await self._run_child()
            waits = {EXIT_MORE: 0.0, EXIT_LOCKED: min(self._monitor.times.busy, self._period)}
            wait = waits.get(code, self._period)

    async def _run_child(self) -> int:
        try:
            child = Child.start(
                self._command, self._monitor.hub.root, self._monitor.hub.state / "processor.lock"
            )
        except CnError as error:
            self._monitor.say(f"{error.text}; {error.hint}", Level.ERROR)
            return 1
        if child is None:
            self._monitor.say("an earlier processor still works")
            return EXIT_LOCKED
        self._monitor.health["child"] = {"pid": child.pid, "since": format_second(now())}
        code = await self._finish(child)
        self._monitor.health["child"] = None
        if code not in (0, EXIT_MORE):
            reason = f"exit code {code}" if code >= 0 else f"ended by {signal.Signals(-code).name}"
            level = Level.INFO if code == EXIT_LOCKED else Level.WARNING
            self._monitor.say(f"the processor: {reason}", level)
        return code

    async def _finish(self, child: Child) -> int:
        """Wait for it; at the end of its time ask it to stop, then make it."""
        deadline = clock() + self._monitor.times.limit
        steps = iter((signal.SIGTERM, signal.SIGKILL))
        stopping = False
        while (code := child.poll()) is None:
            if self._monitor.stop.is_set() and not stopping:
                stopping = True
                deadline = min(deadline, clock() + self._monitor.times.grace)
            if clock() >= deadline:
                number = next(steps, signal.SIGKILL)
                self._monitor.say(f"the processor takes too long: {number.name}", Level.WARNING)
                child.end(number)
                deadline = clock() + self._monitor.times.kill
            self._stir.clear()
            if child.poll() is None:
                with suppress(TimeoutError):  # SIGCHLD ends the pause at once
                    await asyncio.wait_for(self._stir.wait(), min(1.0, max(0.01, deadline - clock())))
        return code
