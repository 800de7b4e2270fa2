"""The daemon's health file on this machine; by it its children know when to stop."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cn.git.repository import Hub
from cn.system.files import read_regular
from cn.values.errors import Refused

_MOST_BYTES = 1 << 20
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
        raise Refused(f"cannot write {path}: {why.strerror}", "is the disk full or read-only?") from why


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
