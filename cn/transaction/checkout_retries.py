"""Files of main that could not be written into the work tree (``.git/cn/unplaced``).

A folder that cannot be written, or a disk that is full, leaves the old file where it is, or none.
The next runs try again until main's file is there, main has another, or a person wrote one there.
What cn left behind is no edit: it decides nothing, is not committed, and does not stop a merge.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cn.git.repository import Hub
from cn.system.files import write_file
from cn.values.names import Oid

if TYPE_CHECKING:  # imported where something is noted
    from cn.git.entries import Entry


class Unplaced(NamedTuple):
    """``here`` is what cn left in the work tree (None: nothing), ``reason`` why it could do no more."""

    here: Entry | None
    reason: str

    def is_left(self, data: bytes | None) -> bool:
        """Is a file of these bytes (None: no file) what cn left, and no edit of anybody?"""
        if self.here is None or data is None:
            return self.here is None and data is None
        from cn.git.entries import blob_id

        return blob_id(self.here.oid, data) == self.here.oid


class Noted(NamedTuple):
    """All of it, by path; ``token`` names the asides that trying again makes."""

    token: str
    files: Mapping[str, Unplaced]


def unplaced_path(hub: Hub) -> Path:
    """Where it is noted."""
    return hub.state / "unplaced"


def read_noted(hub: Hub) -> Noted:
    """What is noted. Where the note cannot be read nothing is; 'git status' shows it all the same."""
    try:
        plain = json.loads(unplaced_path(hub).read_bytes())
        from cn.git.entries import Entry

        files = {
            path: Unplaced(Entry(mode, Oid(oid)) if mode and oid else None, str(reason))
            for path, (mode, oid, reason) in plain["files"].items()
        }
        return Noted(str(plain["token"]), files)
    except (OSError, ValueError, AttributeError, TypeError, KeyError):
        return Noted("", {})


def read_unplaced(hub: Hub) -> Mapping[str, Unplaced]:
    """What is noted, by path."""
    return read_noted(hub).files


def is_left(hub: Hub, path: str, data: bytes | None) -> bool:
    """Are these bytes at ``path`` (None: no file) what cn itself could not replace yet?"""
    one = read_unplaced(hub).get(path)
    return one is not None and one.is_left(data)


def write_unplaced(hub: Hub, files: Mapping[str, Unplaced]) -> None:
    """Note exactly these, where that is news. The asides made until now are no longer needed then."""
    if files == read_unplaced(hub):
        return
    if not files:
        unplaced_path(hub).unlink(missing_ok=True)
        return
    plain = {p: [*((u.here.mode, u.here.oid) if u.here else ("", "")), u.reason] for p, u in files.items()}
    text = json.dumps({"token": os.urandom(16).hex(), "files": plain}, ensure_ascii=True)
    write_file(unplaced_path(hub), text.encode())


def forget_unplaced(hub: Hub, path: str) -> None:
    """What main has of this file was taken up here by who writes it."""
    files = dict(read_unplaced(hub))
    if files.pop(path, None) is not None:
        write_unplaced(hub, files)
