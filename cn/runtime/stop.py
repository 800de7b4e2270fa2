"""How a daemon tells its children to stop."""

from __future__ import annotations

from cn.git.repository import Hub
from cn.runtime.daemon.state import read_health

STOPPING = "stopping"
"""The state of a daemon that was told to end."""


def is_stopping(hub: Hub) -> bool:
    """Was the daemon told to end? Its processor begins nothing more then."""
    return (read_health(hub) or {}).get("state") == STOPPING
