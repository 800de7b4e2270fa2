"""Notify systemd, and write lines for its journal.

The notification protocol is one datagram per message (sd_notify(3)), a dozen lines here:
sdnotify on PyPI rests since 2017, and systemd-python needs a C library of the system.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from enum import IntEnum

from cn.system.clock import now
from cn.values.text import one_line, redact
from cn.values.timestamps import format_second

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
"""They are the daemon's own, and kept from its children."""


class Level(IntEnum):
    """Priorities of syslog(3), as the journal knows them (sd-daemon(3))."""

    ERROR = 3
    WARNING = 4
    INFO = 6


def notify(**fields: str | int) -> bool:
    """Tell systemd ``READY=1`` and the like; False where nobody listens. Never raises."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    lines = "\n".join(f"{name}={one_line(str(value), 200)}" for name, value in fields.items())
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.settimeout(1)
        sender.sendto(lines.encode(), "\0" + address[1:] if address[0] == "@" else address)
        return True
    return False


def watchdog_seconds() -> float | None:
    """After how many seconds of silence systemd ends us (sd_watchdog_enabled(3)); None: never."""
    text, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not text.isdigit() or int(text) == 0 or (pid and pid != str(os.getpid())):
        return None
    return int(text) / 1e6


class Lines:
    """One line per event on standard output, without ``secrets``; what matters less than ``least`` is left out.

    Under the journal a line begins with its priority, elsewhere with the time.
    """

    def __init__(self, secrets: Sequence[str] = (), least: Level = Level.INFO) -> None:
        self._secrets = [s for s in secrets if s]
        self._least = least
        self._journal = _is_journal()

    def say(self, text: str, level: Level = Level.INFO) -> None:
        """Write a line. Nobody reading any more is no reason to stop."""
        if level > self._least:
            return
        for secret in self._secrets:
            text = text.replace(secret, "***")
        mark = f"<{level:d}>" if self._journal else f"{format_second(now())} "
        with suppress(OSError, ValueError):
            print(mark + one_line(redact(text), 1000), flush=True)


def _is_journal() -> bool:
    """Is standard output the stream that ``JOURNAL_STREAM`` names (systemd.exec(5))?"""
    with suppress(OSError, ValueError):
        found = os.fstat(sys.stdout.fileno())
        return os.environ.get("JOURNAL_STREAM", "") == f"{found.st_dev}:{found.st_ino}"
    return False
