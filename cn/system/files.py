"""Write files so that neither a crash nor a symlink can do harm."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path

from cn.system.closed import blame, check_open
from cn.values.errors import Blocked, Refused, explain_write
from cn.values.names import Oid

_TEMPORARY = ".cn-tmp-"
StrPath = str | os.PathLike[str]
"""Where many files are looked at, plain text is: making a Path of each costs more than the look."""
_STALE_SECONDS = 3600.0
MOST_LOGGED = 16 << 20


PRIVATE = 0o600
"""The mode of a file that nobody else may open."""

DENIED = "let the user of cn write there; 'cn doctor' names what a hub that is shared does not give its group"

_REMEDIES = {
    errno.EISDIR: "a folder lies in its place: move it out of the way",
    errno.ENOTDIR: "a file lies in the place of its folder: move it out of the way",
    errno.EEXIST: "a file lies in the place of its folder: move it out of the way",
    errno.EACCES: DENIED,
}


def write_file(path: Path, data: bytes, *, root: Path | None = None, mode: int = 0o666) -> None:
    """Write ``data`` beside ``path``, flush it, then replace ``path``.

    Creates parent folders. A symlink at ``path`` is replaced, not followed; with
    ``root``, no parent between ``root`` and ``path`` may be one, and what we may not read is not
    replaced (:class:`Refused`): nobody has seen what would be lost. ``mode`` is that of a new
    file, less the umask.
    """
    try:
        make_parents(path, root)
        if root is not None:
            check_open(path, str(path))
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
        raise Blocked(
            f"cannot write {path}: {why.strerror}", _REMEDIES.get(why.errno or 0, explain_write(why))
        ) from why


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
        remedy = DENIED if why.errno == errno.EACCES else explain_write(why)
        raise Blocked(f"cannot append to {path}: {why.strerror}", remedy) from why


def append_once(path: Path, text: str, size: int, *, root: Path | None = None) -> None:
    """Append a text unless a killed run has done so, wholly or in part.

    ``size`` is the file's length when the journal was written: what stands behind that
    was written since. With ``root``, no parent below it may be a symlink.
    """
    data = text.encode("utf-8", "surrogateescape")
    make_parents(path, root)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(path, flags, 0o666), "r+b", buffering=0) as file:
            length = os.fstat(file.fileno()).st_size
            file.seek(size if size <= length else 0)
            since = file.read()
            if data in since:
                return
            rest = data[len(since) :] if data.startswith(since) else data
            while rest:
                rest = rest[os.write(file.fileno(), rest) :]
    except OSError as why:
        remedy = "the next run tries again" if path.is_file() or not path.exists() else "move it out of the way"
        remedy = DENIED if why.errno == errno.EACCES else remedy
        raise Blocked(f"cannot append to {path}: {why.strerror}", remedy) from why


def is_writable(folder: Path) -> bool:
    """May this process make and remove files in the folder, as far as its permissions tell?"""
    return os.access(folder, os.W_OK | os.X_OK)


def has_room(folder: Path, size: int = 1) -> bool:
    """Are ``size`` bytes free on its disk for this user? True where the system does not tell (statvfs(3))."""
    with suppress(OSError):
        disk = os.statvfs(folder)
        return disk.f_blocks == 0 or disk.f_bavail * disk.f_frsize >= size
    return True


def has_files(folder: Path) -> bool:
    """Can its disk hold another file: are inodes left (statvfs(3))? True where the system does not tell."""
    with suppress(OSError):
        disk = os.statvfs(folder)
        return disk.f_files == 0 or disk.f_favail > 0
    return True


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable, where the file system can do that."""
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def drop(*paths: Path) -> None:
    """Remove files for good, those that are there, one after the other."""
    for path in paths:
        with suppress(FileNotFoundError):
            path.unlink()
            sync_folder(path.parent)


def links_in(folder: Path) -> list[Path]:
    """The symbolic links that lie in a folder, sorted; none where it cannot be read."""
    try:
        with os.scandir(folder) as found:
            return sorted(Path(entry.path) for entry in found if entry.is_symlink())
    except OSError:
        return []


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


def look_at(root: Path, paths: Iterable[str], like: Oid) -> dict[str, tuple[int, Oid]]:
    """Mode and id of each of these files below ``root``, as :func:`raw_id`; what is not there is missing.

    The mode is 0 of what is neither a regular file nor a symlink, and of what lies behind a symlink or a file.
    """
    found: dict[str, tuple[int, Oid]] = {}
    reached: dict[str, bool] = {}  # folders are looked at once, not for each file
    for path in paths:
        folder, target = path.rpartition("/")[0], f"{root}/{path}"
        if folder not in reached:
            reached[folder] = blocked_parent(root, target) is None
        plain = read_plain(target) if reached[folder] else None
        if plain is not None:
            found[path] = plain[0], blob_id(like, plain[1])
        elif not reached[folder] or os.path.lexists(target):
            found[path] = 0, Oid("")
    return found


def blob_id(like: Oid, data: bytes) -> Oid:
    """The id of a blob, in the object format of the id ``like``."""
    import hashlib  # OpenSSL takes 2 ms, and who only looks compares no files

    name = "sha1" if len(like) == 40 else "sha256"
    return Oid(hashlib.new(name, b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest())


def raw_id(path: StrPath, like: Oid) -> Oid | None:
    """The id of a file's bytes, in the object format of ``like``; None where there is no file."""
    plain = read_plain(path)
    return blob_id(like, plain[1]) if plain else None


def read_below(root: Path, path: str, limit: int = sys.maxsize) -> bytes | None:
    """:func:`read_regular` of a file below ``root``; None also for what lies behind a link."""
    target = f"{root}/{path}"
    return read_regular(target, limit) if blocked_parent(root, target) is None else None


def read_regular(path: StrPath, limit: int = sys.maxsize) -> bytes | None:
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


def place_below(root: Path, files: Mapping[str, StrPath]) -> dict[str, OSError]:
    """:func:`place` each file at its path below ``root``, in folders that are made where they are missing.

    Path → why it could not be; :class:`NotADirectoryError` where a parent is no real folder.
    """
    failed: dict[str, OSError] = {}
    for path, source in files.items():
        target = f"{root}/{path}"
        try:
            if blocked_parent(root, target) is not None:
                raise NotADirectoryError(0, "a parent is not a real folder")
            try:
                place(source, target)
            except FileNotFoundError:
                Path(target).parent.mkdir(parents=True, exist_ok=True)
                place(source, target)
        except OSError as why:
            failed[path] = why
    return failed


def exchange(
    root: Path, path: str, aside: StrPath, new: StrPath | None, raw: Oid
) -> tuple[Oid | None, dict[str, OSError]]:
    """Move the file at ``path`` below ``root`` aside, and place ``new`` there, if anything.

    The id of what was moved, and what :func:`place_below` says. Is the id not ``raw``, somebody wrote meanwhile: then
    nothing is placed. That the file cannot be moved raises.
    """
    move(f"{root}/{path}", aside)
    found = raw_id(aside, raw)
    return found, place_below(root, {path: new} if new is not None and found == raw else {})


def identity_of(folder: StrPath) -> str:
    """Which folder this is on this machine, wherever it is moved: a copy of it is another one. Empty where none is.

    Device and number (stat(2)): they say nothing of another machine, or after the next start of this one.
    """
    try:
        found = os.stat(folder)
    except OSError:
        return ""
    return f"{found.st_dev}:{found.st_ino}" if stat.S_ISDIR(found.st_mode) else ""


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
    return pid.isdigit() and int(pid) != os.getpid() and is_alive(int(pid))


def is_alive(pid: int) -> bool:
    """Is there a process of this number, whosever it is?"""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def log_lines(path: Path, *, rotated: int = 1, most: int = MOST_LOGGED) -> list[bytes]:
    """The lines of a log, oldest first, at most the last ``most`` bytes.

    ``rotated`` is how many of the older files are read too. The first line may be a part of one.
    """
    parts: list[bytes] = []
    for number in range(rotated + 1):
        part = _tail(path.with_name(f"{path.name}.{number}") if number else path, most)
        parts.append(part)
        most -= len(part)
    return [line for part in reversed(parts) for line in part.split(b"\n")]


def _tail(path: Path, most: int) -> bytes:
    if most <= 0:
        return b""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most))
            return file.read(most)
    except OSError:
        return b""


def open_lock(path: Path, mode: int = PRIVATE) -> int:
    """Open the lock file ``path``, made with ``mode`` where it is missing, as its folder is, but none above it.

    Whoever can open a file can lock it (flock(2)), so one that others may open is closed to them. A server whose hub
    was moved away meanwhile makes no empty one in its place.
    """
    path.parent.mkdir(exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    with suppress(OSError):  # it is another's with whom the repository is shared
        if stat.S_IMODE(os.fstat(fd).st_mode) != mode:
            os.fchmod(fd, mode)
    return fd


def hold(path: Path, mode: int = PRIVATE) -> int | None:
    """Take the lock ``path`` until the descriptor is closed; None while somebody else has it.

    ``flock`` belongs to the open file: whoever inherits the descriptor holds it too (flock(2)).
    """
    try:
        fd = open_lock(path, mode)
    except OSError as why:
        text, remedy = blame(why) or (f"{path}: {why.strerror}", "make the hub writable")
        raise Refused(f"cannot open the lock {text}", remedy) from why
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except BaseException:
        os.close(fd)
        raise
    return fd
