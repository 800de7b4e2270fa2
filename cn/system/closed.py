"""What of a hub another user of this machine closed to us: whose it is, and the command that opens it.

One place judges it, for whoever reads, writes, locks, or examines.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from cn.values.errors import Blocked, Refused
from cn.values.shell_words import command
from cn.values.text import visible

_ROOT = 0


def owner_of(path: Path) -> str:
    """The name of the user whose file it is, or the number of one that has none."""
    import pwd  # few messages name a user

    uid = path.lstat().st_uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def is_closed(path: str | os.PathLike[str]) -> bool:
    """Is there a plain file that we may not read? Who reads only takes it for none; who writes must not."""
    return not os.access(path, os.R_OK) and os.path.isfile(path) and not os.path.islink(path)


def closed_words(path: Path, shown: str = "") -> tuple[str, str] | None:
    """Why a file, ``shown`` as, cannot be read, and what helps; None: we may read it, or there is no plain file."""
    if not is_closed(path):
        return None
    owner = "yours" if path.lstat().st_uid == os.geteuid() else f"{visible(owner_of(path))}'s"
    return f"{shown or visible(str(path))} cannot be read: Permission denied; it is {owner}", opening(path)


def check_open(path: Path, shown: str) -> None:
    """Raise :class:`Refused` where there is a file that we may not read: nobody has seen what would be lost."""
    if words := closed_words(path, shown):
        raise Refused(f"{words[0]}, and what stands in it would be lost", f"nothing was written; {words[1]}")


def opening(path: Path) -> str:
    """Who has to run what, so that we may read and write there.

    The mode alone helps where the file's group is ours; else the file gets that of its folder, or this user as owner.
    """
    state, groups = path.lstat(), {os.getegid(), *os.getgroups()}
    rights = "rwX" if stat.S_ISDIR(state.st_mode) else "rw"
    if state.st_uid == os.geteuid():
        return f"run {command('chmod {} -- {}', f'u+{rights}', str(path))}"
    owner = visible(owner_of(path))
    opens = command("chmod {} -- {}", f"g+{rights}", str(path))
    if state.st_gid in groups and not _is_roots_alone(state):
        return f"let {owner} run {opens}"
    group = path.parent.lstat().st_gid
    if group in groups and state.st_uid != _ROOT:
        return f"let {owner} run {command('chgrp {} -- {}', str(group), str(path))}, then {opens}"
    return f"let root run {command('chown {} -- {}', str(os.geteuid()), str(path))}"


def _is_roots_alone(state: os.stat_result) -> bool:
    return state.st_uid == state.st_gid == _ROOT


def blame(why: OSError) -> tuple[str, str] | None:
    """Whose file or folder it is at which the system said no, and what helps; None: no other user's, or not that."""
    if why.errno not in (errno.EACCES, errno.EPERM) or not isinstance(why.filename, str | bytes | os.PathLike):
        return None
    place = Path(os.fsdecode(why.filename))
    try:
        found = next((one for one in (place, *place.parents) if _is_anothers(one)), None)
    except OSError:
        return None
    if found is None:
        return None
    text = f"{visible(str(place))}: {why.strerror}; {'it' if found == place else visible(str(found))} belongs to"
    return f"{text} {visible(owner_of(found))}", taking(found)


def blocked_by(why: OSError) -> Blocked:
    """:meth:`Blocked.by_system`, which names the other user whose file it is."""
    if blamed := blame(why):
        return Blocked(blamed[0], f"nothing is lost; {blamed[1]}, then run again")
    return Blocked.by_system(why)


def _is_anothers(place: Path) -> bool:
    """Is it there, another user's, and closed to us? What cannot be looked at lies in a folder that is."""
    try:
        state = place.lstat()
    except OSError:
        return False
    needed = os.R_OK | os.W_OK | (os.X_OK if stat.S_ISDIR(state.st_mode) else 0)
    return state.st_uid != os.geteuid() and not stat.S_ISLNK(state.st_mode) and not os.access(place, needed)


def taking(path: Path) -> str:
    """What opens it; in a folder of cn's own that is ours, what gives us back all that lies there."""
    for above in path.parents:
        if above.name == "cn" and above.parent.name == ".git" and above.lstat().st_uid == os.geteuid():
            return f"let root run {command('chown -R {} -- {}', str(os.geteuid()), str(above))}"
    return opening(path)


def foreign_below(folder: str | os.PathLike[str]) -> list[Path]:
    """What lies below the folder, is another user's, and closed to us; of a folder that is, only itself."""
    found: list[Path] = []
    for here, folders, names in os.walk(folder):
        closed = [Path(here, name) for name in sorted((*folders, *names)) if _is_anothers(Path(here, name))]
        found += closed
        folders[:] = [name for name in folders if Path(here, name) not in closed]
    return found
