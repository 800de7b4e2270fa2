"""Folders of agents on this machine: ``$XDG_STATE_HOME/cn/agency/<hub>/live/<agent>``, and what stays of them.

An agent works in ``workspace``, has ``home`` as its home, and reads ``files``. At the end these are removed; what it
said stays in ``ended/<agent>`` for some days. The hub's name has some digits of its path, since two hubs may have one
name.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import stat
import subprocess
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from cn.agency.names import Uuid, is_uuid
from cn.agents.processes import NotKnown, empty_as
from cn.git.repository import Hub
from cn.system.closed import open_again
from cn.system.files import identity_of, read_regular, write_file
from cn.system.removal import remove_tree
from cn.values.errors import Blocked
from cn.values.text import one_line, visible

LIVE: Final = "live"
ENDED: Final = "ended"
_OTHERS_PASS = 0o711
_OURS = 0o700
_USER, _LONGEST = "user", 256


class Folder(NamedTuple):
    """Where one agent is kept; ``path`` also has the notes of its launcher, and what it says."""

    path: Path

    @property
    def agent(self) -> Uuid:
        """Whose it is."""
        return Uuid(self.path.name)  # type: ignore[arg-type]

    @property
    def workspace(self) -> Path:
        """Where it works."""
        return self.path / "workspace"

    @property
    def home(self) -> Path:
        """What it has for a home folder."""
        return self.path / "home"

    @property
    def files(self) -> Path:
        """What it reads: prompt, configuration."""
        return self.path / "files"

    @property
    def users(self) -> tuple[str, ...]:
        """The other user of the machine as whom it works, if any."""
        name = (read_regular(self.path / _USER, _LONGEST) or b"").decode("utf-8", "replace")
        return (name,) if name else ()


class Folders(NamedTuple):
    """Those of all agents of a hub; ``hub`` names its folder, as the processes of its agents do."""

    base: Path
    hub: str = ""

    def make(self, agent: Uuid, *, other_user: str = "") -> Folder:
        """A new one, which nobody else can look into. ``other_user`` is who is to work there, where that is another
        user of the machine: workspace and home are that user's alone. Raises :class:`Blocked`.
        """
        mode = _OTHERS_PASS if other_user else _OURS
        folder = Folder(self.base / LIVE / agent)
        try:
            _open_folder(self.open_base(other_user=other_user) / LIVE, other_user=other_user)
            _make(folder.path, mode)
            if other_user:
                write_file(folder.path / _USER, other_user.encode(), root=folder.path, mode=0o600)
            for path in (folder.workspace, folder.home):
                _make(path, _OURS)
                if other_user:
                    _hand_over(path, other_user)
            _make(folder.files, mode)
        except OSError as why:
            raise Blocked(f"cannot make {folder.path}: {why.strerror}", "make room, and let cn write there") from why
        return folder

    def open_base(self, *, other_user: str = "") -> Path:
        """The folder of all, made where it is not there; ``other_user`` may pass it, and not look around."""
        return _open_folder(self.base, other_user=other_user)

    def live(self) -> list[Folder]:
        """Of agents that have not been cleared away."""
        return self._all(LIVE)

    def find(self, agent: Uuid) -> Folder | None:
        """That of an agent which has not been cleared away."""
        folder = Folder(self.base / LIVE / agent)
        self._open(LIVE)
        open_again(folder.path)
        return folder if folder.path.is_dir() else None

    def empty(self, folder: Folder) -> None:
        """Remove what an agent made whose processes are gone: its end needs room on a disk that it may have filled."""
        for path in _emptied(folder):
            if path != folder.files:  # which say what was asked of it
                remove_made(path, folder.users)

    def retire(self, folder: Folder) -> str:
        """Remove all but what the agent said; a killed server does so again.

        What cannot be removed is set aside with what it said; the answer says why, else it is empty.
        """
        left = [why for path in _emptied(folder) if (why := remove_made(path, folder.users))]
        target = self.base / ENDED / folder.path.name
        target.parent.mkdir(mode=_OURS, exist_ok=True)
        remove_tree(target)
        os.rename(folder.path, target)
        return left[0] if left else ""

    def left_over(self) -> list[Folder]:
        """Of agents that ended, and left what could not be removed."""
        return [one for one in self._all(ENDED) if _emptied(one)]

    def ended(self, agent: Uuid) -> Folder:
        """Where it is said what an ended agent did."""
        return Folder(self.base / ENDED / agent)

    def forget(self, before: float) -> int:
        """Remove what was said by agents that ended before a time (seconds since 1970); how many.

        An agent may set a folder's times; the one of its last change (``st_ctime``) the system alone sets, to now.
        """
        old = [one for one in self._all(ENDED) if one.path.stat().st_ctime < before]
        for one in old:
            for path in _emptied(one):
                remove_made(path, one.users)
            remove_tree(one.path)
        return len(old)

    def _all(self, name: str) -> list[Folder]:
        self._open(name)
        try:
            found = [Folder(self.base / name / one) for one in sorted(os.listdir(self.base / name)) if is_uuid(one)]
        except FileNotFoundError:
            return []
        open_again(*(one.path for one in found))
        return found

    def _open(self, name: str) -> None:
        """An agent that may change modes by their paths could make all agents look lost."""
        open_again(self.base.parent, self.base, self.base / name)


def _open_folder(path: Path, *, other_user: str) -> Path:
    mode = _OTHERS_PASS if other_user else _OURS
    missing = [one for one in (path, *path.parents) if not one.exists()]
    for one in reversed(missing):
        with suppress(FileExistsError):
            _make(one, mode)
    if other_user and stat.S_IMODE(path.stat().st_mode) & 0o777 != mode:
        path.chmod(mode)
    return path


def _make(path: Path, mode: int) -> None:
    """With this mode, whatever the umask leaves out of that of mkdir(2)."""
    path.mkdir(mode=_OURS)
    path.chmod(mode)


def _hand_over(path: Path, user: str) -> None:
    """An empty folder becomes one in which this user works, and nobody else but us. Raises :class:`Blocked`."""
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        raise Blocked(f"this machine has no user {user}", "correct 'user' of the runner, or make that user") from None
    us = os.geteuid()
    if us == 0:
        os.chown(path, account.pw_uid, account.pw_gid)
        return
    # Nobody but root gives a folder away; a list of access says who else may enter (acl(5)).
    rules = f"u:{account.pw_uid}:rwx,d:u:{account.pw_uid}:rwx,d:u:{us}:rwx"
    try:
        done = subprocess.run(["setfacl", "-m", rules, "--", path], capture_output=True, text=True, check=False)
        why = done.stderr.strip() if done.returncode else ""
    except FileNotFoundError:
        why = "there is no setfacl here"
    if why:
        remedy = "install setfacl (Debian: package acl) on a file system with access lists, or let root serve"
        raise Blocked(f"{path} cannot be given to {user} alone: {visible(one_line(why))}", remedy)


def remove_made(path: Path, users: Collection[str]) -> str:
    """Remove what an agent made, also what the other user closed as whom it worked; why something stays, else empty."""
    why = remove_tree(path)
    for user in users if why else ():
        with suppress(NotKnown):
            empty_as(user, path)
        why = remove_tree(path)
    return why


def _emptied(folder: Folder) -> list[Path]:
    """What goes with the agent: all folders, whatever it called them, and what lies in the place of ours."""
    ours = folder.workspace, folder.home, folder.files
    with suppress(OSError), os.scandir(folder.path) as found:
        return [Path(one) for one in found if one.is_dir(follow_symlinks=False) or Path(one) in ours]
    return []


def folders_of(hub: Hub, env: Mapping[str, str] = os.environ) -> Folders:
    """Those of a hub on this machine."""
    state = Path(env.get("XDG_STATE_HOME") or Path(env.get("HOME", "/")) / ".local/state")
    mark = hashlib.sha256(os.fsencode(hub.git_dir.resolve())).hexdigest()[:8]
    name = re.sub(r"[^A-Za-z0-9._-]", "-", hub.identity[0])[:40] or "hub"
    return Folders(state / "cn/agency" / f"{name}-{mark}", identity_of(hub.state))


def write_below(folder: Path, path: str, text: str) -> None:
    """A file of a runner, below the agent's workspace."""
    write_file(folder / path, text.encode(), root=folder, mode=0o600)
