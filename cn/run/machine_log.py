"""Read this clone's machine log ``logs/cn.log``, rotated files included."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from cn.run.executor import MACHINE_LOG

MOST_BYTES = 16 << 20


def machine_lines(root: Path, *, rotated: int = 1, most: int = MOST_BYTES) -> Iterator[bytes]:
    """The lines of the log of the hub at ``root``, oldest first, at most the last ``most`` bytes.

    ``rotated`` is how many of the older files are read too. The first line may be a part of one.
    """
    path = root / MACHINE_LOG
    parts: list[bytes] = []
    for number in range(rotated + 1):
        part = _tail(path.with_name(f"{path.name}.{number}") if number else path, most)
        parts.append(part)
        most -= len(part)
    for part in reversed(parts):
        yield from part.split(b"\n")


def _tail(path: Path, most: int) -> bytes:
    if most <= 0:
        return b""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most))
            return file.read(most)
    except OSError:
        return b""
