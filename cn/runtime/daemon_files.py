"""Files of the daemon on this machine: its offset in Telegram's queue, and dead letters.

Losing the offset costs a look at messages that were queued already; ``update_id`` tells them. A dead letter is the
only copy of a message, so it is there before Telegram forgets it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from cn.git.repository import Hub
from cn.system.files import read_regular, write_file
from cn.telegram.api import Incoming, read_update
from cn.values.names import HubPath
from cn.values.timestamps import format_second

_MOST_BYTES = 1 << 20
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
