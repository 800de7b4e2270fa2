"""Work that waits on other hosts: in threads of its own, a few for one caller, and ended when its caller has ended.

A host may never answer. So nothing else waits behind such work, and nobody waits for its threads: what they wait for is
a git, and that is ended.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias, TypeVar

from cn.agency.operations import Principal
from cn.agency.plan.plan import SAME_REQUEST
from cn.agency.plan.result import Refused
from cn.git.children import Children
from cn.server.tool import View
from cn.values.errors import CnError

T = TypeVar("T")
UNAVAILABLE = "unavailable"
_THREADS = 32
_ONE_CALLERS = 3
"""Pieces of work of one caller at a time, those that wait for a thread included."""
_LAST = 1.0
"""Seconds in which what was ended says so."""


class Hands:
    """What one piece of work has: threads, and the gits that it starts, which may be ended meanwhile."""

    def __init__(self, threads: asyncio.Semaphore) -> None:
        self._threads, self.gits, self._loop = threads, Children(), asyncio.get_running_loop()

    def ask(self, question: Coroutine[Any, Any, T]) -> T:
        """The answer of the event loop, for what is done in a thread."""
        return asyncio.run_coroutine_threadsafe(question, self._loop).result()

    async def in_thread(self, do: Callable[[], T | Refused]) -> T | Refused:
        """Have it done in a thread; refused where it was ended before it was done."""
        async with self._threads:
            try:
                found: T | Refused = await _in_thread(do) if not self.gits.ended else self._over()
            except CnError:
                if not self.gits.ended:
                    raise
                found = self._over()
        return self._over() if self.gits.ended and isinstance(found, Refused) else found

    def _over(self) -> Refused:
        return Refused(UNAVAILABLE, f"it was ended before it was done: {self.gits.ended}", "ask again later")


Work: TypeAlias = Callable[[Hands], Coroutine[Any, Any, View | Refused]]


class _Begun(NamedTuple):
    """A piece of work: whose, under which name, what was asked, and with what it is done."""

    principal: Principal
    name: str
    asked: object
    hands: Hands


class FarWork:
    """All of it. Belongs to one event loop."""

    def __init__(self, threads: int = _THREADS) -> None:
        self._threads = asyncio.Semaphore(threads)
        self._begun: dict[asyncio.Task[View | Refused], _Begun] = {}
        self._closed = ""

    @property
    def principals(self) -> Collection[Principal]:
        """For whom something is done now."""
        return {one.principal for one in self._begun.values()}

    async def do(self, principal: Principal, work: Work, name: str = "", asked: object = None) -> View | Refused:
        """Have it done. What is ``asked`` under a ``name`` that is at work gets that answer; it is done to its end also
        where who asked hangs up.
        """
        mine = {task: one for task, one in self._begun.items() if one.principal == principal}
        for task, one in mine.items():
            if name and one.name == name:
                same = one.asked == asked
                other = Refused(SAME_REQUEST, f"request {name!r} was for something else", "take a new id for it")
                return await asyncio.shield(task) if same else other
        if self._closed:
            return Refused(UNAVAILABLE, f"nothing was done: {self._closed}", "ask again later")
        if len(mine) >= _ONE_CALLERS:
            why = f"{len(mine)} clones or pushes of this agent wait for other machines already"
            return Refused(UNAVAILABLE, why, "wait for their answers")
        hands = Hands(self._threads)
        task = asyncio.create_task(work(hands))
        self._begun[task] = _Begun(principal, name, asked, hands)
        task.add_done_callback(lambda done: self._begun.pop(done, None))
        return await asyncio.shield(task)

    def end(self, principal: Principal, why: str) -> None:
        """End what is done for one who has ended."""
        for one in self._begun.values():
            if one.principal == principal:
                one.hands.gits.end(why)

    async def close(self) -> None:
        """End all of it, and begin nothing more; what does not end at once is left alone."""
        self._closed = "the server ends"
        for one in self._begun.values():
            one.hands.gits.end(self._closed)
        if left := [*self._begun]:
            _, waiting = await asyncio.wait(left, timeout=_LAST)
            for task in waiting:
                task.cancel()


async def _in_thread(do: Callable[[], T]) -> T:
    """In a thread that the interpreter does not wait for at its end, as it does for those of a pool."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def work() -> None:
        told: Callable[[Any], None] = answer.set_result
        try:
            value: Any = do()
        except BaseException as why:
            told, value = answer.set_exception, why
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(_tell, answer, told, value)

    threading.Thread(target=work, name="far", daemon=True).start()
    return await answer


def _tell(answer: asyncio.Future[Any], told: Callable[[Any], None], value: Any) -> None:
    """Who asked may be gone."""
    if not answer.done():
        told(value)
