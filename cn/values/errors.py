"""What can go wrong: values for expected refusals, exceptions for everything else.

Every error names the input, the reason and the next step. ``cli`` turns them into
text, hint and exit code in one place.
"""

from __future__ import annotations

import errno
from typing import NamedTuple

EXIT_DONE = 0
EXIT_REFUSED = 1
EXIT_USAGE = 2
EXIT_CONFIG = 3
EXIT_MORE = 10
"""Under the daemon (``CN_DAEMON`` in the environment): all done, and more waits to be done."""
EXIT_AGAIN = 11
"""Under the daemon: no model was reached, and an item waits for one; it may be reached soon."""
EXIT_LOCKED = 75
"""``EX_TEMPFAIL`` of sysexits.h: try again later, another run holds the lock."""

EXIT_PIPE = 141
"""128 + SIGPIPE, as a shell tells it of other tools: whoever read the output has left."""

RAISE_ULIMIT = "raise the limit ('ulimit -f' shows it in a shell, LimitFSIZE= is a service's), then run again"


def explain_write(why: OSError) -> str:
    """What helps where a file could not be written."""
    return RAISE_ULIMIT if why.errno == errno.EFBIG else "is the disk full or read-only?"


class NotShown(OSError):
    """Standard output or error does not take what a command has to say (a full disk): its work is as it is."""


class CnError(Exception):
    """An error with the next step for the person who reads it.

    ``text`` says what and why, ``hint`` the remedy, ``exit_code`` what the process
    answers when the error ends it, ``step`` the remedy alone where ``hint`` also says that nothing
    was committed, ``told_before`` that it was told at an earlier run, ``finished``
    that the thing asked for is done all the same, ``plain`` text and hint without that, ``report`` what
    the run had to tell before it.
    """

    exit_code = EXIT_REFUSED

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.hint = self.step = hint
        self.told_before = False
        self.finished = False
        self.plain = text, hint
        self.report: object = None  # a Report, which is built upon this module

    def is_done(self, where: str) -> None:
        """It came after the commit point: ``where`` has what was asked for. Repeated, it is done twice."""
        if not self.finished:
            self.finished = True
            self.text = f"{where} has what was asked for, but it could not be finished: {self.text}"
            hint = self.step.replace("run again", "run 'cn sync'")
            self.hint = f"do not repeat it; {hint or 'the next run finishes it'}"


class Refused(CnError):
    """The thing asked for cannot be done in the state the hub is in."""

    @classmethod
    def by(cls, refusal: Refusal, remedy: str = "") -> Refused:
        """A rule said no to a command; ``remedy`` in place of the rule's own."""
        return cls(f"{refusal.rule}: {refusal.reason}", remedy or refusal.remedy)


class Blocked(Refused):
    """Nothing can be done here as long as something on this machine, or origin, is not mended."""

    @classmethod
    def uncommitted(cls, text: str, step: str, where: str = "") -> Blocked:
        """This run committed nothing (``where``: at least there); a part of it before may have."""
        error = cls(text, f"nothing was committed{where}; {step}")
        error.step = step
        return error

    @classmethod
    def by_system(cls, why: OSError) -> Blocked:
        """The system said no (disk, permission): what it says, and of which file."""
        where = f"{why.filename}: " if why.filename else ""
        step = RAISE_ULIMIT if why.errno == errno.EFBIG else "mend this, then run again"
        return cls(f"{where}{why.strerror or why}", f"nothing is lost; {step}")


class UsageError(CnError):
    """The words of the command are wrong."""

    exit_code = EXIT_USAGE


class ConfigError(CnError):
    """There is no hub, or its configuration cannot be read: file, line and remedy."""

    exit_code = EXIT_CONFIG


class LockHeld(CnError):
    """Another run of cn works on this hub; ``at_work``: it lives, and ends by itself."""

    exit_code = EXIT_LOCKED

    def __init__(self, text: str, hint: str = "", *, at_work: bool = False) -> None:
        super().__init__(text, hint)
        self.at_work = at_work


class Refusal(NamedTuple):
    """A rule said no. ``rule`` is its stable name, ``remedy`` the next step.

    ``notify`` tells whether the creator of the branch is the one who must act.
    """

    rule: str
    reason: str
    remedy: str = ""
    notify: bool = False
