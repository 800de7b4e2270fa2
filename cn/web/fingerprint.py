"""What a hub's pages depend on, told by files alone: no git is started to see that nothing changed.

Sizes, times and numbers of files (stat(2)): refs as git keeps them (gitrepository-layout(5), "refs", "packed-refs";
git-config(1), ``extensions.refStorage``), what this clone remembers, working copies, the machine log.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from cn.git.repository import Hub
from cn.protocol.layout import INBOX
from cn.protocol.own_thread import ADHOC, CONCERNS
from cn.protocol.queue_item import LOGS, PERIODIC, REFLECTIONS
from cn.run.executor import MACHINE_LOG

OWN = ("web.", "web-")
"""How the files begin that ``cn web`` keeps in the hub's state: no page depends on them."""
_FOLDERS = (INBOX, ADHOC, CONCERNS, *(f"{REFLECTIONS}/{one.value}" for one in PERIODIC), ".cn", "state", *LOGS.values())

Fingerprint = tuple[tuple[str, int, int, int], ...]


def read_fingerprint(hub: Hub) -> Fingerprint:
    """Equal as long as no page has changed but for the time."""
    found = (*_files(hub), *(one for folder in (hub.state, *_work(hub)) for one in _entries(folder)))
    return tuple(found)


def _files(hub: Hub) -> Iterator[tuple[str, int, int, int]]:
    names = (hub.main_ref, "refs/cn/origin/main", f"refs/remotes/origin/{hub.main}")
    paths = [hub.work_git_dir / "HEAD", *(hub.git_dir / name for name in (*names, "packed-refs", "config"))]
    for path in (*paths, hub.git_dir / "reftable" / "tables.list", hub.root / MACHINE_LOG):
        yield _stat(os.fspath(path))


def _work(hub: Hub) -> Iterator[Path]:
    return (hub.root / folder for folder in _FOLDERS)


def _stat(path: str) -> tuple[str, int, int, int]:
    try:
        found = os.lstat(path)
    except OSError:
        return path, 0, 0, 0
    return path, found.st_mtime_ns, found.st_size, found.st_ino


def _entries(folder: Path) -> Iterator[tuple[str, int, int, int]]:
    """The files of a folder; folders in it count by their own time."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.path for entry in entries if not entry.name.startswith(OWN))
    except OSError:
        names = []
    return map(_stat, names)
