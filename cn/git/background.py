"""A git that runs in the background: started now, its answer read later.

:class:`Background` is for what talks to a network, :class:`LocalBackground` for what changes this clone.
"""

from __future__ import annotations

import selectors
import time
from contextlib import suppress

from cn.git.process import LOCAL_SECONDS, Done, Git, Job, Running, answer_of, read_pipes

_TO_SPEAK = 5.0
"""Seconds to say what there is to be said, however late it is."""


class Background:
    """One call for git, at work until somebody waits for it.

    What does not fit into a pipe (pipe(7): 64 KiB) it says when it is waited for. Like every network child
    it dies with cn.
    """

    def __init__(self, git: Git, job: Job) -> None:
        self._selector = selectors.DefaultSelector()
        try:
            self._child = Running.start(git, job, self._selector)
        except BaseException:
            self._selector.close()
            raise

    def wait(self) -> Done:
        """Its answer, within the time that the job gives it. Interrupted, it is killed."""
        # It may have stood still for a while: what it had to say nobody took.
        self._child.deadline = max(self._child.deadline, time.monotonic() + _TO_SPEAK)
        try:
            while (done := self._child.poll()) is None:
                read_pipes(self._selector, self._child.deadline)
            return done
        finally:
            self.end()

    def leave(self) -> None:
        """Wait no more, and let the other side end what it is at."""
        self._child.leave()
        self.end()

    def end(self) -> None:
        """Let go of it; what still runs is killed."""
        self._child.end()
        self._selector.close()


class LocalBackground:
    """A git that reads ``stdin`` to its end before it says a word.

    Like every local one it holds the hub's lock, and ends its work also where cn dies.
    """

    def __init__(self, git: Git, *args: str, stdin: bytes) -> None:
        self._args = args
        self._child = git.start(*args)
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):  # it says why
            self._child.stdin.write(stdin)
        with suppress(BrokenPipeError):
            self._child.stdin.close()
        self._child.stdin = None  # communicate would write to it

    def wait(self) -> Done:
        """Its answer, whatever it is."""
        return answer_of(self._child, self._args, seconds=LOCAL_SECONDS)
