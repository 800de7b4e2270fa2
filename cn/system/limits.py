"""The limit of the size of our own files (getrlimit(2), ``RLIMIT_FSIZE``; the shell's ``ulimit -f``)."""

from __future__ import annotations

import errno

from cn.values.errors import RAISE_ULIMIT

BEYOND_ULIMIT = "a file would have grown beyond the limit of the shell or service that started cn"
NO_LOCKS = "it has to be on a file system that locks files: a local disk, or a network's with its lock service"
"""What helps where flock(2) fails with ``ENOLCK``."""
_NO_TEMPORARY = "No usable temporary directory found"
"""What Python's tempfile says that could write into none of those it tried."""


def has_ulimit() -> bool:
    """Is there such a limit?"""
    import resource

    return resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY


def beyond_limit(why: OSError) -> tuple[str, str] | None:
    """What the limit kept us from, and what helps; None: it was something else."""
    if why.errno == errno.EFBIG:
        return f"{why.filename}: {BEYOND_ULIMIT}" if why.filename else BEYOND_ULIMIT, RAISE_ULIMIT
    if why.errno == errno.ENOLCK:
        return str(why.strerror), NO_LOCKS
    if _NO_TEMPORARY not in str(why):
        return None
    if has_ulimit():
        return f"no temporary file could be written: {BEYOND_ULIMIT}", RAISE_ULIMIT
    return str(why.strerror or why), "make room in one of them, or let TMPDIR name a folder where cn may write"
