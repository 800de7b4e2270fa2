"""Whose are the files of Agency's records, and are they where they seem to be? Asked before any of them is opened.

Writers remove and replace files here: behind a link these are somebody's. What another user put there could say
anything.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from cn.git.repository import refused_by_git
from cn.system.closed import open_again, owner_of
from cn.transaction.lock import find_links
from cn.values.errors import Blocked
from cn.values.shell_words import command
from cn.values.text import visible

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class AnothersRecords(Blocked):
    """Another user has Agency in this clone, and has it alone."""


def check_ownership(repository: Path, derived: Path, files: Sequence[Path]) -> None:
    """Raise :class:`Blocked` where a link lies in their folders, or what is there is another user's.

    ``repository`` and ``derived`` are folders of records, ``files`` lie beside them; what is not there is fine. A
    repository of another user is one where git would work too (git-config(1), ``safe.directory``). In our folders
    nobody else may write, and we are let in where a mode closes one to us.
    """
    if linked := find_links(repository.parent) or find_links(repository, derived):
        raise Blocked(*linked)
    owners = {os.geteuid(), 0, _trusted_owner(repository)}
    for path, owner in _owners((derived, *files)):
        if owner not in owners:
            text = f"{visible(str(path))} belongs to {visible(owner_of(path))}, and Agency uses only what is yours"
            raise Blocked(text, f"{command('rm -r -- {}', str(path))}: it is made anew")
    open_parts(repository, derived)
    for folder in (repository, derived):
        _close_to_others(folder)


def open_parts(repository: Path, derived: Path) -> list[Path]:
    """Open again what of ours there a mode closes to us, before git takes the repository for none; which this was. What
    lies deeper :func:`cn.system.closed.closed_below` finds.
    """
    opened = open_again(repository.parent, repository, derived)
    with suppress(OSError):
        parts = [repository / name for name in sorted(os.listdir(repository))]
        opened += open_again(*parts, repository / "refs/heads", repository / "objects/pack")
    return opened


def _trusted_owner(repository: Path) -> int:
    """The owner of the repository; this user where there is none."""
    us = os.geteuid()
    for path, owner in _owners((repository,)):
        if owner == us:
            break
        name = visible(owner_of(path))
        if not os.access(path, os.R_OK | os.X_OK):
            raise AnothersRecords(
                f"Agency in {visible(str(path.parent))} belongs to {name}, for its owner alone",
                f"ask {name}; in a clone of your own 'cn agency init' begins another",
            )
        if refused_by_git(path):
            trust = command("git config --global --add safe.directory {}", str(path))
            raise Blocked(
                f"{visible(str(path))} belongs to {name}, not to you",
                f"put yours in its place; if you trust {name}: {trust}",
            )
        return owner
    return us


def _owners(paths: Sequence[Path]) -> Iterator[tuple[Path, int]]:
    """The owner of each that is there."""
    for path in paths:
        with suppress(FileNotFoundError):
            yield path, path.lstat().st_uid


def _close_to_others(folder: Path) -> None:
    with suppress(OSError):  # it is not there, or another's, or the disk cannot be written
        mode = stat.S_IMODE(folder.lstat().st_mode)
        if mode & _OTHERS_WRITE:
            folder.chmod(mode & ~_OTHERS_WRITE)
