"""The four machines of DESIGN 12 together, for the page of the protocol."""

from __future__ import annotations

from typing import Any

from cn.core.machine import Machine
from cn.core.machines.actor import ACTOR
from cn.core.machines.receiver import RECEIVER
from cn.core.machines.sender import SENDER
from cn.core.machines.thread import THREAD

MACHINES: tuple[Machine[Any, Any], ...] = (THREAD, ACTOR, SENDER, RECEIVER)
"""In the order in which the page of the protocol shows them."""
