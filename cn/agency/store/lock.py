"""One writer at a time: ``flock`` on a file, waited for in turn (flock(2)).

The git that moves the ref inherits the descriptor: what a killed process leaves behind in the middle of an update
holds the lock until it has ended. Threads of one process share the descriptor, so a lock of their own stands before it.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cn.system.files import hold, open_lock, read_regular
from cn.values.errors import Blocked, LockHeld
from cn.values.text import one_line

_SHORTEST, _LONGEST = 0.0005, 0.01
"""Seconds between two looks: a write takes two thousandths."""
_TURN = ".turn"


class WriteLock:
    """The lock at ``path``. ``fd`` is what a child that changes the repository inherits."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._threads = threading.Lock()
        try:
            self.fd = open_lock(path)
        except OSError as why:
            raise Blocked(f"cannot open the lock {path}: {why.strerror}", "make the folder writable") from why

    @contextmanager
    def held(self, wait: float) -> Iterator[None]:
        """Hold it; raises :class:`LockHeld` after ``wait`` seconds."""
        deadline = time.monotonic() + wait
        if not self._threads.acquire(timeout=max(0.0, wait)):
            raise self._held_by()
        try:
            if not self._take():
                self._wait(deadline)
            try:
                yield
            finally:
                fcntl.flock(self.fd, fcntl.LOCK_UN)
        finally:
            self._threads.release()

    def _take(self) -> bool:
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as why:  # ENOLCK of a network file system without locks
            raise Blocked(f"cannot lock {self.path}: {why.strerror}", "keep the hub on a disk of this machine") from why
        os.pwrite(self.fd, f"pid {os.getpid():<10}\n".encode(), 0)
        return True

    def _wait(self, deadline: float) -> None:
        """Whoever waits stands at a second lock first: one who has just let go comes behind them."""
        turn = None
        try:
            pause = _SHORTEST
            while True:
                if turn is None:
                    turn = hold(self.path.with_name(self.path.name + _TURN))
                if turn is not None and self._take():
                    return
                if time.monotonic() >= deadline:
                    raise self._held_by()
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST)
        finally:
            if turn is not None:
                os.close(turn)

    def _held_by(self) -> LockHeld:
        owner = one_line((read_regular(self.path, 40) or b"").decode("utf-8", "replace").strip(), 40)
        return LockHeld(
            f"another process writes Agency's records ({owner or 'unknown'})", "try again when it has ended"
        )

    def close(self) -> None:
        """Let go of the file."""
        os.close(self.fd)
