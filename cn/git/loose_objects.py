"""Write objects as loose files (gitrepository-layout(5), ``objects/[0-9a-f][0-9a-f]``), without starting a git.

Each is written beside its place, flushed, and linked: whatever is killed, nothing that is cut off has an object's name.
SHA-1 alone.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cn.protocol.message import object_id
from cn.system.files import place, sync_folder
from cn.values.names import Oid

if TYPE_CHECKING:
    from concurrent.futures import Executor

_TEMPORARY = "tmp_obj_"
"""How git's own unfinished objects begin: what sweeps those sweeps ours."""
_FASTEST = 1
_TRIES = 9
_MANY = 24
"""Objects from which on they are flushed side by side: one operation writes fewer."""
_AT_ONCE = 32


def loose_path(objects: Path, oid: Oid) -> Path:
    """Where it lies as a loose object, in the folder ``objects`` of a repository."""
    return objects / oid[:2] / oid[2:]


def write_loose(objects: Path, written: Sequence[tuple[str, bytes]], mode: int = 0o444) -> list[Oid]:
    """Write (type, bytes) pairs below ``objects``, on disk when it returns; their ids, in order.

    One that is there stays, unless its file is cut off or damaged, as a crash of the machine may leave it: that is
    replaced. Raises :class:`OSError`; then some of them may be there, and nothing of what failed.
    """
    kept: dict[Oid, Path] = {}
    ids = [object_id(kind, data) for kind, data in written]
    many = len(set(ids)) >= _MANY
    try:
        for oid, (kind, data) in zip(ids, written, strict=True):
            if oid not in kept:
                whole = b"%s %d\0" % (kind.encode(), len(data)) + data
                kept[oid] = _write_beside(loose_path(objects, oid), whole, mode, flush=not many)
        if many:
            _at_once(_flush, kept.values())
        folders = {_link(temporary, loose_path(objects, oid)) for oid, temporary in kept.items()}
    finally:
        for temporary in kept.values():
            with suppress(FileNotFoundError):
                temporary.unlink()
    if many:
        _at_once(sync_folder, folders)
    else:
        for folder in folders:
            sync_folder(folder)
    return ids


def _at_once(flush: Callable[[Path], None], paths: Collection[Path]) -> None:
    """Flush them side by side: a file system that keeps a journal writes it once for all who wait."""
    for _ in _flushers().map(flush, paths):
        pass


@cache
def _flushers() -> Executor:
    """The threads that flush. They stay: to start them takes longer than what they do."""
    from concurrent.futures import ThreadPoolExecutor  # 20 ms that a write of one operation does not need

    return ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="flush")


def _flush(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_beside(path: Path, whole: bytes, mode: int, *, flush: bool) -> Path:
    """The object's file under another name, and flushed if that is not done later."""
    temporary = path.parent / f"{_TEMPORARY}{os.getpid()}_{os.urandom(4).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = _open_in_folder(temporary, flags, mode)
    try:
        rest = memoryview(zlib.compress(whole, _FASTEST))
        while rest:
            rest = rest[os.write(fd, rest) :]
        if flush:
            os.fsync(fd)
    except BaseException:
        temporary.unlink()
        raise
    finally:
        os.close(fd)
    return temporary


def _open_in_folder(path: Path, flags: int, mode: int) -> int:
    """Open it, in a folder that is made where it is missing: a git that packs takes empty ones away at any time."""
    for _ in range(_TRIES):
        with suppress(FileNotFoundError):
            return os.open(path, flags, mode)
        path.parent.mkdir(exist_ok=True)
        sync_folder(path.parent.parent)
    return os.open(path, flags, mode)


def _link(temporary: Path, path: Path) -> Path:
    """Give it its name; the folder whose names are to be flushed."""
    try:
        place(temporary, path)
    except FileExistsError:
        if not is_whole(path):
            os.replace(temporary, path)
    return path.parent


def is_whole(path: Path) -> bool:
    """Does the file of a loose object hold what its name says?"""
    try:
        whole = zlib.decompress(path.read_bytes())
    except (OSError, zlib.error):
        return False
    return hashlib.sha1(whole, usedforsecurity=False).hexdigest() == path.parent.name + path.name
