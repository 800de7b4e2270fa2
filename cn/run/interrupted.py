"""What the runs of this process have completed, for the one line printed at Ctrl-C and SIGTERM."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from cn.git.objects import is_ancestor, resolve
from cn.git.repository import Hub
from cn.transaction.journal import journal_path, push_path, read_journal
from cn.values.errors import CnError
from cn.values.names import Oid

_MOST = 20
_SECONDS = 0.7

opened: deque[tuple[Hub, set[Oid]]] = deque(maxlen=_MOST)
"""The last runs: the hub, not locked, and the commits that the run was about to publish. Signals belong to
the process, and may come when its run has ended and has told nobody yet: so this does too."""


def next_step_after_signal() -> str:
    """The next step for somebody who has interrupted this process."""
    if not opened:
        return "no run had begun; run it again"
    done = what_became()
    if done:
        return "it is committed: the next run, such as 'cn sync', finishes what was begun"
    if done is None:
        return (
            "origin may have it: 'cn sync' finds out, and finishes it; repeat it only if 'cn log' does not show it then"
        )
    return "nothing was committed; run it again"


def what_became() -> bool | None:
    """Has main something that the runs of this process committed? None: nobody here can tell, or none began."""
    try:
        with _soon():
            found = {_is_done(hub, made) for hub, commits in opened for made in commits}
    except (CnError, OSError):
        return None
    if True in found:
        return True
    return None if None in found or not opened else False


@contextmanager
def _soon() -> Iterator[None]:
    """Raise :class:`TimeoutError` where git does not answer in time: whoever sent the signal waits."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, _SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _is_done(hub: Hub, made: Oid) -> bool | None:
    """Does main have the commit, here or at origin? None: nobody here can tell."""
    main = resolve(hub.git, hub.main_ref)
    if main is not None and is_ancestor(hub.git, made, main):
        return True
    journal = read_journal(journal_path(hub))
    if hub.origin and journal is not None and journal.new == made:
        return True  # it is written after the push
    return None if push_path(hub, made).exists() else False
