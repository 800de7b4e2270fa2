"""Counts what a process does to the world, and kills it at one of these steps.

Python imports this module by its name when its folder is on ``PYTHONPATH``. ``CN_KILL_LOG``
names the file to which each step is written, ``CN_KILL_AT`` the step to die at, as
``NUMBER:before``, ``NUMBER:after`` (a file is open and nothing written to it; a started process
lives on for as long as it can without us) or ``NUMBER:both`` (what was started dies too). With
``NUMBER:child`` the process that was started dies, and nobody else; ``NUMBER:INT``, ``NUMBER:TERM`` or
``NUMBER:STOP``: that signal comes before the step, and the process goes on (after STOP, when it is continued).
``CN_KILL_ROOT`` is the folder that counts.

A step is a process that is started (a git that only reads is written down as ``read``), or a file below the
root that is opened for writing, renamed, linked or removed, or a folder made or removed.
What changes nothing (making a folder that is there) is none: before and after are the same.
The end of one step, as of a process that has ended, is the time before the next.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
# fmt: off
_READERS = {
    "cat-file", "check-attr", "check-ref-format", "diff", "diff-files", "diff-index", "diff-tree",
    "for-each-ref", "log", "ls-files", "ls-remote", "ls-tree", "merge-base", "name-rev", "rev-list",
    "rev-parse", "show", "show-ref", "var", "version",
}
# fmt: on
_READING = {"config": ("--get", "--get-all", "--get-regexp", "--list"), "remote": ("get-url",)}
_PATHS = {"os.rename", "os.remove", "os.link", "os.symlink", "os.rmdir", "os.mkdir", "os.truncate"}


class _Steps:
    def __init__(self, log: str, at: str, root: str) -> None:
        self.root = os.path.realpath(root)
        number, _, self.when = at.partition(":")
        self.at = int(number or 0)
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if log else -1
        self.count = 0
        self.opening = False
        self.lock = threading.RLock()

    def step(self, kind: str, what: str) -> int:
        with self.lock:
            self.count += 1
            if self.log >= 0:
                os.write(self.log, f"{self.count} {kind} {what!r}\n".encode())
            if self.count == self.at and self.when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            number = self.count
        if number == self.at and self.when in ("INT", "TERM", "STOP"):
            os.kill(os.getpid(), signal.Signals[f"SIG{self.when}"])
        return number

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = args
            if isinstance(flags, int) and flags & _WRITES and self.counts(path) and not self.opening:
                number = self.step("open", os.fsdecode(path))
                if number == self.at and self.when == "after":
                    self.opening = True
                    os.open(path, flags, 0o666)
                    os.kill(os.getpid(), signal.SIGKILL)
        elif event in _PATHS and self.counts(args[0]) and os.path.lexists(args[0]) != (event == "os.mkdir"):
            self.step(event, os.fsdecode(args[0]))

    def counts(self, path: object) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        text = os.path.abspath(os.fsdecode(path))
        return text.startswith(self.root + os.sep)


def _reads(words: list[str]) -> bool:
    """Is it a git that changes nothing? Its subcommand is the first word that is no option."""
    if os.path.basename(words[0]) != "git":
        return False
    rest = iter(words[1:])
    for word in rest:
        if word in ("-c", "-C"):
            next(rest)
        elif not word.startswith("-"):
            return word in _READERS or any(option in _READING.get(word, ()) for option in rest)
    return True


def _install(steps: _Steps) -> None:
    real = subprocess.Popen.__init__

    def start(self: subprocess.Popen[Any], *args: Any, **kwargs: Any) -> None:
        said = args[0] if args else kwargs["args"]
        words = [said] if isinstance(said, str) else [os.fsdecode(word) for word in said]
        number = steps.step("read" if _reads(words) else "start", " ".join(words))
        real(self, *args, **kwargs)
        if number != steps.at or steps.when not in ("after", "both", "child"):
            return
        if steps.when == "child":
            time.sleep(number % 4 * 0.001)
            os.kill(self.pid, signal.SIGKILL)
            return
        if steps.when == "both":
            time.sleep(number % 8 * 0.002)  # somewhere in the middle of its work
            os.kill(self.pid, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    subprocess.Popen.__init__ = start  # type: ignore[method-assign]
    sys.addaudithook(steps.hook)


_log, _at = os.environ.pop("CN_KILL_LOG", ""), os.environ.pop("CN_KILL_AT", "")
_root = os.environ.pop("CN_KILL_ROOT", "")
if _root:
    _install(_Steps(_log, _at, _root))
