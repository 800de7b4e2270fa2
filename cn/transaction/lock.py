"""The hub's lock: one run of cn at a time per repository.

``flock`` belongs to the open file, not to the process: git children that change refs or
files inherit the descriptor, so after a SIGKILL the lock lives exactly as long as the
last of them (flock(2)).

Who waits stands at a second lock, the turn: one that has just let go, and comes back at once
(the daemon, with a hundred messages), is behind it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cn.git.repository import Hub
from cn.system.files import is_alive, links_in, open_lock, read_regular
from cn.system.limits import NO_LOCKS
from cn.transaction.lock_owner import note_owner
from cn.values.errors import Blocked, LockHeld
from cn.values.shell_words import command
from cn.values.text import one_line, visible

if TYPE_CHECKING:  # the daemon waits with little in memory
    from cn.values.report import Progress

_POLL = 0.05
_LOOKS, _MOMENT = 3, 0.02
"""A lock that is held at so many looks, so many seconds apart, is not just being looked at by another."""
LOCK, TURN = "lock", "lock.turn"
WAKE = "wake.lock"
"""That of who wakes the agent."""
TOLD = "lock.told"
"""Beside the lock: somebody was turned away, and said so. Gone with the next run that gets in."""


PATIENCE = 600.0
"""Seconds for which somebody who has said something waits for a run that is at work: it may wait for remotes itself."""


@contextmanager
def hub_lock(hub: Hub, wait: float, waiting: Progress | None = None) -> Iterator[Hub]:
    """Hold the hub's lock; yields the hub whose local git children inherit it.

    Polls for up to ``wait`` seconds, then raises :class:`LockHeld`; :class:`Blocked` where a link lies in its folder.
    With ``waiting``, which is told then who is waited for, it goes on for :data:`PATIENCE` while a run is at work.
    """
    if linked := find_links(hub.state):
        raise Blocked(*linked)
    deadline = time.monotonic() + wait
    fd = _open(hub, LOCK)
    try:
        turn = _open(hub, TURN)
        try:
            for name, one in ((TURN, turn), (LOCK, fd)):
                try:
                    _take(hub, name, one, deadline)
                except LockHeld as held:
                    if waiting is None or not held.at_work:
                        raise
                    waiting(f"it waits: {held.text}")
                    deadline = time.monotonic() + PATIENCE
                    _take(hub, name, one, deadline)
        except LockHeld as held:
            held.told_before = _was_told(hub)
            raise
        finally:
            os.close(turn)
        with suppress(OSError):
            os.unlink(hub.state / TOLD)
        note_owner(fd)
        yield hub.with_git(hub.git._replace(lock_fd=fd))
    finally:
        # Closing, not LOCK_UN: a child that still works keeps the lock through its copy.
        os.close(fd)


def find_links(*folders: Path) -> tuple[str, str] | None:
    """What stops every run, and the remedy: links in cn's own folders.

    Runs write there, and remove what is old with all that is in it: behind a link these are somebody's files.
    """
    if not (found := [link for folder in folders for link in links_in(folder)]):
        return None
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    text = f"{visible(str(found[0]))}{more} is a link, and cn follows none where it keeps its own files"
    return text, f"{command('rm -- {}', str(found[0]))} removes the link alone; then run again"


def _open(hub: Hub, name: str) -> int:
    path = hub.state / name
    try:
        return open_lock(path, hub.private_mode)
    except OSError as why:
        raise Blocked(f"cannot open the lock {path}: {why.strerror}", "make the hub writable") from why


def _take(hub: Hub, name: str, fd: int, deadline: float) -> None:
    """Lock ``fd``, the file of that name."""
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            left = deadline - time.monotonic()
        except OSError as why:
            # For example ENOLCK on a network file system without locks.
            raise Blocked(f"cannot lock the hub {hub.root}: {why.strerror}", NO_LOCKS) from why
        if left <= 0:
            holder = _holder(hub, name)
            wait = "try again when it has ended, or raise lock_wait in .cn/hub.yaml"
            raise LockHeld(holder.text, holder.remedy or wait, at_work=not holder.remedy)
        time.sleep(min(_POLL, left))


class Holder(NamedTuple):
    """Whoever has a lock of cn: what to say of it, what helps, since when it is so (seconds since the epoch).

    ``remedy`` is empty where it is a living run of cn, which ends by itself.
    """

    text: str
    remedy: str
    since: float


def find_holder(hub: Hub, *names: str) -> Holder | None:
    """Who has one of these locks; tries what a run tries, and keeps nothing. None: they are free."""
    return next((_holder(hub, name) for name in names or (TURN, LOCK) if _is_held(hub.state / name)), None)


def _is_held(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        for _ in range(_LOOKS):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return False
            except BlockingIOError:
                time.sleep(_MOMENT)
        return True
    except OSError:  # no locks there: the run tells it
        return False
    finally:
        os.close(fd)


def _holder(hub: Hub, name: str) -> Holder:
    path = hub.state / name
    noted = hub.state / LOCK if name == TURN else path  # who waits its turn waits for who has the lock
    owner = one_line((read_regular(noted, 200) or b"").decode("utf-8", "replace"), 80)
    since = noted.stat().st_mtime if noted.exists() else time.time()
    number = owner.removeprefix("pid ").partition(",")[0]
    if number.isdigit() and is_alive(int(number)):
        what = "wakes the agent of" if name == WAKE else "holds"
        return Holder(f"another run of cn {what} the hub {hub.root} ({owner})", "", since)
    text = f"no run of cn is at work here, and yet {visible(str(path))} is locked, by what a run left or by others"
    return Holder(text, f"{command('fuser -v {}', str(path))} names who; end that, then run again", since)


def _was_told(hub: Hub) -> bool:
    """Was somebody turned away before, since the last run that got in? From now on, yes."""
    try:
        os.close(os.open(hub.state / TOLD, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666))
    except FileExistsError:
        return True
    except OSError:
        pass
    return False


def still_held(hub: Hub) -> Holder | None:
    """Who holds the lock that somebody was turned away from; since then it is so.

    None: nobody was, or it is free again.
    """
    try:
        since = os.stat(hub.state / TOLD).st_mtime
    except OSError:
        return None
    found = find_holder(hub)
    return found and found._replace(since=since)
