"""Where the server is found on this machine: its sockets, its health file, its lock."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cn.git.repository import Hub
from cn.server.arrivals import Arrivals, Counted
from cn.system.files import free_name
from cn.values.errors import Blocked
from cn.values.names import digest
from cn.values.shell_words import command

_PRIVATE = 0o600
_FOR_OTHERS = 0o666
_PASSED = 0o711
_BACKLOG = 128
_STOPS_IT = "'cn agency stop WHO' ends an agent that lives on"
_LONGEST = 104
"""Bytes of a socket's path, with the zero at its end, where a system allows fewest (unix(7), unix(4))."""


class ServerPlaces(NamedTuple):
    """``folder`` has the sockets: a path that is short enough for one (unix(7)), and in no workspace."""

    state: Path
    folder: Path

    @property
    def lock(self) -> Path:
        """Held by the one server of the hub."""
        return self.state / "agency.server.lock"

    @property
    def health(self) -> Path:
        """How it is and where it listens, as JSON; the bridge of a person reads it."""
        return self.state / "agency" / "server.json"

    @property
    def agents(self) -> Path:
        """The socket for agents: who comes needs a token. A wrap shows an agent its folder, which has nothing else, so
        that it finds the socket of a server that was started anew.
        """
        return self.folder / "agents" / "agents.sock"

    @property
    def user(self) -> Path:
        """The socket for the user: who can open it is the user, so no wrap shows it to an agent."""
        return self.folder / "user.sock"


def places_of(hub: Hub) -> ServerPlaces:
    """Of a hub, below ``$XDG_RUNTIME_DIR/cn`` or a folder of the user's own beside the temporary files; where somebody
    else made that one, which nobody but them can remove, below the user's state folder.
    """
    runtime, name = os.environ.get("XDG_RUNTIME_DIR", ""), digest(str(hub.state.resolve()))
    if runtime.startswith("/"):
        return ServerPlaces(hub.state, Path(runtime) / "cn" / name)
    usual = ServerPlaces(hub.state, Path(tempfile.gettempdir()) / f"cn-{os.geteuid()}" / name)
    if _is_ours(usual.folder.parent):
        return usual
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if state.startswith("/") else Path.home() / ".local/state"
    other = ServerPlaces(hub.state, base / "cn/run" / name)
    return other if _fits(other.agents) else usual


def _is_ours(folder: Path) -> bool:
    """Is it a folder of this user's, or none yet?"""
    try:
        found = os.lstat(folder)
    except OSError:
        return True
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) < _LONGEST


def make_folder(places: ServerPlaces, *, others: bool) -> None:
    """The folder of the sockets, which nobody else can write; ``others``: agents of other users may pass through it.

    Raises :class:`Blocked` where somebody else made it before.
    """
    modes = _modes(places, others=others)
    for folder in modes:
        remedy = "set XDG_RUNTIME_DIR to a folder of your own with a short path"
        try:
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700, parents=True)
        except OSError as why:
            raise Blocked(f"cannot make {folder}: {why.strerror}", remedy) from why
        if not _is_ours(folder):
            raise Blocked(f"{folder} is not ours", remedy)
        folder.chmod(modes[folder])


def _modes(places: ServerPlaces, *, others: bool) -> dict[Path, int]:
    """Those of the folders, the outermost first. That one has the sockets of all this user's hubs, each of which may
    have a server that looks after its mode: so it is the same for all. Who passes through finds each hub's own closed.
    """
    mode = _PASSED if others else 0o700
    return {places.folder.parent: _PASSED, places.folder: mode, places.agents.parent: mode}


def mend_modes(places: ServerPlaces, *, others: bool) -> list[Path]:
    """Give folders and sockets of ours their modes again, the folders first; which had another one.

    An agent that is held only by its paths may change any mode of this user's, and so close them to all.
    """
    wanted = _modes(places, others=others)
    wanted |= {places.agents: _socket_mode(others=others), places.user: _PRIVATE}
    return [path for path, mode in wanted.items() if _set_mode(path, mode)]


def _socket_mode(*, others: bool) -> int:
    return _FOR_OTHERS if others else _PRIVATE


def _set_mode(path: Path, mode: int) -> bool:
    with suppress(OSError):  # it is not there, which is another matter
        found = path.lstat()
        ours = found.st_uid == os.geteuid() and (stat.S_ISDIR(found.st_mode) or stat.S_ISSOCK(found.st_mode))
        if ours and stat.S_IMODE(found.st_mode) != mode:
            path.chmod(mode)
            return True
    return False


def listen_at(path: Path, *, others: bool = False, arrivals: Arrivals | None = None) -> socket.socket:
    """A Unix socket at ``path``, in place of whatever lies there, at which ``arrivals`` counts who comes. Called with
    the server's lock held.
    """
    made = Counted(arrivals) if arrivals else socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _make_way(path)
        made.bind(str(path))
        path.chmod(_socket_mode(others=others))
        made.listen(_BACKLOG)
    except OSError as why:
        made.close()
        fits = _fits(path)
        ours = f"remove what lies there, and see that {path.parent} is yours to write"
        remedy = ours if fits else "set XDG_RUNTIME_DIR to a short path"
        raise Blocked(f"cannot listen at {path}: {why.strerror or why}", remedy) from why
    return made


def _make_way(path: Path) -> None:
    """The socket of a server before goes, and so does a file; a folder is set aside, where no agent sees it."""
    try:
        path.unlink()
    except FileNotFoundError:
        return
    except OSError:
        if not stat.S_ISDIR(path.lstat().st_mode):
            raise
        path.rename(free_name(path.parent.parent / f"{path.name}.aside"))


class Mark(NamedTuple):
    """Which file a socket is: another one of its name is not ours."""

    device: int
    number: int


def mark_of(path: Path) -> Mark | None:
    """None where no socket is."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return Mark(found.st_dev, found.st_ino) if stat.S_ISSOCK(found.st_mode) else None


def listen_on(port: int, known: int) -> socket.socket:
    """A port of this machine's loopback: the one that is wanted, else the one of the last time, else a free one.

    Raises :class:`Blocked` where the wanted one is taken.
    """
    tries: Collection[int] = [port] if port else dict.fromkeys([known, 0])
    for one in tries:
        # Named, so that asyncio knows it and sends without delay (TCP_NODELAY).
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind(("127.0.0.1", one))
            made.listen(_BACKLOG)
        except OSError as why:
            made.close()
            reason = why
            continue
        return made
    holder = command("ss -ltnp sport = :{}", str(port))
    remedy = f"{holder} tells what has it: stop that ({_STOPS_IT}), or choose another port"
    raise Blocked(f"cannot listen on port {port}: {reason.strerror}", remedy)
