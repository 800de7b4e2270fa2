"""Read what people changed in the work tree: one ``git status``, and a look at each path.

See git-status(1), "Porcelain Format Version 2".
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cn.git.entries import UNMERGED, Entry
from cn.git.repository import Hub
from cn.system.files import blocked_parent, read_plain
from cn.threads.plan.edits import Edit, Kind
from cn.values.errors import Refused
from cn.values.names import NameRefused, parse_oid
from cn.values.text import one_line

_ABSENT = "000000"


Status = tuple[str, Entry | None, Entry | None]
"""A path that git names, bytes that are no UTF-8 as surrogates; the entries that HEAD and the index have for it."""


@dataclass(frozen=True)
class Edited:
    """An edit with the entries that HEAD and the index have for it."""

    edit: Edit
    head: Entry | None
    index: Entry | None


def read_edits(hub: Hub, folders: Sequence[str]) -> list[Edited]:
    """Every path below ``folders`` where HEAD, index and work tree differ, sorted; ignored files are left out."""
    args = ("status", "--porcelain=v2", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=none")
    # What is out of the index, but still there, git lists twice.
    listed = reversed(list(parse_status(hub.git.run(*args, "--", *folders).fields)))
    found = {one[0].rstrip("/"): one for one in listed}
    return [
        Edited(Edit(path, *_look(hub, named), tracked=head is not None or index is not None), head, index)
        for path, (named, head, index) in sorted(found.items(), key=lambda pair: pair[0])
    ]


def parse_status(fields: Iterable[str]) -> Iterator[Status]:
    """What ``git status --porcelain=v2 -z --no-renames`` says; :class:`Refused` for what it cannot say.

    Nothing is passed over: a path that is not named would look unchanged.
    """
    for line in fields:
        kind, _, rest = line.partition(" ")
        try:
            match kind:
                case "?":
                    found: Status = rest, None, None
                case "1":
                    state, _, head_mode, index_mode, _, head, index, path = rest.split(" ", 7)
                    # "git add -N" holds no bytes
                    staged = UNMERGED if state[1] == "A" else _entry(index_mode, index)
                    found = path, _entry(head_mode, head), staged
                case "u":
                    found = rest.split(" ", 9)[9], None, UNMERGED
                case _:
                    raise ValueError
            if not found[0]:
                raise ValueError
        except (ValueError, IndexError, NameRefused):
            raise Refused(f"git status says what cn does not know: {one_line(line, 80)}") from None
        yield found


def _entry(mode: str, oid: str) -> Entry | None:
    return None if mode == _ABSENT else Entry(mode, parse_oid(oid))


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
