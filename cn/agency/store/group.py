"""Bring what many callers of one process ask at the same time together into one write.

A write costs as much for thirty operations as for one. Whoever comes while nobody writes does it, for all who came
since; the others wait for their own answers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

_Q = TypeVar("_Q")
_A = TypeVar("_A")


class Group(Generic[_Q, _A]):
    """Calls ``perform`` with several questions at once; it gives an answer, or an exception, for each.

    ``gather`` is how many seconds whoever writes waits for others, if others came during the write before; ``most``
    is how many questions one write takes.
    """

    def __init__(
        self, perform: Callable[[Sequence[_Q]], Sequence[_A | Exception]], gather: float = 0.002, most: int = 100
    ) -> None:
        self._perform, self._gather, self._most = perform, gather, most
        self._waiting: list[tuple[_Q, Future[_A]]] = []
        self._state = threading.Lock()
        self._writing = threading.Lock()
        self._busy = False

    def ask(self, question: _Q) -> _A:
        """The answer to this question, once what was written for it is on disk. Raises what is its own."""
        mine: Future[_A] = Future()
        with self._state:
            self._waiting.append((question, mine))
        with self._writing:  # who comes in finds its answer, or writes for all who wait
            while not mine.done():
                self._write()
        return mine.result()

    def _write(self) -> None:
        if self._busy:
            time.sleep(self._gather)
        with self._state:
            taken, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
        try:
            answers = self._perform([question for question, _ in taken])
        except BaseException as error:  # of all of them, also of a signal that came to one thread
            for _, future in taken:
                future.set_exception(error)
            raise
        for (_, future), answer in zip(taken, answers, strict=True):
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        self._busy = len(taken) > 1
