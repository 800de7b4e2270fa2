"""The journal: what a run is about to do to this clone, so that the next run can finish it.

One JSON file, ``.git/cn/journal``, written beside and replaced. Others, in
``.git/cn/push/``, note what a push to origin carries, because a run killed between the
push and the journal has published its result, and its local share is still to be done.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from cn.git.entries import Change, Entry
from cn.git.repository import Hub
from cn.system.files import PRIVATE, sync_folder, write_file
from cn.values.errors import Blocked
from cn.values.names import Oid

_FORMAT = 1


class LocalAppend(NamedTuple):
    """Machine-local text appended after the commit, exactly once even across a crash."""

    path: Path
    text: str


class LocalFile(NamedTuple):
    """A machine-local file to write after the commit, or with None to remove.

    It is removed only while it still holds the bytes whose SHA-256 is ``was`` (empty: any).
    """

    path: Path
    data: bytes | None
    was: str = ""


class RefUpdate(NamedTuple):
    """A ref under ``refs/cn/`` to set, or with None to delete."""

    ref: str
    new: Oid | None


class Journal(NamedTuple):
    """One local publication: main from ``old`` to ``new``, and what belongs to it.

    ``appends`` are of one file each, ``sizes`` their lengths before, ``index_hash`` the SHA-256
    of the index file that replaces ``index.lock``, ``covers`` the notes of pushes that are
    carried out with it. ``old == new``: only refs, appends and files. In the note of a push
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
    index_hash: str = ""
    covers: tuple[Oid, ...] = ()
    expected: Oid | None = None

    @property
    def token_bytes(self) -> bytes:
        """The content of our ``index.lock`` before the new index is in it."""
        return f"cn {self.token}\n".encode()


def journal_path(hub: Hub) -> Path:
    """Where the journal lives."""
    return hub.state / "journal"


def restore_path(hub: Hub) -> Path:
    """Where the entries wait that the next commit must restore."""
    return hub.state / "restore"


def push_path(hub: Hub, new: Oid) -> Path:
    """Where the note of the push of ``new`` lives."""
    return hub.state / "push" / new


def read_pushes(hub: Hub) -> list[Journal]:
    """The notes of all pushes whose local share is not done."""
    try:
        names = sorted(p.name for p in (hub.state / "push").iterdir() if not p.name.startswith("."))
    except FileNotFoundError:
        return []
    notes = [read_journal(hub.state / "push" / name) for name in names]
    return [note for note in notes if note is not None]


def write_journal(path: Path, journal: Journal) -> None:
    """Write and flush it."""
    changes = [[c.path, *(c.old or (None, None)), *(c.new or (None, None))] for c in journal.changes]
    plain = {"format": _FORMAT, **journal._asdict(), "changes": changes, "inputs": dict(journal.inputs or {})}
    write_file(path, json.dumps(plain, default=_text).encode(), mode=PRIVATE)


def read_journal(path: Path) -> Journal | None:
    """The journal at ``path``, or None. An unreadable one stops the run: it may hold a promise."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as why:
        raise Blocked(f"cannot read {path}: {why.strerror}") from why
    try:
        return _parse(json.loads(data))
    except (ValueError, KeyError, TypeError, IndexError) as why:
        raise Blocked(
            f"{path} is damaged: {why}", "compare 'git status' with main, then move the file away and run again"
        ) from why


def drop(path: Path) -> None:
    """Forget it."""
    with suppress(FileNotFoundError):
        path.unlink()
        sync_folder(path.parent)


def with_sizes(journal: Journal) -> Journal:
    """The journal with the present lengths of the files to append to."""
    return journal._replace(sizes=tuple(_size(a.path) for a in journal.appends))


def _size(path: Path) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_size
    except OSError:
        return 0


def _text(value: bytes | os.PathLike[str]) -> str:
    """What JSON has no word for: bytes and paths."""
    return value.decode("latin-1") if isinstance(value, bytes) else os.fsdecode(value)


def _parse(data: dict[str, Any]) -> Journal:
    if data["format"] != _FORMAT:
        raise ValueError("it is of another version of cn")
    return Journal(
        token=data["token"],
        old=Oid(data["old"]),
        new=Oid(data["new"]),
        message=data["message"],
        changes=tuple(Change(p, _entry(om, oo), _entry(nm, no)) for p, om, oo, nm, no in data["changes"]),
        inputs={path: Oid(oid) for path, oid in data["inputs"].items()},
        refs=tuple(RefUpdate(ref, Oid(new) if new else None) for ref, new in data["refs"]),
        appends=tuple(LocalAppend(Path(path), text) for path, text in data["appends"]),
        files=tuple(
            LocalFile(Path(path), None if text is None else text.encode("latin-1"), was)
            for path, text, was in data["files"]
        ),
        sizes=tuple(data["sizes"]),
        index_hash=data["index_hash"],
        covers=tuple(Oid(oid) for oid in data["covers"]),
        expected=Oid(data["expected"]) if data["expected"] else None,
    )


def _entry(mode: str | None, oid: str | None) -> Entry | None:
    return Entry(mode, Oid(oid)) if mode and oid else None
