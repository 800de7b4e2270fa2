"""Write files so that neither a crash nor a symlink can do harm."""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import suppress
from io import FileIO
from pathlib import Path

from cn.values.errors import Blocked

_TEMPORARY = ".cn-tmp-"
StrPath = str | os.PathLike[str]
"""Where many files are looked at, plain text is: making a Path of each costs more than the look."""
_STALE_SECONDS = 3600.0


PRIVATE = 0o600

_ROOM = "is the disk full or read-only?"
_REMEDIES = {
    errno.EISDIR: "a folder lies in its place: move it out of the way",
    errno.ENOTDIR: "a file lies in the place of its folder: move it out of the way",
    errno.EEXIST: "a file lies in the place of its folder: move it out of the way",
    errno.EACCES: "let the user of cn write there",
}


def write_file(path: Path, data: bytes, *, root: Path | None = None, mode: int = 0o666) -> None:
    """Write ``data`` beside ``path``, flush it, then replace ``path``.

    Creates parent folders. A symlink at ``path`` is replaced, not followed; with
    ``root``, no parent between ``root`` and ``path`` may be one. ``mode`` is that of a new
    file, less the umask.
    """
    try:
        make_parents(path, root)
        temporary = path.parent / f"{_TEMPORARY}{os.getpid()}-{os.urandom(4).hex()}"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        sync_folder(path.parent)
    except OSError as why:
        raise Blocked(f"cannot write {path}: {why.strerror}", _REMEDIES.get(why.errno or 0, _ROOM)) from why


def overwrite(path: Path, data: bytes) -> bool:
    """Write over a file that is there, in the room it has; a crash can leave half of it.

    False where that cannot be: then it is as it was.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(fd, "r+b", buffering=0) as file:
            before = file.read()
            try:
                _fill(file, data)
            except OSError:
                _fill(file, before)
                return False
    except OSError:
        return False
    return True


def _fill(file: FileIO, data: bytes) -> None:
    file.seek(0)
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
    file.truncate(len(data))


def append_line(path: Path, line: str, *, root: Path | None = None) -> None:
    """Append one line in one write; what others left unfinished before it stays a line of its own.

    With ``root``, no parent below it may be a symlink.
    """
    data = line.encode("utf-8", "surrogateescape") + b"\n"
    try:
        make_parents(path, root)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(path, flags, 0o666)
        try:
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                data = b"\n" + data
            while data:
                data = data[os.write(fd, data) :]
        finally:
            os.close(fd)
    except OSError as why:
        raise Blocked(f"cannot append to {path}: {why.strerror}", "is the disk full or read-only?") from why


def is_writable(folder: Path) -> bool:
    """May this process make and remove files in the folder, as far as its permissions tell?"""
    return os.access(folder, os.W_OK | os.X_OK)


def has_room(folder: Path, size: int = 1) -> bool:
    """Are ``size`` bytes free on its disk for this user? True where the system does not tell (statvfs(3))."""
    with suppress(OSError):
        disk = os.statvfs(folder)
        return disk.f_blocks == 0 or disk.f_bavail * disk.f_frsize >= size
    return True


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable, where the file system can do that."""
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def make_parents(path: Path, root: Path | None) -> None:
    """Create the folders above ``path``; below ``root`` each must be a real folder."""
    if root is not None:
        stop = blocked_parent(root, path)
        if stop is not None:
            raise Blocked(f"cannot write {path}: {stop} is not a real folder", "move it out of the way")
    path.parent.mkdir(parents=True, exist_ok=True)


def blocked_parent(root: Path, path: StrPath) -> Path | None:
    """The first parent of ``path`` below ``root`` that is a symlink or no folder."""
    here, inside = os.fspath(root), os.fspath(path)
    assert inside.startswith(here), path
    for part in inside[len(here) :].strip("/").split("/")[:-1]:
        here = f"{here}/{part}"
        try:
            mode = os.lstat(here).st_mode
        except FileNotFoundError:
            return None
        except OSError:
            return Path(here)
        if not stat.S_ISDIR(mode):
            return Path(here)
    return None


def read_plain(path: StrPath) -> tuple[int, bytes] | None:
    """Mode and bytes of a regular file, or a symlink's target; None for all else."""
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return mode, os.fsencode(os.readlink(path))
        if not stat.S_ISREG(mode):
            return None
        # O_NONBLOCK: it may have become a pipe meanwhile, which must not hang us.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            return os.fstat(file.fileno()).st_mode, file.read()
    except OSError:
        return None


def read_regular(path: StrPath, limit: int) -> bytes | None:
    """At most ``limit`` bytes of a regular file; None for all else. Follows no link, waits for no pipe."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):  # before fdopen, which takes no folder
        os.close(fd)
        return None
    with os.fdopen(fd, "rb") as file:
        return file.read(min(limit, info.st_size))  # room for the whole limit would be made each time


def move(source: StrPath, target: StrPath) -> None:
    """Rename, across file systems too; ``target`` is a free name of ours."""
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(source, target)
    except OSError as why:
        if why.errno != errno.EXDEV:
            raise
        from shutil import copy2  # it brings compression along

        copy2(source, target, follow_symlinks=False)
        os.unlink(source)


def place(source: StrPath, target: StrPath) -> None:
    """Give the complete file ``source`` the name ``target``; never overwrites.

    Raises :class:`FileExistsError` when something is there.
    """
    try:
        os.link(source, target, follow_symlinks=False)
        return
    except OSError as why:
        if why.errno not in (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK):
            raise
    from shutil import copy2  # it brings compression along

    beside = Path(target).parent / f"{_TEMPORARY}{os.getpid()}-{os.urandom(4).hex()}"
    try:
        copy2(source, beside, follow_symlinks=False)
        try:
            os.link(beside, target, follow_symlinks=False)
        except FileExistsError:
            raise
        except OSError:
            # No hard links on this file system: the check and the rename are two steps.
            if os.path.lexists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
            os.rename(beside, target)
    finally:
        with suppress(OSError):
            beside.unlink()


def place_below(root: Path, source: StrPath, target: str) -> None:
    """:func:`place` in a folder below ``root``, which is made where it is missing.

    Raises :class:`NotADirectoryError` where a parent is no real folder.
    """
    if blocked_parent(root, target) is not None:
        raise NotADirectoryError(0, "a parent is not a real folder")
    try:
        place(source, target)
    except FileNotFoundError:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        place(source, target)


def free_name(path: Path) -> Path:
    """``path``, or ``path.2``, ``path.3`` … if that is taken."""
    name, number = path, 2
    while os.path.lexists(name):
        name, number = path.with_name(f"{path.name}.{number}"), number + 1
    return name


def sweep_temporary(folder: Path) -> None:
    """Remove what killed writers left in ``folder``; living ones are left alone."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(_TEMPORARY):
                with suppress(OSError):
                    age = time.time() - entry.stat(follow_symlinks=False).st_mtime
                    if age > _STALE_SECONDS or not _alive(entry.name.removeprefix(_TEMPORARY)):
                        os.unlink(entry.path)


def _alive(name: str) -> bool:
    """Does the process whose id starts a temporary file's name still run?"""
    pid = name.partition("-")[0]
    if not pid.isdigit() or int(pid) == os.getpid():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
