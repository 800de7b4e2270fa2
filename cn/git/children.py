"""Gits of one piece of work that another thread may have to end: a host that they wait for may never answer."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from contextlib import suppress

from cn.git.process import kill_group

_GRACE = 0.5
"""Seconds that one which was asked to end has to take its locks away."""


class Children:
    """Those that were started and may still run (:attr:`cn.git.process.Git.children`). Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started: list[subprocess.Popen[bytes]] = []
        self._ended = ""

    @property
    def ended(self) -> str:
        """Why they were ended; empty where they were not."""
        return self._ended

    def add(self, child: subprocess.Popen[bytes]) -> None:
        """One more; where the work was ended meanwhile it ends at once."""
        with self._lock:
            self._started = [one for one in self._started if one.returncode is None]
            self._started.append(child)
            ended = bool(self._ended)
        if ended:
            _end([child])

    def end(self, why: str) -> None:
        """End all of them with what they started, and whatever is started from now on."""
        with self._lock:
            if self._ended:
                return
            self._ended = why
            running = [one for one in self._started if one.returncode is None]
        _end(running)


def _end(running: list[subprocess.Popen[bytes]]) -> None:
    for child in running:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGTERM)
    last = threading.Timer(_GRACE, _kill, [running])
    last.daemon = True
    last.start()


def _kill(running: list[subprocess.Popen[bytes]]) -> None:
    """What did not end when it was asked to."""
    for child in running:
        if child.returncode is None:
            kill_group(child)
