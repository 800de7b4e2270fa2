"""Bring a folder of ours to another user of the machine, as that one's own: nobody but root gives files away.

A program of the standard library alone, for both ends of a pipe. ``python -I -S -X utf8 carry.py PARENT`` writes all
that is in the folder in which it stands, as rows of JSON, and behind a file's row its bytes. ``… carry.py FOLDER BESIDE
NAME``, which ``sudo`` runs as the other user, makes it anew as ``BESIDE`` in ``FOLDER``, and calls it ``NAME`` when it
is whole. Modes are those that this user would give: our umask may have left others nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from typing import IO

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UMASK = 0o022
_PART = 1 << 20
_FILE, _LINK, _INNER, _WHOLE = "file", "link", "folder", "whole"


def write_out(out: IO[bytes], parent: int) -> None:
    """All in this folder. That it is whole is not said to one that was asked for by a process which is gone."""
    for path, one in _below():
        told = one.stat(follow_symlinks=False)
        if stat.S_ISDIR(told.st_mode):
            _tell(out, _INNER, path)
        elif stat.S_ISLNK(told.st_mode):
            _tell(out, _LINK, path, os.readlink(path))
        else:
            _tell(out, _FILE, path, (told.st_mode >> 6 & 7) * 0o111, told.st_size)
            with open(path, "rb") as file:
                _copy(file, out, told.st_size)
    if os.getppid() == parent:
        _tell(out, _WHOLE)
    out.flush()


def _below() -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Each folder before what is in it; paths from here, as long as git makes them."""
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with os.scandir(folder or ".") as found:
            for one in found:
                path = os.path.join(folder, one.name)
                if one.is_dir(follow_symlinks=False):
                    waiting.append(path)
                yield path, one


def _tell(out: IO[bytes], *row: object) -> None:
    out.write(json.dumps(row).encode() + b"\n")


def _copy(source: IO[bytes], target: IO[bytes], size: int) -> None:
    while size:
        part = source.read(min(size, _PART))
        if not part:
            raise EOFError
        target.write(part)
        size -= len(part)


def take_in(source: IO[bytes], folder: str, beside: str, name: str) -> None:
    """Make it anew. ``NAME`` is free, or an empty folder; what is not whole is removed."""
    os.umask(_UMASK)
    above = os.open(folder, _FOLDER)
    os.fchdir(above)
    os.mkdir(beside)
    try:
        os.chdir(beside)
        _make_all(source)
        os.rename(beside, name, src_dir_fd=above, dst_dir_fd=above)
    except BaseException:
        os.fchdir(above)
        shutil.rmtree(beside, ignore_errors=True)
        raise


def _make_all(source: IO[bytes]) -> None:
    """In this folder."""
    while True:
        kind, *row = json.loads(source.readline() or b"[0]")
        if kind == _INNER:
            os.mkdir(row[0])
        elif kind == _LINK:
            os.symlink(row[1], row[0])
        elif kind == _FILE:
            with open(os.open(row[0], _NEW, row[1]), "wb") as file:
                _copy(source, file, row[2])
        elif kind == _WHOLE:
            return
        else:
            raise EOFError


def main(argv: list[str]) -> None:
    """One end of the pipe; the last line of what it complains of is the reason."""
    try:
        if len(argv) == 1:
            write_out(sys.stdout.buffer, int(argv[0]))
        else:
            take_in(sys.stdin.buffer, *argv)
    except OSError as why:
        sys.exit(why.strerror or str(why))
    except (EOFError, ValueError):
        sys.exit("it was cut off")


if __name__ == "__main__":
    main(sys.argv[1:])
