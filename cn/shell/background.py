"""A git that works in the background: begun now, its answer taken later."""

from __future__ import annotations

import selectors

from cn.shell.git import Done, Git, Job, Running, look


class Background:
    """One call for git, at work until somebody waits for it.

    What it says must fit into a pipe (pipe(7): 64 KiB), or it waits itself until then. Like every network
    child it dies with cn.
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
        try:
            while (done := self._child.poll()) is None:
                look(self._selector, self._child.deadline)
            return done
        finally:
            self.end()

    def end(self) -> None:
        """Let go of it; what still runs is killed."""
        self._child.end()
        self._selector.close()
