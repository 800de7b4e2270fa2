"""Remove a folder, whatever somebody made in it: of any depth, with any names, closed to its owner.

Of the standard library alone: ``python -I -S removal.py FOLDER`` empties one as whoever ``sudo`` makes it.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN = 0o700


def remove_tree(path: Path) -> str:
    """Remove a folder with all that is in it, or whatever lies in its place; nothing is there: that is fine.

    A link goes, and nothing behind it; no pipe is waited for. What cannot be removed stays: the answer says the
    first reason, and is empty where nothing is left.
    """
    try:
        above = os.open(path.parent, _FOLDER & ~os.O_NOFOLLOW)
    except FileNotFoundError:
        return ""
    except OSError as why:
        return _said(why)
    try:
        return _remove(path.name, above)
    except FileNotFoundError:
        return ""
    except OSError as why:
        return _said(why)
    finally:
        os.close(above)


def _remove(name: str, above: int) -> str:
    """What is called so in an open folder."""
    if not stat.S_ISDIR(os.lstat(name, dir_fd=above).st_mode):
        os.unlink(name, dir_fd=above)
        return ""
    with _opened(name, above) as folder:
        why = _empty(folder)
    try:
        os.rmdir(name, dir_fd=above)
    except OSError as left:
        return why or _said(left)
    return ""


def _empty(top: int) -> str:
    """All that is in an open folder. A folder in it gives up its own folders to ``top`` before it goes, so that no path
    becomes long, and none of us calls itself: whoever made them could have made them deeper than any limit.
    """
    problem, left = "", set[str]()
    while names := [one for one in _entries(top) if one[0] not in left]:
        for name, is_folder in names:
            try:
                if is_folder:
                    _flatten(name, top)
                else:
                    os.unlink(name, dir_fd=top)
            except FileNotFoundError:
                continue
            except OSError as why:
                left.add(name)
                problem = problem or _said(why)
    return problem


def _flatten(name: str, top: int) -> None:
    """Remove a folder in ``top``, whose folders move there; raises :class:`OSError` where something of it stays."""
    problem: OSError | None = None
    with _opened(name, top) as folder:
        for inner, is_folder in _entries(folder):
            try:
                if is_folder:
                    _move_up(inner, folder, top)
                else:
                    os.unlink(inner, dir_fd=folder)
            except FileNotFoundError:
                continue
            except OSError as why:
                problem = problem or why
    if problem:
        raise problem
    os.rmdir(name, dir_fd=top)


def _move_up(name: str, folder: int, top: int) -> None:
    free = f".{os.urandom(8).hex()}"
    try:
        os.rename(name, free, src_dir_fd=folder, dst_dir_fd=top)
    except PermissionError:  # a folder that moves has to be written: its '..' is another
        with _opened(name, folder):
            os.rename(name, free, src_dir_fd=folder, dst_dir_fd=top)


def _entries(folder: int) -> list[tuple[str, bool]]:
    with os.scandir(folder) as found:
        return [(one.name, one.is_dir(follow_symlinks=False)) for one in found]


def _said(why: OSError) -> str:
    return why.strerror or str(why)


@contextmanager
def _opened(name: str, above: int) -> Iterator[int]:
    """A folder, open to be emptied, also one that was closed to us; links are not followed."""
    try:
        fd = os.open(name, _FOLDER, dir_fd=above)
    except PermissionError:
        _let_in(name, above)
        fd = os.open(name, _FOLDER, dir_fd=above)
    try:
        if os.fstat(fd).st_mode & _OPEN != _OPEN:
            with suppress(OSError):  # it is another's: what can be removed goes all the same
                os.fchmod(fd, _OPEN)
        yield fd
    finally:
        os.close(fd)


def _let_in(name: str, above: int) -> None:
    """Change the mode of a folder that cannot be opened to be read."""
    if sys.platform == "linux":  # chmod(2) knows no O_NOFOLLOW here; a descriptor of its place does (open(2), O_PATH)
        fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        try:
            os.chmod(f"/proc/self/fd/{fd}", _OPEN)
        finally:
            os.close(fd)
    else:
        os.chmod(name, _OPEN, dir_fd=above, follow_symlinks=False)


def main(folder: str) -> None:
    """Remove all in it that is this user's to remove; who asks looks what is left. What it lies in may be closed."""
    fd = os.open(folder, _FOLDER)
    try:
        _empty(fd)
    finally:
        os.close(fd)


if __name__ == "__main__":
    main(sys.argv[1])
