"""What libraries log in this process: who spoke, where, and of what kind the error is; never a value.

They put what others said into their messages, shortened or written in other ways, where no mask finds a secret. So of a
record is said which line of the library's code made it, as that line stands in its file, and of an exception its kind
and its place. What one line makes again and again, as a client that sends no requests can have it do, is counted.
"""

from __future__ import annotations

import asyncio
import linecache
import logging
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import PurePath
from types import TracebackType
from typing import Any, Final, TextIO

from cn.server.few import Few
from cn.system.systemd import Level

ABOUT: ContextVar[str] = ContextVar("about", default="")
"""Of which other server it is, in the tasks that are its own."""
_PACKAGES: Final = ("site-packages", "dist-packages")
_OURS: Final = PurePath(__file__).parents[1]
"""The package itself: a folder that holds a clone may be called ``cn`` too."""
_LONGEST: Final = 120
_MOST: Final = 5
"""So many records of one line of code are said within a while."""
Say = Callable[[str, Level], None]


def take_logs(say: Say) -> None:
    """From now on all logs of libraries, warnings and errors that nobody awaits are said by ``say``, in one line each.

    It is for a process that serves until it ends: nothing gives them back.
    """
    root = logging.getLogger()
    root.handlers[:] = [Told(say)]
    root.setLevel(logging.WARNING)

    def warned(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        _say(say, f"{category.__name__} at {_place(filename, lineno)}", Level.WARNING)

    def ended(found: threading.ExceptHookArgs) -> None:
        if found.exc_value is not None and not isinstance(found.exc_value, SystemExit):
            _say(say, f"a thread ended: {kind_and_place(found.exc_value)}", Level.ERROR)

    def lost(found: Any) -> None:
        if found.exc_value is not None:
            _say(say, f"nobody heard of {kind_and_place(found.exc_value)}", Level.ERROR)

    warnings.showwarning = warned
    threading.excepthook = ended
    sys.unraisablehook = lost


def kind_and_place(why: BaseException) -> str:
    """What it is, and where in the code it was raised; of a group its first. Nothing of what it says."""
    while isinstance(why, BaseExceptionGroup):
        why = why.exceptions[0]
    kind, where = type(why).__name__, _last(why.__traceback__)
    return f"{kind} at {where}" if where else kind


class Told(logging.Handler):
    """Says records. ``clock`` gives seconds."""

    def __init__(self, say: Say, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._say_line = say
        self._few = Few[tuple[str, int]](_MOST, clock)

    def emit(self, record: logging.LogRecord) -> None:
        """Who, where, the line of its code, and the error's kind."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, asyncio.CancelledError):  # no fault: a request waited when the server was to end
            return
        level = Level.ERROR if record.levelno >= logging.ERROR else Level.WARNING
        for (path, line), more in self._few.begin_anew().items():
            _say(self._say_line, f"{more} more at {_place(path, line)}", Level.WARNING)
        if not self._few.takes((record.pathname, record.lineno)):
            return
        spoken = linecache.getline(record.pathname, record.lineno).strip()[:_LONGEST]
        text = f"{record.name} at {_place(record.pathname, record.lineno)}: {spoken}"
        _say(self._say_line, f"{text}: {kind_and_place(error)}" if error else text, level)

    def handleError(self, record: logging.LogRecord) -> None:
        """The library's way would print the record."""


def _say(say: Say, text: str, level: Level) -> None:
    about = ABOUT.get()
    say(f"{about}: {text}" if about else text, level)


def _last(trace: TracebackType | None) -> str:
    """The innermost place, and before it the innermost of ours."""
    frames = traceback.extract_tb(trace)
    places = [_place(frame.filename, frame.lineno or 0) for frame in frames]
    ours = [place for place in places if place.startswith("cn/")]
    return ", from ".join(dict.fromkeys([*places[-1:], *ours[-1:]]))


def _place(filename: str, line: int) -> str:
    """A file as it stands in its package, and a line in it."""
    path = PurePath(filename)
    parts = path.parts
    for name in _PACKAGES:
        if name in parts:
            parts = parts[len(parts) - parts[::-1].index(name) :]
            break
    else:
        parts = path.relative_to(_OURS.parent).parts if path.is_relative_to(_OURS) else parts[-2:]
    return f"{'/'.join(parts)}:{line}"
