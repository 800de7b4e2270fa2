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
from contextlib import contextmanager, suppress
from pathlib import Path

from cn.system.closed import blame
from cn.system.files import is_alive, open_lock, read_regular
from cn.values.errors import Blocked, LockHeld
from cn.values.shell_words import command
from cn.values.text import one_line, visible

_LOOK = 0.0005
"""Seconds between two looks of the one who is next: a write takes two thousandths."""
TURN = ".turn"


class WriteLock:
    """The lock at ``path``. ``fd`` is what a child that changes the repository inherits."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._threads = threading.Lock()
        self.fd = _open(path)

    @contextmanager
    def held(self, wait: float) -> Iterator[None]:
        """Hold it; raises :class:`LockHeld` after ``wait`` seconds."""
        deadline = time.monotonic() + wait
        if not self._threads.acquire(timeout=max(0.0, wait)):
            raise self._held_by()
        try:
            self._take_in_turn(deadline)
            try:
                yield
            finally:
                fcntl.flock(self.fd, fcntl.LOCK_UN)
        finally:
            self._threads.release()

    def _take_in_turn(self, deadline: float) -> None:
        """Whoever has the turn is the one who waits for the lock: who has just let go comes behind the others."""
        turn = _Turn(self.path.with_name(self.path.name + TURN))
        try:
            if not turn.wait(deadline):
                raise self._held_by()
            while not self._take():
                if time.monotonic() >= deadline:
                    raise self._held_by()
                time.sleep(_LOOK)
        finally:
            turn.leave()

    def _take(self) -> bool:
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as why:  # ENOLCK of a network file system without locks
            raise Blocked(f"cannot lock {self.path}: {why.strerror}", "keep the hub on a disk of this machine") from why
        with suppress(OSError):  # the disk may be full
            os.pwrite(self.fd, f"pid {os.getpid():<10}\n".encode(), 0)
        return True

    def _held_by(self) -> LockHeld:
        owner = one_line((read_regular(self.path, 40) or b"").decode("utf-8", "replace").strip(), 40)
        number = owner.removeprefix("pid ")
        if number.isdigit() and is_alive(int(number)):
            return LockHeld(f"another process writes Agency's records ({owner})", "try again when it has ended")
        text = f"no cn writes Agency's records, and yet {visible(str(self.path))} is locked"
        return LockHeld(text, f"{command('fuser -v {}', str(self.path))} names who; end that, then try again")

    def close(self) -> None:
        """Let go of the file."""
        os.close(self.fd)


class _Turn:
    """A place in the queue of those who want the lock, which the system keeps: first come, first served.

    Waiting for it knows no time limit (flock(2)), so a thread does it, and gives it back if nobody wants it any more.
    """

    def __init__(self, path: Path) -> None:
        self._fd = _open(path)
        self._state = threading.Lock()
        self._has, self._left = threading.Event(), False

    def wait(self, deadline: float) -> bool:
        """Is it ours, by then at the latest?"""
        with suppress(BlockingIOError):
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._has.set()
            return True
        threading.Thread(target=self._wait, daemon=True).start()
        return self._has.wait(max(0.0, deadline - time.monotonic()))

    def _wait(self) -> None:
        with suppress(OSError):
            fcntl.flock(self._fd, fcntl.LOCK_EX)
        with self._state:
            self._has.set()
            if self._left:
                os.close(self._fd)

    def leave(self) -> None:
        """It is the next one's; where it never came, the thread that waits for it closes it."""
        with self._state:
            self._left = True
            if self._has.is_set():
                os.close(self._fd)


def _open(path: Path) -> int:
    """To be locked it need not be written (flock(2)): where nothing can be, the write says what is in its way."""
    try:
        return open_lock(path)
    except OSError as why:
        with suppress(OSError):
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        text, remedy = blame(why) or (f"{path}: {why.strerror}", "make the folder writable")
        raise Blocked(f"cannot open the lock {text}", remedy) from why
