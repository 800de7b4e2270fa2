"""What follows a write, and no write waits for: packing, and the copy on another machine.

A server calls :func:`follow` in a thread of its own; a command that ends starts a process that does it (:func:`start`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from cn.agency.store.copies import is_copied, push_copy
from cn.agency.store.packing import needs_packing, pack
from cn.agency.store.repository import Places, Repository
from cn.system.files import drop, hold, read_regular, write_file
from cn.values.errors import CnError
from cn.values.text import decode

_AGAIN_SECONDS = 60.0
_REASON_BYTES = 2000


def follow(repository: Repository, url: str) -> tuple[str, ...]:
    """Pack where that is due, and bring the copy at ``url`` (empty: there is none) to main; what was in the way.

    Why the copy could not be brought there is noted (:func:`copy_failure`) until it is.
    """
    places = repository.places
    told = list(pack(repository)) if needs_packing(repository) else []
    while url and not is_copied(repository, url):  # writes that came meanwhile go too
        refusal = push_copy(repository, url)
        if refusal is not None:
            write_file(_note(places), f"{refusal.reason}; {refusal.remedy}".encode())
            return (*told, refusal.reason)
        if _is_followed(places):
            return tuple(told)  # another one is at it, and sees these writes
    drop(_note(places))
    return tuple(told)


def start(repository: Repository, url: str) -> bool:
    """Let a process of its own do it, if there is something to do, nobody does, and it did not fail a moment ago."""
    places = repository.places
    due = needs_packing(repository) or (url and not _failed_lately(places) and not is_copied(repository, url))
    if not due or _is_followed(places):
        return False
    words = [sys.executable, "-P", "-m", __name__, str(places.state), *repository.identity, url]
    # A shell that ends at once leaves it to the system: nobody here has to wait for it.
    quiet = subprocess.DEVNULL
    shell = ["sh", "-c", '"$@" &', "sh", *words]
    try:
        done = subprocess.run(
            shell, cwd=places.state, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True, check=False
        )
    except OSError:  # the next write tries again
        return False
    return done.returncode == 0


def copy_failure(places: Places) -> str:
    """Why the last push of the copy failed, and what helps; empty where it did not."""
    return decode(read_regular(_note(places), _REASON_BYTES) or b"")


def _note(places: Places) -> Path:
    return places.index_file.with_name("copy.failed")


def _failed_lately(places: Places) -> bool:
    with suppress(OSError):
        return 0 <= time.time() - _note(places).stat().st_mtime < _AGAIN_SECONDS
    return False


def _is_followed(places: Places) -> bool:
    """Does somebody push the copy just now?"""
    fd = hold(places.copy_lock)
    if fd is not None:
        os.close(fd)
    return fd is None


def main(state: str, name: str, email: str, url: str) -> None:
    """The process that :func:`start` starts."""
    repository = Repository(Places(Path(state)), (name, email))
    try:
        with suppress(CnError, OSError):  # nobody hears it; the doctor sees what is wrong
            follow(repository, url)
    finally:
        repository.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
