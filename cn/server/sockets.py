"""The Unix sockets of a running server, which are looked after.

Who can write their folder may have taken them away, and who is this user may have closed them by their modes.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import NamedTuple

from cn.server.arrivals import Arrivals
from cn.server.places import Mark, ServerPlaces, listen_at, make_folder, mark_of, mend_modes


class _Open(NamedTuple):
    """A socket of ours, and which file it is."""

    socket: socket.socket
    mark: Mark | None


class Renewed(NamedTuple):
    """A socket that is in the place of one which nobody finds any more."""

    path: Path
    old: socket.socket
    new: socket.socket


class Sockets:
    """That for agents and that for the user. ``others``: agents of other users may come to the first.
    Whose connections come without pause ``arrivals`` knows.
    """

    def __init__(self, places: ServerPlaces, *, others: bool, arrivals: Arrivals | None = None) -> None:
        self._places, self._others, self._arrivals = places, others, arrivals
        self._open: dict[Path, _Open] = {}

    def open(self) -> list[socket.socket]:
        """Both, new; raises :class:`cn.values.errors.Blocked`."""
        make_folder(self._places, others=self._others)
        for path in (self._places.agents, self._places.user):
            self._listen(path)
        return [one.socket for one in self._open.values()]

    def mend(self) -> list[Path]:
        """Open those again whose mode was changed, and their folders; which these were."""
        return mend_modes(self._places, others=self._others)

    def renew(self) -> list[Renewed]:
        """Those anew whose place is another's or empty; raises :class:`cn.values.errors.Blocked` where that fails."""
        lost = [path for path, one in self._open.items() if one.mark is None or mark_of(path) != one.mark]
        if not lost:
            return []
        make_folder(self._places, others=self._others)
        return [Renewed(path, self._open[path].socket, self._listen(path)) for path in lost]

    def _listen(self, path: Path) -> socket.socket:
        of_agents = path == self._places.agents
        made = listen_at(path, others=self._others and of_agents, arrivals=self._arrivals if of_agents else None)
        self._open[path] = _Open(made, mark_of(path))
        return made

    def remove(self) -> None:
        """Take ours away; what is another's stays."""
        for path, one in self._open.items():
            if one.mark and mark_of(path) == one.mark:
                path.unlink(missing_ok=True)
