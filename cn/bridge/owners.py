"""Whose a Unix socket is: what goes over it is private, and in some folders anybody can put one of the same name."""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
from collections.abc import Collection

_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class NotOurs(OSError):
    """Nothing is sent there: why."""


def check_place(path: str, users: Collection[int]) -> None:
    """Raise :class:`NotOurs` where others than ``users`` could have put the socket at ``path``, or its folder, there.

    Raises ``OSError`` where there is none.
    """
    folder = os.path.dirname(path)
    for place, right in ((os.path.dirname(folder), stat.S_ISDIR), (folder, stat.S_ISDIR), (path, stat.S_ISSOCK)):
        found = os.lstat(place)
        if not right(found.st_mode):
            raise NotOurs(f"{place} is no {'socket' if place == path else 'folder'}")
        if found.st_uid not in users:
            raise NotOurs(f"{place} belongs to the user with the id {found.st_uid}, so nothing is sent there")
        if right is stat.S_ISDIR and found.st_mode & _BY_OTHERS and not found.st_mode & stat.S_ISVTX:
            raise NotOurs(f"others may write in {place}, so nothing is sent there")


def check_peer(connected: socket.socket, users: Collection[int]) -> None:
    """Raise :class:`NotOurs` where the process that listens is of none of ``users``."""
    user = peer_of(connected)
    if user not in users:
        raise NotOurs(f"who listens there is the user with the id {user}, so nothing is sent")


def peer_of(connected: socket.socket) -> int:
    """The user id of the process at the other end of a Unix socket (unix(7), ``SO_PEERCRED``); our own where the
    system does not say.
    """
    if sys.platform == "linux":
        found = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", found)[1])
    if sys.platform == "darwin":  # getpeereid(3) by LOCAL_PEERCRED: version, user, groups
        found = connected.getsockopt(0, 1, 76)
        return int(struct.unpack_from("Ii", found)[1])
    return os.geteuid()
