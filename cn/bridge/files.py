"""Files of the workspace: read for what the agent sends, and read-only copies placed of what it reads.

An agent names paths, and may change what lies there at any moment. So a path is opened beneath the workspace without
following a link of any kind: by openat2(2) where the kernel has it, else folder by folder.
"""

from __future__ import annotations

import ctypes
import errno
import os
import pwd
import stat
import sys
from contextlib import suppress

MOST = 8 << 20
"""Bytes of a file that is sent at most."""
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY
_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY
_OPENAT2 = 437
_RESOLVE = 0x02 | 0x04 | 0x08
"""RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH (openat2(2))."""
_READ_ONLY = 0o444


class PathRefused(Exception):
    """A path that is not opened: why, and what helps."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


class Workspace:
    """The folder at ``root``, held open: renaming it, or putting a link in its place, changes nothing."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self._fd = os.open(self.root, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)

    def read(self, path: str, most: int = MOST) -> bytes:
        """What a regular file holds that has no other name; raises :class:`PathRefused`."""
        fd = self._open(self._parts(path))
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise PathRefused(f"{path[:200]!r} is no regular file", "write the content to a file, and name that")
            if found.st_nlink != 1:
                reason = f"{path[:200]!r} has other names (hard links)"
                raise PathRefused(reason, "copy it to a file of its own, and name that")
            return _read_all(fd, path, most)
        finally:
            os.close(fd)

    def _parts(self, path: str) -> list[str]:
        """The names in a path, which may be written from the root of the file system."""
        if "\0" in path or not path:
            raise PathRefused("the path is empty or has a NUL", "name a file of your workspace")
        if path.startswith("/"):
            beneath = f"{self.root.rstrip('/')}/"
            if not path.startswith(beneath):
                raise PathRefused(f"{path[:200]!r} is not in your workspace, {self.root}", "copy the file there")
            path = path[len(beneath) :]
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts or not parts:
            raise PathRefused(f"{path[:200]!r} leads out of your workspace", f"name a file in {self.root}")
        return parts

    def _open(self, parts: list[str]) -> int:
        name = "/".join(parts)
        try:
            try:
                return _open_beneath(self._fd, name)
            except NotImplementedError:
                return self._walk(parts)
        except UnicodeEncodeError:
            raise PathRefused(f"{name[:200]!r} is no name of a file", "name a file of your workspace") from None
        except OSError as why:
            if why.errno in (errno.ELOOP, errno.EXDEV, errno.ENOTDIR):
                reason = f"{name[:200]!r} is or passes through a symbolic link, or a file"
                raise PathRefused(reason, "copy what it leads to into your workspace, and name that") from None
            raise PathRefused(f"{name[:200]!r}: {os.strerror(why.errno or 0)}", "write the file first") from None

    def _walk(self, parts: list[str]) -> int:
        """Folder by folder, none of which is a link."""
        folder = os.dup(self._fd)
        try:
            for part in parts[:-1]:
                below = os.open(part, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = below
            return os.open(parts[-1], _FLAGS, dir_fd=folder)
        finally:
            os.close(folder)

    def place(self, file: str, hash: str, data: bytes) -> str:
        """A read-only copy of a version at ``kb/<uuid>/<sha256>``; its path. Raises ``OSError``."""
        folder = os.dup(self._fd)
        name = f".{hash}.{os.getpid()}.{id(data):x}"
        try:
            for part in ("kb", file):
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
                below = os.open(part, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = below
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = os.open(name, flags, _READ_ONLY, dir_fd=folder)
            try:
                _write_all(fd, data)
            finally:
                os.close(fd)
            os.rename(name, hash, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            os.close(folder)
        return f"kb/{file}/{hash}"

    def has(self, file: str, hash: str) -> str:
        """The path of the copy of a version, if there is one; else empty."""
        path = f"kb/{file}/{hash}"
        try:
            found = os.stat(path, dir_fd=self._fd, follow_symlinks=False)
        except (OSError, ValueError):
            return ""
        return path if stat.S_ISREG(found.st_mode) else ""


class UsersFolder(Workspace):
    """The folder in which a client of the user started the bridge.

    Which folder that is the user may never have chosen: desktop programs start it in the home folder, or in ``/``. And
    what is read there a model names, which another one's text may have talked over. So nothing is read where all of the
    user's files lie, nor what is hidden, as settings and keys are.
    """

    def _parts(self, path: str) -> list[str]:
        beneath = f"{self.root.rstrip('/')}/"
        if any(f"{home}/".startswith(beneath) for home in _homes()):
            reason = f"the bridge was started in {self.root}, where your other files lie too, so it reads no file there"
            raise PathRefused(reason, "give the content itself, or start 'cn mcp' in a folder of what may be sent")
        parts = super()._parts(path)
        if any(part.startswith(".") for part in parts):
            reason = f"{path[:200]!r} is hidden: its name, or that of a folder above, begins with a dot"
            raise PathRefused(reason, "give the content itself, or copy the file to a name without")
        return parts


def _homes() -> list[str]:
    """The home folder of this user, as the environment and the system's list of users name it."""
    named = [os.path.expanduser("~")]
    with suppress(KeyError):  # a user without an entry, as in some containers
        named.append(pwd.getpwuid(os.getuid()).pw_dir)
    return ["/", *(os.path.realpath(home) for home in named if os.path.isabs(home))]


class _How(ctypes.Structure):
    """``struct open_how`` of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _open_beneath(folder: int, name: str) -> int:
    """openat2(2); raises ``NotImplementedError`` where there is none, or a filter forbids it."""
    if not sys.platform.startswith("linux"):
        raise NotImplementedError
    libc = ctypes.CDLL(None, use_errno=True)
    how = _How(_FLAGS, 0, _RESOLVE)
    fd = libc.syscall(_OPENAT2, folder, os.fsencode(name), ctypes.byref(how), ctypes.sizeof(how))
    if fd < 0:
        number = ctypes.get_errno()
        if number in (errno.ENOSYS, errno.EPERM, errno.EAGAIN):
            raise NotImplementedError
        raise OSError(number, os.strerror(number))
    return int(fd)


def _read_all(fd: int, path: str, most: int) -> bytes:
    found: list[bytes] = []
    size = 0
    while data := os.read(fd, 1 << 20):
        size += len(data)
        if size > most:
            raise PathRefused(f"{path[:200]!r} is longer than {most >> 20} MB", "keep files small, and link them")
        found.append(data)
    return b"".join(found)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
