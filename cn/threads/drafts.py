"""Drafts as people leave them: theirs to edit or to take back until they are said (``docs/protocol/outbox.md``)."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import NamedTuple

from cn.git.repository import Hub
from cn.protocol.layout import DRAFTS
from cn.run.snapshot import Snapshot
from cn.system.closed import check_open
from cn.system.files import blocked_parent, read_plain
from cn.transaction.unplaced import read_unplaced
from cn.values.errors import Refused
from cn.values.names import HubPath
from cn.values.shell_words import command

NOT_MADE_HERE = "it came with main from elsewhere, and whoever can push there may have written it"
"""Why a clone does not say one in the hub's name, and sign it."""


class Kept(NamedTuple):
    """A draft of main: ``data`` as main has it, ``here`` as the work tree has it; None where it was removed there."""

    path: HubPath
    data: bytes
    here: bytes | None


def list_drafts(snapshot: Snapshot) -> list[HubPath]:
    """Where main has drafts, oldest first."""
    return [HubPath(f"{DRAFTS}/{entry.path}") for entry in snapshot.folder(DRAFTS) if not entry.path.startswith(".")]


def read_draft(hub: Hub, snapshot: Snapshot, path: HubPath, placed: Snapshot | None) -> Kept:
    """One of them. ``placed``: that of which the work tree has the files; None: it has those of no main.

    Raises :class:`Refused` where something else lies in its place.
    """
    data = snapshot.read(path) or b""
    if placed is None or placed.blob(path) != snapshot.blob(path) or path in read_unplaced(hub).left:
        return Kept(path, data, data)
    target = hub.root / path
    if blocked_parent(hub.root, target) is None and not os.path.lexists(target):
        return Kept(path, data, None)
    check_open(target, path)
    found = read_plain(target) if blocked_parent(hub.root, target) is None else None
    if found is None or not stat.S_ISREG(found[0]):
        raise Refused(
            f"{path} is no plain file here",
            f"move it out of the way; {command('git checkout -- {}', path)} brings it back",
        )
    return Kept(path, data, found[1])


def strange_files(hub: Hub, *snapshots: Snapshot) -> list[str]:
    """Names in the folder of the drafts, in the work tree, that are none of these mains: nobody says what they hold."""
    known = {path.rpartition("/")[2] for snapshot in snapshots for path in list_drafts(snapshot)}
    left = {path.rpartition("/")[2] for path in read_unplaced(hub).left if path.startswith(f"{DRAFTS}/")}
    with suppress(OSError):
        there = os.listdir(hub.root / DRAFTS)
        return sorted(name for name in there if name not in known | left and name[0] != "." and name[-1] != "~")
    return []
