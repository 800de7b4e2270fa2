"""Working copies of pending threads: the only files a run takes decisions from."""

from __future__ import annotations

import os
from typing import NamedTuple

from cn.git.repository import Hub
from cn.protocol.layout import INBOX, inbox_path
from cn.protocol.ledger import Item
from cn.run.snapshot import Snapshot, thread_names
from cn.system.files import read_regular
from cn.transaction.unplaced import is_left, read_left
from cn.values.names import HubPath, Name, Oid, ThreadName

_LARGEST = 8 << 20


class Working(NamedTuple):
    """A pending thread as it lies in the work tree; ``algorithm`` is the repository's hash."""

    path: HubPath
    data: bytes
    algorithm: str

    @property
    def oid(self) -> Oid:
        """The blob id of its bytes."""
        from cn.protocol.message import object_id

        return object_id("blob", self.data, self.algorithm)


def read_working(hub: Hub, name: ThreadName, algorithm: str) -> Working | None:
    """The working copy of a pending thread.

    None when it is missing or no regular file, or an old one that cn could not replace yet.
    """
    path = inbox_path(name)
    data = read_regular(f"{hub.root}/{path}", _LARGEST)
    return None if data is None or is_left(hub, path, data) else Working(path, data, algorithm)


def unknown_files(hub: Hub, snapshot: Snapshot, pending: list[tuple[Name, Item]]) -> list[str]:
    """The names of markdown files in the inbox, here or in main, that are no pending thread.

    Not what cn itself could not take away or replace yet: that is told of elsewhere.
    """
    known = {item.get("thread") for _, item in pending}
    folder = hub.root / INBOX
    try:
        names = sorted(e.name for e in os.scandir(folder) if not e.is_dir(follow_symlinks=False))
    except OSError:
        return []
    stray = [n for n in names if n not in known and n.endswith(".md") and not n.startswith(".")]
    stray += [n for n in thread_names(snapshot.folder(INBOX)) if n not in known and n not in stray]
    if stray:
        left = read_left(hub)
        stray = [n for n in stray if f"{INBOX}/{n}" not in left]
    # Whose records are damaged, whose threads are not known as such: that is told of the peer.
    damaged = tuple(f"-{peer}-" for peer in snapshot.damaged)
    return [n for n in stray if not n[8:].startswith(damaged)] if damaged else stray


def has_triage(hub: Hub, name: ThreadName, algorithm: str) -> bool:
    """Does the working copy hold a ``## Triage`` section, or something that must be looked at as one?"""
    working = read_working(hub, name, algorithm)
    return working is not None and shows_triage(working)


def may_decide(working: Working) -> bool:
    """Could it hold a ``## Triage`` section, or must it be looked at for another reason?

    Nearly all say no, and need no parser then: who only looks does not import it.
    """
    try:
        return "Triage" in working.data.decode("utf-8")
    except UnicodeDecodeError:
        return True


def shows_triage(working: Working) -> bool:
    """Does it hold a ``## Triage`` section, or something that must be looked at as one?"""
    if not may_decide(working):
        return False
    from cn.protocol.thread_file import read_text
    from cn.protocol.triage import TriageRefused, find_headings

    try:
        return bool(find_headings(read_text(working.data).split("\n")))
    except TriageRefused:
        return True
