"""Run the processor as a child of the daemon: one at a time, the next one loaded beforehand."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress

from cn.runtime.chat_delivery import next_send_time
from cn.runtime.daemon.monitor import Monitor, clock
from cn.system.child import Child
from cn.system.clock import now
from cn.system.systemd import Level
from cn.values.errors import EXIT_AGAIN, EXIT_LOCKED, EXIT_MORE, CnError
from cn.values.timestamps import format_second


class Runner:
    """Starts the processor and waits for it; :meth:`run_soon` has it run soon.

    It ends with :data:`EXIT_MORE` when more waits, with :data:`EXIT_LOCKED` when another
    run was in its way; one that was killed is started again within seconds; after anything else it comes again
    with the next message, or when ``times.period`` seconds are over. ``standby`` is the processor that loads all it
    needs and waits for a word (see :class:`Standby`), ``first`` what is added to the command at the start.
    """

    def __init__(
        self, monitor: Monitor, command: Sequence[str], standby: Sequence[str], first: Sequence[str] = ()
    ) -> None:
        self._monitor, self._command, self._first = monitor, command, first
        self._period = monitor.times.period or 0.0
        self._standby = Standby(monitor, standby)
        self._called = False
        self._news = asyncio.Event()

    def run_soon(self) -> None:
        """Something was queued."""
        self._called = True
        self._standby.keep_ready()
        self._news.set()

    def look_again(self) -> None:
        """Look again: a child ended, or the daemon stops."""
        self._news.set()

    async def run(self) -> None:
        """Run the child at the start, for each message, and once per period."""
        wait, killed = 0.0, 0
        try:
            while True:
                await self._wait_for_work(wait)
                if self._monitor.stop.is_set():
                    return
                self._called = False
                code = await self._run_child()
                killed = killed + 1 if code < 0 else 0
                if killed:
                    wait = min(self._period, self._monitor.times.again * 2 ** min(killed - 1, 20))
                    continue
                times = self._monitor.times
                waits = {EXIT_MORE: 0.0, EXIT_LOCKED: min(times.busy, self._period)}
                waits[EXIT_AGAIN] = min(times.unreached, self._period)
                # A text that a chat's server put off is sent when it may be.
                at, here = next_send_time(self._monitor.hub), now()
                soon = (at - here).total_seconds() + 1 if at and at > here else self._period
                wait = waits.get(code, min(self._period, soon))
        finally:
            self._standby.dismiss()

    async def _wait_for_work(self, seconds: float) -> None:
        """Until there is work, or the time is over; meanwhile the next processor gets ready."""
        deadline = clock() + seconds
        while not (self._called or self._monitor.stop.is_set()) and (left := deadline - clock()) > 0:
            self._news.clear()
            look = self._standby.update()
            with suppress(TimeoutError):  # SIGCHLD ends the pause at once
                await asyncio.wait_for(self._news.wait(), min(left, look))

    async def _run_child(self) -> int:
        child = self._standby.begin()
        if child is None:
            try:
                words, self._first = [*self._command, *self._first], ()
                child = Child.start(words, self._monitor.hub.root, self._monitor.hub.state / "processor.lock")
            except CnError as error:
                self._monitor.say(f"{error.text}; {error.hint}", Level.ERROR)
                return 1
        if child is None:
            self._monitor.say("an earlier processor still works")
            return EXIT_LOCKED
        self._monitor.health["child"] = {"pid": child.pid, "since": format_second(now())}
        code = await self._wait_for_end(child)
        self._monitor.health["child"] = None
        if code not in (0, EXIT_MORE):
            level = Level.INFO if code == EXIT_LOCKED else Level.WARNING
            self._monitor.say(f"the processor: {_ended(code)}", level)
        return code

    async def _wait_for_end(self, child: Child) -> int:
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
            self._news.clear()
            if child.poll() is None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._news.wait(), min(1.0, max(0.01, deadline - clock())))
        return code


class Standby:
    """The next processor, ready: what takes a second or more to import is imported before a message comes.

    It is kept for ``times.standby`` seconds after the daemon's start and after each message, then
    its memory is given back. One that ends by itself is replaced, more and more slowly.
    """

    def __init__(self, monitor: Monitor, command: Sequence[str]) -> None:
        self._monitor, self._command = monitor, command
        self._child: Child | None = None
        self._failed = 0
        self._from = 0.0
        self._until = 0.0
        self.keep_ready()

    def keep_ready(self) -> None:
        """From now on a message may come soon."""
        self._until = clock() + self._monitor.times.standby

    def update(self) -> float:
        """Start it, replace it, or let it go; tells in how many seconds to look again."""
        if self._child is not None and (code := self._child.poll()) is not None:
            self._child = None
            self._try_later(f"the waiting processor: {_ended(code)}")
        time = clock()
        if not self._command or time >= self._until:
            self.dismiss()
            return 3600.0
        if self._child is None and time >= self._from:
            try:
                self._child = Child.stand_by(self._command, self._monitor.hub.root)
            except CnError as error:
                self._try_later(error.text)
        return max(0.01, min(self._until, self._from if self._child is None else self._until) - time)

    def _try_later(self, reason: str) -> None:
        """Not at once again: what fails each time must not keep the machine busy."""
        pause = self._monitor.times.busy * 2 ** min(self._failed, 9)
        self._monitor.say(f"{reason}; another in {pause:.0f} s", Level.WARNING)
        self._failed += 1
        self._from = clock() + pause

    def begin(self) -> Child | None:
        """Let it begin; None when there is none."""
        child, self._child = self._child, None
        if child is None or not child.go():
            return None
        self._failed = 0
        return child

    def dismiss(self) -> None:
        """End it."""
        if self._child is not None:
            self._child.dismiss()
            self._child = None


def _ended(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"ended by {signal.Signals(-code).name}"
