"""What a process of ours does not take over from whoever started it, before anything else (signal(7), execve(2)).

The standard library alone, and of that next to nothing: the bridge and a sync with nothing new begin here too.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal without the 3 ms of its enums
import errno
import os

_OTHERS_MAY_WRITE, _OWN_BITS = 0o002, 0o700

closed: set[int] = set()
"""The streams (0, 1, 2) that the caller had closed: what stands there instead is empty, and nobody said that."""


def take_umask() -> None:
    """Take the caller's umask (umask(2)) over, but for two things.

    No file of ours may be written by others: a decision that another user writes into a thread would be carried out. A
    group may write where its user says so. And none is closed to its own owner: the next run could not read it.
    """
    os.umask(os.umask(0o077) & ~_OWN_BITS | _OTHERS_MAY_WRITE)


def refuse_signals() -> None:
    """Children are waited for, and no signal is held back, whatever the caller's own choice.

    Where SIGCHLD is ignored, children leave no exit code (wait(2), Notes), and Python takes 0 for it: each git that
    failed would have succeeded. A blocked SIGTERM, SIGALRM or SIGCHLD would neither end a run nor wake it, and every
    child would have the same mask. That SIGINT or SIGHUP are ignored stays so: a shell does that to what runs beside
    it, nohup(1) to what is to stay.
    """
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


def is_for_memory(why: Exception) -> bool:
    """Was there no memory, by a limit of the caller's (setrlimit(2), ``RLIMIT_AS``) or of the machine?

    Where a library in C cannot be loaded for it, that is an :class:`ImportError`.
    """
    if isinstance(why, ImportError):
        return "failed to map" in str(why)
    return isinstance(why, MemoryError) or (isinstance(why, OSError) and why.errno == errno.ENOMEM)
