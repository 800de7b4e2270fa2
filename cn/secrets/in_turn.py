"""Search texts for several threads at once, so that nobody waits for long because another's text is long.

A small text is searched at once. Of large ones one is at work at a time, and lets the others go on after a while: they
share one processor's time among them, whatever is in them.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from cn.secrets.scanner import Enough, Finding, Pace, Text, find_secrets

LARGE: Final = 64 << 10
"""Characters above which a text waits for its turn."""
MOST: Final = 1000
"""Different secrets of a text that are looked for: one with more is refused whatever they are."""
_STEPS: Final = 500
"""Lines, or parts of a long one, that are searched before the next one's turn: some hundredths of a second."""


SECONDS: Final = 15.0
"""Of the processor's time that a search may take. A text that takes longer is made to: of the largest size plain ones
take half a second, and random bytes six."""


class _Line:
    """Those who want to search something large, in the order in which they get their turns."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting = deque[object]()

    def __len__(self) -> int:
        return len(self._waiting)

    @contextmanager
    def turn(self, who: object) -> Iterator[None]:
        """Wait for it, and leave the line at the end."""
        with self._changed:
            self._waiting.append(who)
            self._wait(who)
        try:
            yield
        finally:
            with self._changed:
                self._waiting.remove(who)
                self._changed.notify_all()

    def let_others(self, who: object) -> None:
        """Whose turn it is goes to the end of the line."""
        with self._changed:
            if len(self._waiting) > 1:
                self._waiting.rotate(-1)
                self._changed.notify_all()
                self._wait(who)

    def _wait(self, who: object) -> None:
        self._changed.wait_for(lambda: self._waiting[0] is who)


_LINE = _Line()


class _Turn(Pace):
    """The search of one large text."""

    def __init__(self) -> None:
        super().__init__(MOST)
        self._left = _STEPS
        self._begun = time.thread_time()

    def went_on(self) -> None:
        """After so many steps it is the next one's turn."""
        if time.thread_time() - self._begun > SECONDS:
            raise Enough(f"what takes longer than {SECONDS:g} s to search")
        self._left -= 1
        if not self._left:
            _LINE.let_others(self)
            self._left = _STEPS


def find_in_turn(texts: Sequence[Text]) -> list[Finding]:
    """What looks like a secret in what belongs together, as :func:`cn.secrets.scanner.find_secrets` tells it."""
    if sum(len(line) + 1 for text in texts for line in text.lines) <= LARGE:
        return find_secrets(texts, pace=Pace(MOST))
    turn = _Turn()
    with _LINE.turn(turn):
        return find_secrets(texts, pace=turn)
