"""Standard output and error: what cannot be written there is no failure of the work that it tells of."""

from __future__ import annotations

import io
import os
import select
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from cn.values.errors import NotShown

if TYPE_CHECKING:
    from typing_extensions import Buffer


def guard_streams() -> None:
    """Let what fails in writing standard output or error be told apart, and characters that they lack be shown."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            with suppress(OSError, ValueError):
                stream.flush()
            raw = _Guarded(stream.fileno(), "w", closefd=False)
            # A terminal that cannot show ✓ gets \\u2713, not an error.
            kind = _Terminal if raw.isatty() else io.TextIOWrapper
            made = kind(io.BufferedWriter(raw), stream.encoding, "backslashreplace", "\n", stream.line_buffering)
            setattr(sys, name, made)


class _Terminal(io.TextIOWrapper):
    """A terminal: no character that hides, moves or reorders what is shown reaches it, whoever forgot to look."""

    def write(self, text: str, /) -> int:
        """As :meth:`io.TextIOWrapper.write`, of the text that is seen."""
        from cn.values.text import for_terminal  # what runs from cron has no terminal

        super().write(for_terminal(text))
        return len(text)


class _Guarded(io.FileIO):
    """A descriptor whose failure is raised once as :class:`NotShown`; what is written afterwards goes nowhere."""

    def write(self, data: Buffer, /) -> int:
        """As :meth:`io.FileIO.write`; where nobody takes it just now, it waits, also without ``O_NONBLOCK``'s error."""
        try:
            while (written := super().write(data)) is None:
                select.select([], [self], [])
        except BrokenPipeError:
            raise
        except OSError as why:
            lead_nowhere(self.fileno())
            raise NotShown(why.errno, why.strerror) from why
        return written


def give_up_unread() -> None:
    """Where a signal ends the process: what nobody reads is not waited for. A further signal ends it at once."""
    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    for descriptor in (1, 2):
        with suppress(OSError, ValueError):
            if not select.select([], [descriptor], [], 0)[1]:
                lead_nowhere(descriptor)


def lead_nowhere(number: int) -> None:
    """Let a descriptor take what is still to be written, and lose it: the end of the process writes what is left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)
