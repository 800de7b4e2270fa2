"""Paths inside a hub."""

from __future__ import annotations

from collections.abc import Iterator

NAME_BYTES, PATH_BYTES = 255, 1000
"""What the file systems of Linux and macOS hold of a name (NAME_MAX), and below what they hold of a path."""


def too_long(path: str) -> str:
    """Why not every file system can hold this path, or nothing; undecodable bytes as surrogates."""
    longest = max(len(part.encode("utf-8", "surrogateescape")) for part in path.split("/"))
    if longest > NAME_BYTES:
        return f"a part of it has {longest} bytes, and file systems hold {NAME_BYTES}"
    size = len(path.encode("utf-8", "surrogateescape"))
    return f"it has {size} bytes, and cn takes paths of up to {PATH_BYTES}" if size > PATH_BYTES else ""


def folders_above(path: str) -> Iterator[str]:
    """``a`` and ``a/b`` for ``a/b/c``."""
    parts = path.split("/")
    return ("/".join(parts[:i]) for i in range(1, len(parts)))
