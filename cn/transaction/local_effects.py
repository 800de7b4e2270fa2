"""The last step: cn's refs, files of this machine, appended text. All of it can be repeated after a crash."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cn.git.objects import update_refs
from cn.git.process import GitError
from cn.git.repository import Hub
from cn.system.files import PRIVATE, make_parents, read_plain, write_file
from cn.transaction.journal import Journal, LocalAppend, LocalFile, RefUpdate
from cn.transaction.pins import PREFIX
from cn.values.errors import Blocked
from cn.values.names import Oid
from cn.values.text import visible

_POLL = 0.05
_STALE_LOOKS = 30


def write_refs(hub: Hub, refs: Sequence[RefUpdate]) -> list[str]:
    """Set and delete cn's refs: all at once, else one by one; sentences about what is not done."""
    reports = []
    # Deletions first, on their own: a deleted ref may give its name to a folder of refs.
    for batch in ([r for r in refs if r.new is None], [r for r in refs if r.new is not None]):
        try:
            update_refs(hub.git, batch)
        except GitError:
            reports += [text for ref, new in batch if (text := _write_ref(hub, ref, new))]
    return reports


def _write_ref(hub: Hub, ref: str, new: Oid | None, tries: int = 2) -> str:
    try:
        update_refs(hub.git, [(ref, new)])
    except GitError as failed:
        # Only cn writes here, under its lock: one that stays was left by a killed git of ours.
        if tries > 1 and remove_stale(hub.git_dir / f"{ref}.lock", new or ""):
            return _write_ref(hub, ref, new, tries - 1)
        # A pin that is not as the listing says makes the next sync look at its branch once more.
        then = "; the next 'cn sync' tries it again" if ref.startswith(PREFIX) else ""
        return f"{visible(ref)} cannot be written: {failed.done.reason}{then}"
    return ""


def remove_stale(lock: Path, value: str) -> bool:
    """Remove a ref's lock that holds ``value``, or nothing and does not go away by itself."""
    for _ in range(_STALE_LOOKS):
        try:
            text = lock.read_text("ascii", "replace").strip()
        except OSError:
            return False
        if text:
            break
        time.sleep(_POLL)
    if text not in ("", value):
        return False
    with suppress(FileNotFoundError):
        lock.unlink()
    return True


def joined_appends(journal: Journal) -> list[tuple[LocalAppend, int]]:
    """One append per file, with its length before: several to the same one share it."""
    texts: dict[Path, str] = {}
    sizes: dict[Path, int] = {}
    for append, size in zip(journal.appends, journal.sizes or [0] * len(journal.appends), strict=True):
        texts[append.path] = texts.get(append.path, "") + append.text
        sizes.setdefault(append.path, size)
    return [(LocalAppend(path, text), sizes[path]) for path, text in texts.items()]


def write_local(hub: Hub, file: LocalFile) -> None:
    """Write or remove a machine-local file. Doing it again changes nothing."""
    if file.data is not None:
        if file.path.is_relative_to(hub.state):  # what must not be committed
            write_file(file.path, file.data, mode=PRIVATE)
        else:
            write_file(file.path, file.data, root=hub.root)
        return
    found = read_plain(file.path)
    if found is not None and (not file.was or hashlib.sha256(found[1]).hexdigest() == file.was):
        with suppress(FileNotFoundError):
            file.path.unlink()


def append_once(append: LocalAppend, size: int, *, root: Path | None = None) -> None:
    """Append the text unless a killed run has done so, wholly or in part.

    ``size`` is the file's length when the journal was written: what stands behind that
    was written since. With ``root``, no parent below it may be a symlink.
    """
    data = append.text.encode("utf-8", "surrogateescape")
    make_parents(append.path, root)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(append.path, flags, 0o666), "r+b", buffering=0) as file:
            length = os.fstat(file.fileno()).st_size
            file.seek(size if size <= length else 0)
            since = file.read()
            if data in since:
                return
            rest = data[len(since) :] if data.startswith(since) else data
            _write_all(file.fileno(), rest)
    except OSError as why:
        raise Blocked(f"cannot append to {append.path}: {why.strerror}", "the next run tries again") from why


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
