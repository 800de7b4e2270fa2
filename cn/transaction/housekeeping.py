"""Keep the repository small: cn runs with git's own maintenance off."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from cn.git.fast_import import BRANCH
from cn.git.process import GitError
from cn.git.repository import Hub
from cn.system.files import read_regular

KEPT = "withheld"
"""The folder below ``.git/cn`` that keeps what was masked as it was."""
_KEPT_SECONDS = 90 * 86400.0
_STALE_SECONDS = 3600.0
_MOMENT = 0.2
_REPORT_BYTES = 1 << 16
_MOST_REFS = 200
_MOST_PACKS = 20
_MOST_LOOSE = 100
_TIDY_SECONDS = 30.0
_WINDOW = ("--window=50", "--window-memory=16m")
"""Among so many objects git looks for one that is like another: a text comes as a branch, a thread that waits
and one that is done, and git's 10 find less (a fifth more bytes). The memory is for large files of peers."""
_SMALL = {"core.deltaBaseCacheLimit": "8m", "pack.threads": "1", "pack.deltaCacheSize": "8m"}
"""git's own are for large machines: 96 MB for what deltas are made upon, a window for each processor, 256 MB
for deltas found. 37,000 objects packed wholly anew: 152 MB, with these 71, of the same size and with the same
processor time."""
_REPACK = ("repack", "-q", "-d", "-l", "--geometric=8", *_WINDOW, "--no-write-bitmap-index")


def sweep_stale(hub: Hub) -> None:
    """Remove what was cut off an hour ago: objects that were not finished, a lock of the packed refs."""
    for file in (*unfinished(hub), hub.git_dir / "packed-refs.lock"):
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _STALE_SECONDS:
                file.unlink()


def sweep_failed(hub: Hub) -> int:
    """Remove at once what git left because it failed, and nobody writes any more; how many files.

    Only what is there with nobody behind it for a moment: a living git gives such a file its name right after
    closing it. Where the system cannot tell who has a file open, :func:`sweep_stale` does it.
    """
    found = [file for file in unfinished(hub) if _is_nobodys(file)]
    if not found:
        return 0
    time.sleep(_MOMENT)
    removed = 0
    for file in found:
        with suppress(OSError):
            if _is_nobodys(file):
                file.unlink()
                removed += 1
    return removed


def unfinished(hub: Hub) -> list[Path]:
    """Files that a git left which did not come to its end: parts of objects, reports of crashes of ours."""
    objects = hub.git_dir / "objects"
    found = [*objects.glob("pack/tmp_*"), *objects.glob("[0-9a-f][0-9a-f]/tmp_obj_*")]
    for file in hub.git_dir.glob("fast_import_crash_*"):
        report = read_regular(file, _REPORT_BYTES)
        if report is not None and BRANCH.encode() in report:  # not that of somebody's own import
            found.append(file)
    return sorted(found)


def _is_nobodys(file: Path) -> bool:
    """Does no process write it? Linux gives a lease for reading only then (fcntl(2), ``F_SETLEASE``)."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        finally:
            os.close(fd)
    except OSError:
        return False
    return True


def sweep_kept(hub: Hub) -> None:
    """Remove the whole of what was masked 90 days ago: nobody has missed it, and it holds secrets."""
    for here, _, names in os.walk(hub.state / KEPT, topdown=False):
        for file in (Path(here) / name for name in names):
            with suppress(OSError):
                if time.time() - file.lstat().st_mtime > _KEPT_SECONDS:
                    file.unlink()
        with suppress(OSError):  # it is not empty
            Path(here).rmdir()


def tidy(hub: Hub) -> None:
    """Pack what many runs left loose; a step that is not done in time is left for another day.

    Nothing is ever dropped, reachable or not: objects without a ref may be what a run is
    about to publish. Repacking is geometric (git-repack(1)): it rewrites what is small, and
    a large pack only once an eighth of what it holds has come. 14,000 objects of a busy hub are rewritten
    in 0.04 s; what costs time is the deltas of new objects, 0.2 ms each with this window.
    A git that is killed, as a machine with little memory does to the largest process, leaves it for later.
    """
    with suppress(GitError):
        if _more_than(_MOST_REFS, (name for _, _, names in os.walk(hub.git_dir / "refs") for name in names)):
            hub.git.run("pack-refs", "--all", check=False, seconds=_TIDY_SECONDS)
        objects = hub.git_dir / "objects"
        packs, loose = objects.glob("pack/*.pack"), objects.glob("[0-9a-f][0-9a-f]/*")
        if _more_than(_MOST_PACKS, packs) or _more_than(_MOST_LOOSE, loose):
            hub.git.with_settings(_SMALL).run(*_REPACK, check=False, seconds=_TIDY_SECONDS)


def _more_than(number: int, files: Iterator[object]) -> bool:
    """Are there more? Counts no further than needed."""
    return next(islice(files, number, None), None) is not None
