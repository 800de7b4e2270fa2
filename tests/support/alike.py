"""Two commits whose ids begin alike, as anybody makes them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.support.hubs import git


def commits_alike(repository: Path, parent: str, trees: tuple[str, str], digits: int) -> tuple[str, str]:
    """Commits of two trees, upon ``parent``, whose ids have so many digits in common."""
    seen: tuple[dict[str, bytes], dict[str, bytes]] = ({}, {})
    number = 0
    while True:
        for mine, tree in enumerate(trees):
            who = "Pi <pi@example.org> 1790000000 +0000"
            text = f"tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n\nSay hello {number}\n".encode()
            key = hashlib.sha1(b"commit %d\0" % len(text) + text, usedforsecurity=False).hexdigest()[:digits]
            seen[mine][key] = text
            if other := seen[1 - mine].get(key):
                first, second = (text, other) if mine == 0 else (other, text)
                return _write(repository, first), _write(repository, second)
        number += 1


def _write(repository: Path, text: bytes) -> str:
    return git(repository, "hash-object", "-t", "commit", "-w", "--stdin", stdin=text)
