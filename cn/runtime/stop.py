"""How a daemon tells its children to stop."""

from __future__ import annotations

from cn.app.letters import read_health
from cn.git.repository import Hub

STOPPING = "stopping"
"""The state of a daemon that was told to end."""


def is_stopping(hub: Hub) -> bool:
    """Was the daemon told to end? Its processor begins nothing more then."""
    return (read_health(hub) or {}).get("state") == STOPPING
