"""Paths inside a hub."""

from __future__ import annotations

from collections.abc import Iterator


def folders_above(path: str) -> Iterator[str]:
    """``a`` and ``a/b`` for ``a/b/c``."""
    parts = path.split("/")
    return ("/".join(parts[:i]) for i in range(1, len(parts)))
