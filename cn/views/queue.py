"""The queue to look at: what is in flight, what waits, what was given up."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from cn.agent.interface import read_shown
from cn.agent.plan.turns import time_limit
from cn.git.repository import Hub
from cn.protocol.hub_config import HubConfig
from cn.protocol.queue_item import (
    DEAD,
    INPUT,
    OUTPUT,
    QUEUE,
    TURN,
    Input,
    Turn,
    in_order,
    parse_queue_name,
    parse_queued,
    parse_turn,
)
from cn.protocol.states.agent import Actor, actor_state
from cn.run.snapshot import Snapshot
from cn.run.view import View
from cn.values.names import HubPath
from cn.values.record_header import RecordRefused


@dataclass(frozen=True)
class QueueView:
    """The agent's state, what it has (``here``: on this machine), what waits, what is given up.

    ``limit`` is how long a turn may take, ``damaged`` are files of the queue that cannot be read.
    """

    actor: Actor
    turn: Turn | None
    here: bool
    waiting: tuple[Input, ...]
    dead: tuple[Input, ...]
    damaged: tuple[str, ...]
    limit: timedelta
    now: datetime


def read_queue(view: View) -> QueueView:
    """The queue as main and this machine's files tell it."""
    return make_queue_view(view.hub, view.snapshot, view.settings.config, view.now)


def make_queue_view(hub: Hub, snapshot: Snapshot, config: HubConfig, now: datetime) -> QueueView:
    """The same from its parts."""
    damaged: list[str] = []
    turn = None
    if snapshot.read(TURN) is not None:
        try:
            turn = parse_turn(snapshot.read(TURN) or b"")
        except RecordRefused:
            damaged.append(str(TURN))
    waiting = _read_all(snapshot, QUEUE, damaged)
    dead = _read_all(snapshot, DEAD, damaged)
    here = (hub.root / INPUT).exists()
    limit = time_limit(config)
    state = actor_state(
        turn=turn is not None,
        shown=turn is not None and read_shown(hub, turn.trigger) is not None,
        output=(hub.root / OUTPUT).exists(),
        expired=turn is not None and turn.expired(now, limit),
    )
    return QueueView(state, turn, here, waiting, dead, tuple(damaged), limit, now)


def _read_all(snapshot: Snapshot, folder: HubPath, damaged: list[str]) -> tuple[Input, ...]:
    names = [e.path for e in snapshot.folder(folder) if e.kind == "blob"]
    damaged += [f"{folder}/{n}" for n in names if parse_queue_name(n) is None and n.endswith(".md")]
    paths = [f"{folder}/{name}" for name in in_order(names)]
    snapshot.read_many(paths)
    found = []
    for path in paths:
        try:
            found.append(parse_queued(snapshot.read(path) or b""))
        except RecordRefused:
            damaged.append(path)
    return tuple(found)
