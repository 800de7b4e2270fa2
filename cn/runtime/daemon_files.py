"""Files of the daemon on this machine: its health, its offset in Telegram's queue, and dead letters.

By its health its children know when to stop. Losing the offset costs a look at messages that were queued
already; ``update_id`` tells them. A dead letter is the only copy of a message, so it is there before
Telegram forgets it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from cn.git.repository import Hub
from cn.system.files import read_regular, write_file
from cn.telegram.api import Incoming, read_update
from cn.values.errors import Refused, explain_write
from cn.values.names import HubPath
from cn.values.timestamps import format_second

_MOST_BYTES = 1 << 20
UNASKED = "unasked"
"""The name of the condition ``model`` that says why no turn can be made: a key, the model."""
STOPPING = "stopping"
"""The state of a daemon that was told to end."""


def is_stopping(hub: Hub) -> bool:
    """Was the daemon told to end? Its processor begins nothing more then."""
    return (read_health(hub) or {}).get("state") == STOPPING


def health_path(hub: Hub) -> Path:
    """``.git/cn/daemon.json``."""
    return hub.state / "daemon.json"


def write_health(hub: Hub, health: Mapping[str, Any]) -> None:
    """Say how the daemon is. Not flushed: after a crash of the machine it is wrong anyway."""
    path = health_path(hub)
    beside = path.with_name(f".cn-tmp-{os.getpid()}-health")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps(health, ensure_ascii=True, indent=1), "ascii")
        os.replace(beside, path)
    except OSError as why:
        raise Refused(f"cannot write {path}: {why.strerror}", explain_write(why)) from why


def read_health(hub: Hub) -> dict[str, Any] | None:
    """What the daemon last said of itself; None where none ever ran.

    Keys: pid, state (``running``, ``stopping``, ``stopped``), since, last_poll, last_error
    (``at``, ``text``) or null, offset, child (``pid``, ``since``) or null, queued, dead.
    ``is_running`` tells whether the process is still there.
    """
    try:
        data = json.loads(read_regular(health_path(hub), _MOST_BYTES) or b"")
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


OFFSET = HubPath("state/telegram.offset")


def read_offset(hub: Hub, bot: str) -> int | None:
    """The first update that is not dealt with; None, also for another bot: ask for all that Telegram has.

    The ids of one bot say nothing of another's: asking it from too high an id would make it forget what it has.
    """
    data = read_regular(hub.root / OFFSET, 64) or b""
    offset, _, named = data.decode("ascii", "replace").strip().partition(" ")
    return int(offset) if offset.isdigit() and named in ("", bot) else None


def write_offset(hub: Hub, offset: int, bot: str) -> None:
    """Everything before ``offset`` is safely queued, or needs nothing."""
    write_file(hub.root / OFFSET, f"{offset} {bot}\n".encode(), root=hub.root)


def dead_folder(hub: Hub) -> Path:
    """``.git/cn/telegram-dead``: never in the tree, never pushed."""
    return hub.state / "telegram-dead"


def write_dead(hub: Hub, update: Mapping[str, Any], reason: str, at: datetime) -> Path:
    """Keep an update that could not be queued, as Telegram sent it, with the reason."""
    path = dead_folder(hub) / f"{update['update_id']}.json"
    data = {"reason": reason, "at": format_second(at), "update": update}
    write_file(path, json.dumps(data, ensure_ascii=True, indent=1).encode())
    return path


def read_dead(hub: Hub) -> list[tuple[Path, Incoming, str]]:
    """The dead letters that can be read, oldest first: file, message, reason."""
    found = []
    for path in sorted(dead_folder(hub).glob("*.json")):
        with suppress(ValueError, KeyError, TypeError):
            data = json.loads(read_regular(path, _MOST_BYTES) or b"")
            incoming = read_update(data["update"])
            if isinstance(incoming, Incoming):
                found.append((path, incoming, str(data["reason"])))
    return sorted(found, key=lambda letter: (letter[1].at, letter[1].update_id))
