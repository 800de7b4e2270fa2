"""How the server of a hub is, as whoever is not the server sees it: by its health file, and by its socket."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from cn.system.files import identity_of, read_regular
from cn.values.text import one_line

HEALTH = "agency/server.json"
_MOST = 1 << 16
_SECONDS = 5.0
_PAUSE = 0.05
_SHOWN = 20
STOPPING = "stopping"
"""The state of one that was asked to end, and holds its place until it has."""
_WELL = ("ready", "starting")


class ServerSeen(NamedTuple):
    """``pid`` of a server that runs, else 0. ``problems``: why a handler gets no agent; ``faults``: what went wrong
    with an agent or a handler, each by its UUID; ``unreached``: why a socket leads nowhere, else empty. ``away``:
    another server behind it → why it is not ready; ``left_out``: which of its tools are not listed by name. ``ending``:
    it was asked to end, and has not yet. ``socket`` is that for agents.
    """

    pid: int = 0
    problems: Mapping[str, str] = {}
    faults: Mapping[str, str] = {}
    unreached: str = ""
    away: Mapping[str, str] = {}
    left_out: Mapping[str, str] = {}
    ending: bool = False
    socket: str = ""


def see_server(state: Path) -> ServerSeen:
    """That of the hub whose local state is in ``state``.

    The health file of a copied hub tells of the other folder's server, which is none of this one's.
    """
    found = _read(state / HEALTH)
    pid = found.get("pid")
    if not found or found.get("place") != identity_of(state):
        return ServerSeen()
    if not isinstance(pid, int) or found.get("state") in (None, "stopped") or not _lives(pid):
        return ServerSeen()
    paths = [str(found.get(name, "")) for name in ("socket", "user_socket")]
    unreached = "" if found["state"] != "running" else next((why for path in paths if (why := _unreached(path))), "")
    away = {name: state for name, state in _texts(found.get("servers")).items() if state not in _WELL}
    left_out = _texts(found.get("left_out"))
    return ServerSeen(
        pid,
        _texts(found.get("problems")),
        _texts(found.get("faults")),
        unreached,
        away,
        left_out,
        found["state"] == STOPPING,
        paths[0],
    )


def _read(path: Path) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        found = json.loads(read_regular(path, _MOST) or b"null")
        return found if isinstance(found, dict) else {}
    return {}


def _texts(found: object) -> dict[str, str]:
    rows = [*found.items()][:_SHOWN] if isinstance(found, dict) else []
    return {str(id): one_line(str(why), 300) for id, why in rows}


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError, ValueError):
        return False
    return pid > 0


def _unreached(path: str) -> str:
    """Why nobody answers at a socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.settimeout(_SECONDS)
        try:
            _connect(made, path)
        except OSError as why:
            return f"{path}: {why.strerror or why}"
    return ""


def _connect(made: socket.socket, path: str) -> None:
    """Where its queue is full it is tried again for a while, as a socket that waits does (connect(2), EAGAIN)."""
    end = time.monotonic() + _SECONDS
    while True:
        try:
            return made.connect(path)
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(_PAUSE)
