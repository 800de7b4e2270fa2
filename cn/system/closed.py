"""What of a hub is closed to us, by another user of this machine or by its mode: whose it is, and what opens it.

One place judges it, for whoever reads, writes, locks, or examines.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
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

    The mode alone helps where the file's group is ours; else the file gets that of its folder, or this user as owner
    where it lies in a folder of this user's. What else is another's, such as a home, is that one's to open.
    """
    state, groups = path.lstat(), {os.getegid(), *os.getgroups()}
    rights = "rwX" if stat.S_ISDIR(state.st_mode) else "rw"
    if state.st_uid == os.geteuid():
        return f"run {command('chmod {} -- {}', f'u+{rights}', str(path))}"
    owner = visible(owner_of(path))
    if _is_home(path):
        return f"it is no place of yours: choose another, or ask {owner}"
    opens = command("chmod {} -- {}", f"g+{rights}", str(path))
    if state.st_gid in groups and not _is_roots_alone(state):
        return f"let {owner} run {opens}"
    group = path.parent.lstat().st_gid
    if group in groups and state.st_uid != _ROOT:
        return f"let {owner} run {command('chgrp {} -- {}', str(group), str(path))}, then {opens}"
    if not any(above.lstat().st_uid == os.geteuid() for above in path.parents):
        return f"it is no place of yours: choose another, or ask {owner}"
    return f"let root run {command('chown {} -- {}', str(os.geteuid()), str(path))}"


def _is_home(path: Path) -> bool:
    """Is it the folder of all that its owner has? Nobody opens that for one file in it."""
    import pwd

    try:
        return pwd.getpwuid(path.lstat().st_uid).pw_dir == str(path)
    except KeyError:
        return False


def _is_roots_alone(state: os.stat_result) -> bool:
    return state.st_uid == state.st_gid == _ROOT


def blame(why: OSError) -> tuple[str, str] | None:
    """Which file or folder it is at which the system said no, and what helps; None: none that is closed to us."""
    if why.errno not in (errno.EACCES, errno.EPERM) or not isinstance(why.filename, str | bytes | os.PathLike):
        return None
    place = Path(os.fsdecode(why.filename))
    try:
        found = _closed_at(place)
        if found is None:
            return None
        state, said = found.lstat(), f"{visible(str(place))}: {why.strerror}; "
        said += "it" if found == place else visible(str(found))
        if state.st_uid != os.geteuid():
            return f"{said} belongs to {visible(owner_of(found))}", taking(found)
        return f"{said} is yours, and its mode {stat.S_IMODE(state.st_mode):03o} closes it to you", opening(found)
    except OSError:
        return None


def _closed_at(place: Path) -> Path | None:
    """What closes a place to us: itself, or the folder in which it is made or removed; where it cannot be looked at, or
    is not there, the nearest folder above that can. What is above a folder into which we may look is no hindrance.
    """
    real = Path(os.path.realpath(place.parent), place.name)
    there = next((one for one in (real, *real.parents) if os.path.lexists(one)), None)
    if there is None:
        return None
    found = next((one for one in (there, real.parent) if _is_closed_to_us(one)), None)
    return place if found == real else found


def blocked_by(why: OSError) -> Blocked:
    """:meth:`Blocked.by_system`, which names the file or folder that is closed, and what opens it."""
    if blamed := blame(why):
        return Blocked(blamed[0], f"nothing is lost; {blamed[1]}, then run again")
    return Blocked.by_system(why)


def _is_anothers(place: Path) -> bool:
    """Is it there, another user's, and closed to us? What cannot be looked at lies in a folder that is."""
    try:
        return place.lstat().st_uid != os.geteuid() and _is_closed_to_us(place)
    except OSError:
        return False


def _is_closed_to_us(place: Path) -> bool:
    """May we not read it, write it, or, if it is a folder, look into it? Of a file of ours, may we not read it: git
    takes the right to write from its own.
    """
    try:
        state = place.lstat()
    except OSError:
        return False
    needed = os.R_OK
    if stat.S_ISDIR(state.st_mode):
        needed |= os.W_OK | os.X_OK
    elif state.st_uid != os.geteuid():
        needed |= os.W_OK
    return not stat.S_ISLNK(state.st_mode) and not os.access(place, needed)


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


def writing(folder: Path, otherwise: str) -> str:
    """What lets us write in a folder of ours whose mode forbids it; ``otherwise`` where it is another reason."""
    state = folder.lstat()
    needed = stat.S_IWUSR | stat.S_IXUSR
    by_mode = state.st_uid == os.geteuid() and state.st_mode & needed != needed
    return opening(folder) if by_mode else otherwise


def closed_below(folder: Path) -> tuple[str, str] | None:
    """What at or below a folder cannot be read, by its mode or its owner, and what opens it; None: all can be."""
    found = [folder] if _is_unread(folder) else []
    for here, folders, names in os.walk(folder):
        unread = [Path(here, name) for name in sorted((*folders, *names)) if _is_unread(Path(here, name))]
        found += unread
        folders[:] = [name for name in folders if Path(here, name) not in unread]
    if not found:
        return None
    first, *more = found
    text = f"{visible(str(first))}{f' and {len(more)} more' if more else ''} cannot be read: Permission denied"
    if first.lstat().st_uid != os.geteuid():
        return f"{text}; it belongs to {visible(owner_of(first))}", taking(first)
    all_of_it = f"run {command('chmod -R u+rwX -- {}', str(folder))}"
    return f"{text}; it is yours, and its mode closes it to you", all_of_it if more else opening(first)


def _is_unread(place: Path) -> bool:
    needed = os.R_OK | os.X_OK if place.is_dir() else os.R_OK
    return not place.is_symlink() and not os.access(place, needed)


def open_again(*places: Path) -> list[Path]:
    """Let us in again at files and folders of ours whose modes close them to us, those above first; which these were.

    For what cn alone uses: a program that runs as this user, and is held only by its paths, can change any mode.
    """
    return [place for place in places if _open_again(place)]


def _open_again(place: Path) -> bool:
    with suppress(OSError):
        state = place.lstat()
        folder, mode = stat.S_ISDIR(state.st_mode), stat.S_IMODE(state.st_mode)
        reads = stat.S_IRUSR | stat.S_IXUSR if folder else stat.S_IRUSR
        ours = state.st_uid == os.geteuid() and (folder or stat.S_ISREG(state.st_mode))
        if ours and mode & reads != reads:
            place.chmod(mode | (stat.S_IRWXU if folder else stat.S_IRUSR | stat.S_IWUSR))
            return True
    return False
