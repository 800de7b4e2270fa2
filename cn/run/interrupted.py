"""What the runs of this process have completed, and whom they waited for: what is printed at Ctrl-C and SIGTERM."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from cn.git.objects import is_ancestor, resolve
from cn.git.process import unanswered
from cn.git.repository import Hub, open_hub
from cn.run.memory import Memory
from cn.system.clock import now
from cn.transaction.journal import journal_path, push_path, read_journal
from cn.values.errors import CnError
from cn.values.names import Oid
from cn.values.shell_words import command

_MOST = 20
_SECONDS = 0.7

opened: deque[tuple[Hub, set[Oid]]] = deque(maxlen=_MOST)
"""The last runs: the hub, not locked, and the commits that the run was about to publish. Signals belong to
the process, and may come when its run has ended and has told nobody yet: so this does too."""

_LONG = 3.0
"""Seconds without an answer after which a peer counts as one that does not answer, where a signal ends the run that
asks it: one that answers within these is never counted."""
_waited: dict[str, int] = {}
"""The peers that were noted so, with the seconds."""


def note_unanswered(memory: Memory, peers: Mapping[str, str]) -> None:
    """A signal ends a run: note which of ``peers``, by URL, had not answered for long.

    They are left alone for a while, as after a hang. Else a run that always has less time than one of them would wait
    for that one again and again, and nothing of the others would arrive or go.
    """
    for name, url in peers.items():
        if (seconds := unanswered.get(url, 0.0)) >= _LONG:
            _waited[name] = int(seconds)
            reason = f"no answer in {int(seconds)} s, when the run was ended"
            memory.unreachable.failed(name, reason, cut_at=now())


def note_without_run(root: Path, peers: Mapping[str, str]) -> None:
    """:func:`note_unanswered` where the lock is held, and no run is open. Raises :class:`CnError` and ``OSError``."""
    memory = Memory(open_hub(root), now()).know_hubs(peers)
    note_unanswered(memory, peers)
    memory.save()


def told_of_unanswered() -> tuple[str, str]:
    """Which peers had not answered, and what becomes of that; nothing where all had."""
    if not _waited:
        return "", ""
    text = ", ".join(f"no answer from {name} in {seconds} s" for name, seconds in _waited.items())
    again = command("cn peer sync {}", next(iter(_waited))) if len(_waited) == 1 else "'cn peer sync'"
    step = f"the next runs go on with the others, and ask {' and '.join(_waited)} less often; {again} asks at once"
    return f": {text}", step


def told_after_signal(signalled: str) -> tuple[str, str]:
    """What happened (``signalled``: in one word), and the next step, for somebody who has interrupted this process."""
    text, more = told_of_unanswered()
    return f"{signalled}{text}", "; ".join(filter(None, (_next_step(), more)))


def _next_step() -> str:
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
