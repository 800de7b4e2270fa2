"""The journal: what a run is about to do to this clone, so that the next run can finish it.

One JSON file, ``.git/cn/journal``, written beside and replaced. Others, in
``.git/cn/push/``, note what a push to origin carries, because a run killed between the
push and the journal has published its result, and its local share is still to be done.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cn.git.entries import Change, Entry
from cn.git.repository import Hub
from cn.system.closed import owner_of
from cn.system.files import PRIVATE, read_regular, write_file
from cn.values.errors import Blocked
from cn.values.names import Oid, is_oid
from cn.values.text import visible

_FORMATS = (2, 1)
"""What is written, and what is read: in the older one machine-local files have absolute paths."""
IN_STATE = ".git/cn/"
"""How the path of a file in :attr:`Hub.state` begins, wherever that is."""


class LocalAppend(NamedTuple):
    """Machine-local text appended after the commit, exactly once even across a crash."""

    path: str
    text: str


class LocalFile(NamedTuple):
    """A machine-local file to write after the commit, or with None to remove.

    It is removed only while it still holds the bytes whose SHA-256 is ``was`` (empty: any).
    """

    path: str
    data: bytes | None
    was: str = ""


class RefUpdate(NamedTuple):
    """A ref under ``refs/cn/``, or git's own note of origin's main, to set, or with None to delete."""

    ref: str
    new: Oid | None


class Journal(NamedTuple):
    """One local publication: main from ``old`` to ``new``, and what belongs to it.

    Machine-local files are named as :func:`local_place` finds them: a hub may be moved before this is finished.
    ``appends`` are of one file each, ``sizes`` their lengths before, ``covers`` the notes
    of pushes that are carried out with it. ``old == new``: only refs, appends and files. In the note of a push
    ``expected`` is where origin's main was.
    """

    token: str
    old: Oid
    new: Oid
    message: str
    changes: tuple[Change, ...] = ()
    inputs: Mapping[str, Oid] | None = None
    refs: tuple[RefUpdate, ...] = ()
    appends: tuple[LocalAppend, ...] = ()
    files: tuple[LocalFile, ...] = ()
    sizes: tuple[int, ...] = ()
    covers: tuple[Oid, ...] = ()
    expected: Oid | None = None


def journal_path(hub: Hub) -> Path:
    """Where the journal lives."""
    return hub.state / "journal"


def restore_path(hub: Hub) -> Path:
    """Where the entries wait that the next commit must restore."""
    return hub.state / "restore"


def push_path(hub: Hub, new: Oid) -> Path:
    """Where the note of the push of ``new`` lives."""
    return hub.state / "push" / new


def local_place(hub: Hub, name: str) -> tuple[Path, Path] | None:
    """Where a machine-local file lies, and the folder of this clone above it; None: outside, and never written."""
    inside = name.removeprefix(IN_STATE)
    path = Path(os.path.normpath((hub.root if inside == name else hub.state) / inside))
    return next(((path, root) for root in (hub.state, hub.root) if root in path.parents), None)


def read_pushes(hub: Hub) -> list[Journal]:
    """The notes of all pushes whose local share is not done."""
    return sort_pushes(hub)[0]


def sort_pushes(hub: Hub) -> tuple[list[Journal], list[Path]]:
    """Those notes, and what lies among them and is none, such as copies that a tool made: nothing is done for it."""
    paths = _in_push(hub)
    notes = {path: read_journal(path) for path in paths if is_oid(path.name)}
    good = {path: note for path, note in notes.items() if note is not None and note.new == path.name}
    return list(good.values()), [path for path in paths if path not in good]


def _in_push(hub: Hub) -> list[Path]:
    try:
        return sorted(path for path in (hub.state / "push").iterdir() if path.name[0] != ".")
    except FileNotFoundError:
        return []


def write_journal(path: Path, journal: Journal, mode: int = PRIVATE) -> None:
    """Write and flush it; ``mode`` is :attr:`Hub.private_mode`."""
    changes = [[c.path, *(c.old or (None, None)), *(c.new or (None, None))] for c in journal.changes]
    plain = {"format": _FORMATS[0], **journal._asdict(), "changes": changes, "inputs": dict(journal.inputs or {})}
    write_file(path, json.dumps(plain, default=lambda data: data.decode("latin-1")).encode(), mode=mode)


def read_journal(path: Path) -> Journal | None:
    """The journal at ``path``, or None. An unreadable one stops the run: it may hold a promise."""
    data = read_regular(path) if os.path.lexists(path) else None
    if data is None and path.is_file() and not os.access(path, os.R_OK):
        owner = visible(owner_of(path))
        raise Blocked(
            f"a run of {owner}'s was interrupted, and only {owner} can read what it was about to do: {path}",
            f"let {owner} run 'cn sync' here, which finishes it; with 'git config core.sharedRepository group' whoever"
            f" shares this hub can do that, once {owner} has run 'cn doctor --fix'",
        )
    if data is None and os.path.lexists(path):
        raise Blocked(f"cannot read {path}: it is no file", "move it away, then run again")
    try:
        return None if data is None else _parse(json.loads(data))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as why:
        raise Blocked(
            f"{path} is damaged: {why}", "compare 'git status' with main, then move the file away and run again"
        ) from why


def _parse(data: dict[str, Any]) -> Journal:
    if data["format"] not in _FORMATS:
        raise ValueError("it is of another version of cn")
    known = {name: data[name] for name in Journal._fields} | {
        "changes": tuple(Change(p, _entry(om, oo), _entry(nm, no)) for p, om, oo, nm, no in data["changes"]),
        "refs": tuple(RefUpdate(ref, new) for ref, new in data["refs"]),
        "appends": tuple(LocalAppend(path, text) for path, text in data["appends"]),
        "files": tuple(
            LocalFile(path, None if text is None else text.encode("latin-1"), was) for path, text, was in data["files"]
        ),
        "sizes": tuple(data["sizes"]),
        "covers": tuple(data["covers"]),
    }
    return Journal(**known)


def _entry(mode: str | None, oid: str | None) -> Entry | None:
    return Entry(mode, Oid(oid)) if mode and oid else None
