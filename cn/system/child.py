"""One child process at a time, also across a daemon that was killed and started again; and one that waits."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cn.system.files import hold
from cn.system.systemd import VARIABLES
from cn.values.errors import CnError

GO = b"go\n"
"""The word that one that stands by waits for."""


class Child(subprocess.Popen[bytes]):
    """A running command. One that was started holds a lock, so it is alone even after its parent was killed.

    It has our output, a session of its own (Ctrl-C reaches only us), none of systemd's variables, and our
    process id as ``CN_DAEMON``.
    """

    def __init__(self, command: Sequence[str], folder: Path, stdin: int, descriptors: tuple[int, ...] = ()) -> None:
        env = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        env["CN_DAEMON"] = str(os.getpid())
        try:
            super().__init__(
                list(command), cwd=folder, env=env, stdin=stdin, pass_fds=descriptors, start_new_session=True
            )
        except OSError as why:
            raise CnError(f"cannot start {command[0]}: {why.strerror}", "is cn still installed there?") from why

    @classmethod
    def start(cls, command: Sequence[str], folder: Path, lock: Path) -> Child | None:
        """Start ``command`` in ``folder``; None while an earlier child still holds ``lock``."""
        fd = hold(lock)
        if fd is None:
            return None
        try:
            return cls(command, folder, subprocess.DEVNULL, (fd,))
        finally:
            os.close(fd)

    @classmethod
    def stand_by(cls, command: Sequence[str], folder: Path) -> Child:
        """Start ``command``, which is to wait for :meth:`go`. Until then it holds no lock, and does nothing.

        Its standard input is a pipe that only we hold: when we are gone, it reads the end.
        """
        return cls(command, folder, subprocess.PIPE)

    def go(self) -> bool:
        """Let one that stands by begin; False when it is gone."""
        if self.poll() is not None or self.stdin is None:
            return False
        try:
            with self.stdin as pipe:
                pipe.write(GO)
        except OSError:
            return False
        return True

    def dismiss(self) -> None:
        """End one that stands by. It has begun nothing, so it need not finish anything."""
        self.end(signal.SIGKILL)
        self.wait()
        if self.stdin is not None:
            self.stdin.close()

    def end(self, number: signal.Signals) -> None:
        """Send a signal to it and, for SIGKILL, to everything it started."""
        with suppress(ProcessLookupError, PermissionError):
            if number is signal.SIGKILL:
                os.killpg(self.pid, number)
            else:
                self.send_signal(number)
