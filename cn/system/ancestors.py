"""Below which processes another one runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_MOST: Final = 1 << 15


def ancestors(process: int) -> Iterator[int]:
    """A process and those above it, as far as the system shows them (proc_pid_stat(5))."""
    for _ in range(_MOST):
        try:
            with open(f"/proc/{process}/stat", "rb") as file:
                above = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError):
            return
        yield process
        process = above
