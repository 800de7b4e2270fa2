"""What this clone knows of its copy without asking it: when it last answered, and why it lacks something.

Each note is about one URL, and says nothing of another.
"""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from cn.agency.store.repository import Places
from cn.system.files import drop, read_regular, write_file
from cn.values.errors import Refusal
from cn.values.names import digest
from cn.values.text import decode, one_line

_AGAIN_SECONDS = 60.0
_BYTES = 8000
_LINES = 4
"""Of the note of a failure: the URL's digest, rule, reason, remedy."""


def copy_answered(places: Places, url: str) -> datetime | None:
    """When the copy at ``url`` last answered, to a push or a question; None where it never did."""
    name, _, seconds = decode(read_regular(_answer(places), _BYTES) or b"").partition(" ")
    if name != digest(url) or not (seconds.isascii() and seconds.isdigit()):
        return None
    with suppress(OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(int(seconds), UTC)
    return None


def note_answer(places: Places, url: str) -> None:
    """It answered just now."""
    write_file(_answer(places), f"{digest(url)} {int(time.time())}".encode())


def ask_again(places: Places) -> None:
    """What it answered before counts no more: the next one that follows asks it."""
    drop(_answer(places))


def copy_failure(places: Places, url: str) -> Refusal | None:
    """Why the copy at ``url`` could not be brought to main, and what helps; None where it could."""
    noted = decode(read_regular(_failure(places), _BYTES) or b"").split("\n")
    if len(noted) != _LINES or noted[0] != digest(url):
        return None
    return Refusal(noted[1], noted[2], noted[3])


def note_failure(places: Places, url: str, refusal: Refusal) -> str:
    """Keep why; its reason, in one line."""
    lines = [digest(url), *(one_line(part) for part in (refusal.rule, refusal.reason, refusal.remedy))]
    write_file(_failure(places), "\n".join(lines).encode())
    return lines[2]


def forget_failure(places: Places) -> None:
    """It is so no more."""
    drop(_failure(places))


def failed_lately(places: Places, url: str) -> bool:
    """Did it fail a moment ago?"""
    with suppress(OSError):
        new = 0 <= time.time() - _failure(places).stat().st_mtime < _AGAIN_SECONDS
        return new and copy_failure(places, url) is not None
    return False


def _answer(places: Places) -> Path:
    return places.index_file.with_name("copy.answered")


def _failure(places: Places) -> Path:
    return places.index_file.with_name("copy.failed")
