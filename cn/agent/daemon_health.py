"""The daemon's health file: how it is, for its children, for the doctor and for ``cn status``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cn.git.repository import Hub
from cn.system.files import hold, read_regular
from cn.values.errors import Refused, explain_write

_MOST_BYTES = 1 << 20
STOPPING = "stopping"
"""The state of a daemon that was told to end."""


def is_stopping(hub: Hub) -> bool:
    """Was the daemon told to end? Its processor begins nothing more then."""
    return (read_health(hub) or {}).get("state") == STOPPING


def is_running(hub: Hub) -> bool:
    """Does a daemon run on this hub, on this machine?"""
    lock = hold(hub.state / "daemon.lock", hub.private_mode)
    if lock is not None:
        os.close(lock)
    return lock is None


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

    Keys: pid, state (``running``, ``stopping``, ``stopped``), since, last_poll, unreached (``since``, ``text``: why
    Telegram gives no messages) or null, last_error (``at``, ``text``) or null, offset, child (``pid``, ``since``) or
    null, queued, dead. :func:`is_running` tells whether the process is still there.
    """
    try:
        data = json.loads(read_regular(health_path(hub), _MOST_BYTES) or b"")
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def read_unreached(hub: Hub) -> tuple[str, str]:
    """Why the daemon that runs gets no messages from Telegram, and since when (RFC 3339); both empty: it gets them."""
    found = (read_health(hub) or {}).get("unreached")
    if not isinstance(found, dict) or not is_running(hub):
        return "", ""
    return str(found.get("text", "")), str(found.get("since", ""))
