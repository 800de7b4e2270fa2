"""What comes again and again is said a few times within a while, and counted: nothing buries a log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from cn.values.text import counted

WHILE: Final = 60.0
"""Seconds."""
Kind = TypeVar("Kind", bound=Hashable)


class Few(Generic[Kind]):
    """Lets ``most`` of each kind through within :data:`WHILE`. ``clock`` gives seconds."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock, self._since = most, clock, clock()
        self._come: Counter[Kind] = Counter()

    def takes(self, kind: Kind) -> bool:
        """Does one more of it get through?"""
        self._come[kind] += 1
        return self._come[kind] <= self._most

    def begin_anew(self) -> dict[Kind, int]:
        """What was kept out, and how often, once its time is over; before :meth:`takes`."""
        if self._clock() - self._since < WHILE:
            return {}
        kept_out = {kind: come - self._most for kind, come in self._come.items() if come > self._most}
        self._come.clear()
        self._since = self._clock()
        return kept_out


class FewLines:
    """``say``, by which ``most`` lines get through within :data:`WHILE`; how many were kept out is said with the first
    one that comes when that is over.
    """

    def __init__(
        self, say: Callable[[str], None], most: int, about: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say, self._few, self._about = say, Few[str](most, clock), about

    def __call__(self, text: str) -> None:
        """One more line."""
        for about, more in self._few.begin_anew().items():
            self._say(f"{about}: {counted(more, 'more line')}")
        if self._few.takes(self._about):
            self._say(text)
