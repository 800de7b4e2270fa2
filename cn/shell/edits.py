"""What people changed in the work tree: one ``git status``, and a look at each path.

See git-status(1), "Porcelain Format Version 2".
"""

from __future__ import annotations

import stat
from collections.abc import Sequence

from cn.core.names import Oid
from cn.core.saving import Edit, Kind
from cn.core.value import dataclass
from cn.shell.entries import UNMERGED, Entry
from cn.shell.files import blocked_parent, read_plain
from cn.shell.hub import Hub

_ABSENT = "000000"


@dataclass(frozen=True)
class Edited:
    """An edit with the entries that HEAD and the index have for it."""

    edit: Edit
    head: Entry | None
    index: Entry | None

    @property
    def path(self) -> str:
        """Where it is; bytes that are no UTF-8 as surrogates."""
        return self.edit.path


def read_edits(hub: Hub, folders: Sequence[str]) -> list[Edited]:
    """Every path below ``folders`` where HEAD, index and work tree differ; ignored files are left out."""
    args = (
        "status",
        "--porcelain=v2",
        "-z",
        "--no-renames",
        "--untracked-files=all",
        "--ignore-submodules=none",
    )
    fields = hub.git.run(*args, "--", *folders).fields
    found = []
    for line in fields:
        kind, _, rest = line.partition(" ")
        if kind == "?":
            found.append(_edited(hub, rest, None, None))
        elif kind == "1":
            state, _, head_mode, index_mode, _, head, index, path = rest.split(" ", 7)
            staged = UNMERGED if state[1] == "A" else _entry(index_mode, index)  # "git add -N" holds no bytes
            found.append(_edited(hub, path, _entry(head_mode, head), staged))
        elif kind == "u":
            found.append(_edited(hub, rest.split(" ", 9)[9], None, UNMERGED))
    return found


def _entry(mode: str, oid: str) -> Entry | None:
    return None if mode == _ABSENT else Entry(mode, Oid(oid))


def _edited(hub: Hub, path: str, head: Entry | None, index: Entry | None) -> Edited:
    kind, size = _look(hub, path)
    return Edited(Edit(path.rstrip("/"), kind, size, head is not None or index is not None), head, index)


def _look(hub: Hub, path: str) -> tuple[Kind, int]:
    if path.endswith("/"):  # git lists the files of every other folder
        return Kind.REPOSITORY, 0
    target = hub.root / path
    if blocked_parent(hub.root, target) is not None:
        return Kind.BLOCKED, 0
    try:
        found = target.lstat()
    except FileNotFoundError:
        return Kind.MISSING, 0
    except OSError:
        return Kind.OTHER, 0
    if stat.S_ISREG(found.st_mode):
        return Kind.FILE, found.st_size
    if stat.S_ISLNK(found.st_mode):
        return Kind.LINK, 0
    return (Kind.FOLDER if stat.S_ISDIR(found.st_mode) else Kind.OTHER), 0


def read_edit(hub: Hub, path: str) -> bytes | None:
    """The bytes of a regular file, None when it cannot be read."""
    plain = read_plain(hub.root / path)
    return plain[1] if plain is not None and stat.S_ISREG(plain[0]) else None
