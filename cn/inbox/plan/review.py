"""A review: step through threads, decide some, and take steps back until it ends."""

from __future__ import annotations

from typing import NamedTuple

from cn.values.names import ThreadName


class Written(NamedTuple):
    """A decision that a review wrote into the working copy of a thread, which held ``before`` and holds ``after``.

    ``words`` are the decision as it stands there; ``final``: it ends the thread.
    """

    thread: ThreadName
    source: str
    words: str
    final: bool
    before: bytes
    after: bytes


class Review(NamedTuple):
    """The threads of a review in order, and for each that is behind what was written: None for one passed over."""

    queue: tuple[ThreadName, ...]
    steps: tuple[Written | None, ...] = ()

    @property
    def current(self) -> ThreadName | None:
        """The thread to look at now; None at the end."""
        return self.queue[len(self.steps)] if len(self.steps) < len(self.queue) else None

    @property
    def last(self) -> Written | None:
        """What the last step wrote."""
        return self.steps[-1] if self.steps else None

    @property
    def written(self) -> tuple[Written, ...]:
        """All that was written and not taken back, in order."""
        return tuple(step for step in self.steps if step is not None)

    def passed(self) -> Review:
        """The thread stays as it is; on to the next."""
        return self._replace(steps=(*self.steps, None))

    def decided(self, written: Written) -> Review:
        """The thread has a decision; on to the next."""
        return self._replace(steps=(*self.steps, written))

    def undone(self) -> Review:
        """One step back. What it wrote has been taken out of the file before."""
        return self._replace(steps=self.steps[:-1])
