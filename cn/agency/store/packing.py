"""Pack what writes left loose, beside them and never on their way (git-maintenance(1)).

Only tasks that drop no object: whoever writes may have objects that no ref holds yet.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from itertools import islice

from cn.agency.store.repository import Repository
from cn.git.process import Git, GitError
from cn.system.files import hold

_MANY = 8
"""So many objects of one folder among 256, as git counts them (git-config(1), ``gc.auto``): some 2,000 in all."""
_SAMPLE = "objects/17"
_SECONDS = 900.0
_STALE_SECONDS = 3600.0
_LOCK = "objects/maintenance.lock"
_FEWEST = 2
"""Packs from which on there is something to bring together: of none git's task fails."""


def needs_packing(repository: Repository) -> bool:
    """Have enough writes come since the last time? One folder is looked at."""
    with suppress(OSError), os.scandir(repository.folder / _SAMPLE) as found:
        return next(islice(found, _MANY, None), None) is not None
    return False


def pack(repository: Repository) -> tuple[str, ...]:
    """Pack, and remove what killed writers left; sentences about what was in the way.

    One at a time; who comes second does nothing. What is killed is done again the next time.
    """
    fd = hold(repository.places.packing_lock)
    if fd is None:
        return ()
    try:
        told = repository.remove_left([repository.folder / _LOCK])
        _sweep(repository)
        git = repository.git._replace(lock_fd=fd, reader=None)
        _maintain(git, "loose-objects")
        if len(list(islice(repository.folder.glob("objects/pack/*.pack"), _FEWEST))) == _FEWEST:
            _maintain(git, "incremental-repack")
    except GitError as error:
        return (f"Agency's records could not be packed: {error.text}",)
    finally:
        os.close(fd)
    return told


def _maintain(git: Git, task: str) -> None:
    """One task at a time: git 2.39 takes several in an order of its own."""
    git.run("maintenance", "run", "--quiet", f"--task={task}", seconds=_SECONDS)


def _sweep(repository: Repository) -> None:
    """Objects that were not finished an hour ago never are. Folders come and go meanwhile."""
    for number in range(256):
        with suppress(OSError), os.scandir(repository.folder / f"objects/{number:02x}") as found:
            for entry in found:
                with suppress(OSError):
                    if entry.name.startswith("tmp_obj_") and time.time() - entry.stat().st_mtime > _STALE_SECONDS:
                        os.unlink(entry.path)
