"""Who holds the hub's lock, written into it, for people and ``cn status``; nothing decides by it."""

from __future__ import annotations

import os
import time


def note_owner(lock: int) -> None:
    """This process, since now. A full disk must not stop the run here."""
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    try:
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"pid {os.getpid()}, since {since}\n".encode(), 0)
    except OSError:
        pass
