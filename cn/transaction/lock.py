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

from cn.git.repository import Hub
from cn.system.files import links_in
from cn.transaction.lock_owner import note_owner
from cn.values.errors import Blocked, LockHeld
from cn.values.shell_words import command
from cn.values.text import one_line, visible

_POLL = 0.05
TOLD = "lock.told"
"""Beside the lock: somebody was turned away, and said so. Gone with the next run that gets in."""


@contextmanager
def hub_lock(hub: Hub, wait: float) -> Iterator[Hub]:
    """Hold the hub's lock; yields the hub whose local git children inherit it.

    Polls for up to ``wait`` seconds, then raises :class:`LockHeld`; :class:`Blocked` where a link lies in its folder.
    """
    if linked := find_links(hub):
        raise Blocked(*linked)
    deadline = time.monotonic() + wait
    fd = _open(hub, "lock")
    try:
        turn = _open(hub, "lock.turn")
        try:
            for one in (turn, fd):
                _take(hub, one, fd, deadline)
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


def find_links(hub: Hub) -> tuple[str, str] | None:
    """What stops every run, and the remedy: links in cn's own folder.

    Runs write there, and remove what is old with all that is in it: behind a link these are somebody's files.
    """
    if not (found := links_in(hub.state)):
        return None
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    text = f"{visible(str(found[0]))}{more} is a link, and cn follows none where it keeps its own files"
    return text, f"{command('rm -- {}', str(found[0]))} removes the link alone; then run again"


def _open(hub: Hub, name: str) -> int:
    path = hub.state / name
    try:
        hub.state.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as why:
        raise Blocked(f"cannot open the lock {path}: {why.strerror}", "make the hub writable") from why


def _take(hub: Hub, fd: int, held: int, deadline: float) -> None:
    """Lock ``fd``; ``held`` is the lock that says who works."""
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            left = deadline - time.monotonic()
        except OSError as why:
            # For example ENOLCK on a network file system without locks.
            raise Blocked(f"cannot lock the hub {hub.root}: {why.strerror}") from why
        if left <= 0:
            raise LockHeld(
                f"another run of cn holds the hub {hub.root}{_owner(held)}",
                "try again when it has ended, or raise lock_wait in .cn/hub.yaml",
            )
        time.sleep(min(_POLL, left))


def _was_told(hub: Hub) -> bool:
    """Was somebody turned away before, since the last run that got in? From now on, yes."""
    try:
        os.close(os.open(hub.state / TOLD, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666))
    except FileExistsError:
        return True
    except OSError:
        pass
    return False


def still_held(hub: Hub) -> tuple[str, float] | None:
    """Who holds the lock that somebody was turned away from, and since when (seconds) that is so.

    None: nobody was, or it is free again. Looking waits for nobody, and nobody for it.
    """
    try:
        since = os.stat(hub.state / TOLD).st_mtime
        fd = os.open(hub.state / "lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _owner(fd), since
    finally:
        os.close(fd)
    return None


def _owner(fd: int) -> str:
    with suppress(OSError):
        text = one_line(os.pread(fd, 200, 0).decode("utf-8", "replace"), 80)
        return f" ({text})" if text else ""
    return ""
