"""One child process at a time, also across a daemon that was killed and started again; and one that waits."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cn.system.systemd import VARIABLES
from cn.values.errors import CnError, Refused


def hold(path: Path) -> int | None:
    """Take the lock ``path`` until the descriptor is closed; None while somebody else has it.

    ``flock`` belongs to the open file: whoever inherits the descriptor holds it too (flock(2)).
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as why:
        raise Refused(f"cannot open the lock {path}: {why.strerror}", "make the hub writable") from why
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except BaseException:
        os.close(fd)
        raise
    return fd


GO = b"go\n"
"""The word that one that stands by waits for."""


class Child:
    """A running command. It holds a lock, so it is alone even after its parent was killed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @classmethod
    def start(cls, command: Sequence[str], folder: Path, lock: Path) -> Child | None:
        """Start ``command`` in ``folder``; None while an earlier child still holds ``lock``.

        It has our output, a session of its own (Ctrl-C reaches only us), none of systemd's
        variables, and our process id as ``CN_DAEMON``.
        """
        fd = hold(lock)
        if fd is None:
            return None
        try:
            return cls(_popen(command, folder, subprocess.DEVNULL, (fd,)))
        finally:
            os.close(fd)

    @classmethod
    def stand_by(cls, command: Sequence[str], folder: Path) -> Child:
        """Start ``command``, which is to wait for :meth:`go`. Until then it holds no lock, and does nothing.

        Its standard input is a pipe that only we hold: when we are gone, it reads the end.
        """
        return cls(_popen(command, folder, subprocess.PIPE, ()))

    def go(self) -> bool:
        """Let one that stands by begin; False when it is gone."""
        if self.poll() is not None or self._process.stdin is None:
            return False
        try:
            with self._process.stdin as pipe:
                pipe.write(GO)
        except OSError:
            return False
        return True

    def dismiss(self) -> None:
        """End one that stands by. It has begun nothing, so it need not finish anything."""
        self.end(signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def end(self, number: signal.Signals) -> None:
        """Send a signal to it and, for SIGKILL, to everything it started."""
        with suppress(ProcessLookupError, PermissionError):
            if number is signal.SIGKILL:
                os.killpg(self._process.pid, number)
            else:
                self._process.send_signal(number)


def _popen(command: Sequence[str], folder: Path, stdin: int, descriptors: tuple[int, ...]) -> subprocess.Popen[bytes]:
    """With our output, a session of its own, none of systemd's variables, and our process id."""
    env = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    env["CN_DAEMON"] = str(os.getpid())
    try:
        return subprocess.Popen(
            list(command), cwd=folder, env=env, stdin=stdin, pass_fds=descriptors, start_new_session=True
        )
    except OSError as why:
        raise CnError(f"cannot start {command[0]}: {why.strerror}", "is cn still installed there?") from why
