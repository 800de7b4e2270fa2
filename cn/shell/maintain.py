"""Keeping the repository small: cn runs with git's own maintenance off (DESIGN 4, "Growth")."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from cn.shell.hub import Hub

KEPT = "withheld"
"""The folder below ``.git/cn`` that keeps what was masked as it was."""
_KEPT_SECONDS = 90 * 86400.0
_STALE_SECONDS = 3600.0
_LOG_BYTES = 4 << 20
_LOGS_KEPT = 3
_MOST_REFS = 200
_MOST_PACKS = 20
_MOST_LOOSE = 100
_TIDY_SECONDS = 30.0
_WINDOW = ("--window=50", "--window-memory=32m")
"""Among so many objects git looks for one that is like another: a text comes as a branch, a thread that waits
and one that is done, and git's 10 find less (a fifth more bytes). The memory is for large files of peers."""
_REPACK = ("repack", "-q", "-d", "-l", "--geometric=8", *_WINDOW, "--no-write-bitmap-index")


def rotate_log(path: Path) -> None:
    """``cn.log`` → ``cn.log.1`` → … when it has grown over 4 MiB; the oldest goes."""
    with suppress(FileNotFoundError):
        if path.parent.is_symlink() or path.lstat().st_size < _LOG_BYTES:
            return
        for number in range(_LOGS_KEPT, 1, -1):
            with suppress(FileNotFoundError):
                path.with_name(f"{path.name}.{number - 1}").rename(path.with_name(f"{path.name}.{number}"))
        path.rename(path.with_name(f"{path.name}.1"))


def sweep_stale(hub: Hub) -> None:
    """Remove what was cut off: half a fetch in ``objects/pack`` (git-prune(1)), a lock of the packed refs."""
    for file in (*(hub.git_dir / "objects" / "pack").glob("tmp_*"), hub.git_dir / "packed-refs.lock"):
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _STALE_SECONDS:
                file.unlink()


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
    """
    if _more_than(_MOST_REFS, _loose_refs(hub)):
        hub.git.run("pack-refs", "--all", check=False, seconds=_TIDY_SECONDS)
    packs = (hub.git_dir / "objects" / "pack").glob("*.pack")
    if _more_than(_MOST_PACKS, packs) or _more_than(_MOST_LOOSE, _loose_objects(hub)):
        hub.git.run(*_REPACK, check=False, seconds=_TIDY_SECONDS)


def _more_than(number: int, files: Iterator[object]) -> bool:
    """Are there more? Counts no further than needed."""
    return next(islice(files, number, None), None) is not None


def _loose_refs(hub: Hub) -> Iterator[str]:
    return (name for _, _, names in os.walk(hub.git_dir / "refs") for name in names)


def _loose_objects(hub: Hub) -> Iterator[Path]:
    return (hub.git_dir / "objects").glob("[0-9a-f][0-9a-f]/*")
