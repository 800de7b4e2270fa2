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

from cn.agency.store.copies import ask_copy, is_copied, push_copy
from cn.agency.store.copy_notes import copy_answered, failed_lately, forget_failure, note_answer, note_failure
from cn.agency.store.packing import needs_packing, pack
from cn.agency.store.repository import Places, Repository
from cn.inherited import refuse_signals
from cn.system.files import hold
from cn.values.errors import CnError
from cn.values.text import redact

_SILENT_SECONDS = 86400.0
"""From the last answer of a copy until it is asked again."""


def follow(repository: Repository, url: str) -> tuple[str, ...]:
    """Pack where that is due, and bring the copy at ``url`` (empty: there is none) to main; what was in the way.

    A copy to which nothing was pushed for a day is asked whether it is still there. Why it could not be brought to
    main is noted (:mod:`copy_notes`) until it is.
    """
    places = repository.places
    told = list(pack(repository)) if needs_packing(repository) else []
    if url and is_copied(repository, url) and _is_silent(places, url):
        if (refusal := ask_copy(repository, url)) is not None:
            return (*told, note_failure(places, url, refusal))
        if is_copied(repository, url):
            note_answer(places, url)
        else:
            told.append(f"the copy at {redact(url)} had lost what it had, and gets it again")
    while url and not is_copied(repository, url):  # writes that came meanwhile go too
        refusal = push_copy(repository, url)
        if refusal is not None:
            return (*told, note_failure(places, url, refusal))
        if is_copied(repository, url):
            note_answer(places, url)
        if _is_followed(places):
            return tuple(told)  # another one is at it, and sees these writes
    forget_failure(places)
    return tuple(told)


def start(repository: Repository, url: str) -> bool:
    """Let a process of its own do it, if there is something to do, nobody does, and it did not fail a moment ago."""
    places = repository.places
    due = needs_packing(repository) or (url and not failed_lately(places, url) and not is_copied(repository, url))
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


def _is_silent(places: Places, url: str) -> bool:
    last = copy_answered(places, url)
    return last is None or not 0 <= time.time() - last.timestamp() < _SILENT_SECONDS


def _is_followed(places: Places) -> bool:
    """Does somebody push the copy just now?"""
    fd = hold(places.copy_lock)
    if fd is not None:
        os.close(fd)
    return fd is None


def main(state: str, name: str, email: str, url: str) -> None:
    """The process that :func:`start` starts."""
    with suppress(CnError, OSError):  # nobody hears it; the doctor sees what is wrong
        repository = Repository(Places(Path(state)), (name, email))
        try:
            follow(repository, url)
        finally:
            repository.close()


if __name__ == "__main__":
    refuse_signals()
    main(*sys.argv[1:])
