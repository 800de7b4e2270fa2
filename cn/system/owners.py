"""Who else could write a file that says what is run: another user who can, is us (ssh asks the same of its own)."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from pathlib import Path

from cn.values.errors import ConfigError, UsageError
from cn.values.shell_words import command

_ROOT = 0


def read_own(path: Path, most: int, unread: str) -> bytes | None:
    """What the file at ``path`` says; None where there is none. ``unread`` helps where it cannot be read.

    Raises :class:`ConfigError` where it cannot be read, or others could have written it.
    """
    try:
        why = others_may_write(path)
        if why:
            remedy = f"it says which programs are started: {command('chmod go-w {}', str(path))}, and the same above it"
            raise ConfigError(f"{path} is not used: {why}", remedy)
        return path.read_bytes()[:most]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", unread) from None


def refuse_anothers(folder: Path, what: str) -> None:
    """Raise :class:`UsageError` where a folder into which ``what`` is to be written is there, and another user's."""
    if folder.exists() and folder.stat().st_uid != os.geteuid():
        raise UsageError(f"{folder} belongs to another user, who could read and change {what}", "name a new one")


def others_may_write(path: Path) -> str:
    """Who could change the file at ``path``, or put another one in its place; empty: we and root alone.

    In a folder that is sticky each one's entries are their own. A group is nobody else where it is the user's own.
    Raises ``OSError`` where there is no such file.
    """
    real = Path(os.path.realpath(path))
    links = () if path.absolute() == real else path.absolute().parents
    for place in dict.fromkeys((real, *real.parents, *links)):
        found = place.stat()
        if found.st_uid not in (os.geteuid(), _ROOT):
            return f"{place} belongs to {_user(found.st_uid)}"
        if place != real and found.st_mode & stat.S_ISVTX:
            continue
        if found.st_mode & stat.S_IWOTH:
            return f"everybody may write {place}"
        if found.st_mode & stat.S_IWGRP and not _is_own_group(found.st_gid):
            return f"the group {_group(found.st_gid)} may write {place}"
    return ""


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"the user with the id {number}"


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _is_own_group(number: int) -> bool:
    """The group that a system makes for a user alone, or root's."""
    try:
        me, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(number)
    except KeyError:
        return False
    return number == _ROOT or (
        me.pw_gid == number and group.gr_name == me.pw_name and not {*group.gr_mem} - {me.pw_name}
    )
