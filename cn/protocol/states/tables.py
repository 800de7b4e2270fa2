"""The four state machines together, for ``docs/protocol/state-machines.md``."""

from __future__ import annotations

from typing import Any

from cn.protocol.states.agent import ACTOR
from cn.protocol.states.receiver import RECEIVER
from cn.protocol.states.sender import SENDER
from cn.protocol.states.thread import THREAD
from cn.values.state_machine import Machine

MACHINES: tuple[Machine[Any, Any], ...] = (THREAD, ACTOR, SENDER, RECEIVER)
"""In the order in which the page of the protocol shows them."""
