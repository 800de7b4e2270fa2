"""The queue to look at: what is in flight, what waits, what was given up; and one item of it or of the archive."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from cn.agent.interface import read_printed
from cn.agent.plan.brakes import Burst, Held, count_hops, find_bursts, why_held
from cn.agent.plan.turns import content_of, source_of, time_limit
from cn.agent.queue import peek_turn
from cn.protocol import queue_item
from cn.protocol.hub_config import is_local
from cn.protocol.ledger import Item
from cn.protocol.log import FOLDER as LOGS
from cn.protocol.log import Row, parse_rows
from cn.protocol.states import Actor, actor_state
from cn.run.snapshot import Snapshot
from cn.run.view import View, has_agent
from cn.system.files import read_regular
from cn.values.errors import Refused
from cn.values.names import HubPath
from cn.values.record_header import RecordRefused
from cn.values.text import one_line
from cn.values.timestamps import StampRefused, parse_stamp


@dataclass(frozen=True)
class QueueView:
    """The agent's state, what it has (``here``: on this machine), what waits, what is given up.

    ``limit`` is how long a turn may take, ``damaged`` are files of the queue that cannot be read. ``held`` wait
    for a person, ``bursts`` are of today and yesterday. ``withdrawn`` are the ids of proposals whose branch is gone.
    ``left``: this clone gives the agent nothing, and leaves that to others.
    """

    actor: Actor
    turn: queue_item.Turn | None
    here: bool
    waiting: tuple[queue_item.Input, ...]
    dead: tuple[queue_item.Input, ...]
    damaged: tuple[str, ...]
    limit: timedelta
    now: datetime
    held: tuple[Held, ...] = ()
    bursts: tuple[Burst, ...] = ()
    withdrawn: frozenset[str] = frozenset()
    left: bool = False


def read_queue(view: View) -> QueueView:
    """The queue as main and this machine's files tell it."""
    hub, snapshot = view.hub, view.snapshot
    damaged: list[str] = []
    turn = None
    if snapshot.read(queue_item.TURN) is not None:
        try:
            turn = queue_item.parse_turn(snapshot.read(queue_item.TURN) or b"")
        except RecordRefused:
            damaged.append(str(queue_item.TURN))
    waiting = _read_all(snapshot, queue_item.QUEUE, damaged)
    dead = _read_all(snapshot, queue_item.DEAD, damaged)
    here = (hub.root / queue_item.INPUT).exists()
    limit = time_limit(view.settings.config)
    state = actor_state(
        turn=turn is not None,
        shown=turn is not None and read_printed(hub, turn.trigger) is not None,
        output=(hub.root / queue_item.OUTPUT).exists(),
        expired=turn is not None and turn.expired(view.now, limit),
    )
    return QueueView(
        actor=state,
        turn=turn,
        here=here,
        waiting=waiting,
        dead=dead,
        damaged=tuple(damaged),
        limit=limit,
        now=view.now,
        held=_held(view),
        bursts=find_bursts(_rows(view)),
        withdrawn=frozenset(id for id, item in _items(view).items() if item.is_withdrawn),
        left=hub.leaves_agent,
    )


def _items(view: View) -> dict[str, Item]:
    """What the ledger has of the threads that an item of the queue stands for, by its id."""
    return {id: item for _, item in view.snapshot.pending() if (id := item.get("input"))}


def _held(view: View) -> tuple[Held, ...]:
    """What is not put off or assigned, and stays out of the queue since no agent may have it."""
    config, peers = view.settings.config, view.settings.peers
    waiting = [(p, i) for p, i in view.snapshot.pending() if i.state == "received" and p in peers and has_agent(view)]
    found = ((peer, item, why_held(item, peers[peer], config)) for peer, item in waiting)
    return tuple(Held(f"{peer}/{item.topic}", count_hops(item), why) for peer, item, why in found if why)


def _rows(view: View) -> Iterator[Row]:
    """The log of yesterday and today."""
    days = [f"{at:%Y%m%d}" for at in (view.now - timedelta(days=1), view.now)]
    return (row for day in days for row in parse_rows(view.snapshot.text(f"{LOGS}/{day}.md"), day))


def _read_all(snapshot: Snapshot, folder: HubPath, damaged: list[str]) -> tuple[queue_item.Input, ...]:
    files = [f"{folder}/{e.path}" for e in snapshot.folder(folder) if e.kind == "blob"]
    paths = [path for _, path in queue_item.places(files)]
    damaged += [path for path in sorted(set(files).difference(paths)) if path.endswith(".md")]
    snapshot.read_many(paths)
    found = []
    for path in paths:
        try:
            found.append(queue_item.parse_queued(snapshot.read(path) or b""))
        except RecordRefused:
            damaged.append(path)
    return tuple(found)


_MOST_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class Asked:
    """An item as the agent gets it: the text of ``state/input.md``, and the time that "recent" refers to.

    ``where`` is ``in flight``, ``waits``, ``given up`` or ``archived``.
    """

    text: str
    at: datetime
    where: str


def find_item(view: View, id: str | None = None) -> Asked | None:
    """The item of that id or thread (an archived one too); else the one in flight, else the next."""
    turn = peek_turn(view.snapshot)
    if turn is not None and (id is None or id in {turn.trigger, source_of(turn.input), *turn.input.names}):
        return Asked(turn.text, turn.since, "in flight")
    queue = read_queue(view)
    for where, items in (("waits", queue.waiting), ("given up", queue.dead)):
        for item in items:
            if (id is None and where == "waits") or id in {source_of(item), *item.names}:
                thread = view.snapshot.text(item.path) if item.path else ""
                content = content_of(item, thread, _items(view).get(item.id))
                text = queue_item.format_input(item, item.attempts + 1, content)  # as it would be given now
                return Asked(text, item.queued, where)
    if id is None:
        return None
    archived = _archived(view, id)
    if archived is None:
        raise Refused(
            f"there is no item {one_line(id, 80)!r}",
            "give the id or the thread of an item in 'cn queue', or an archived id of logs/input/",
        )
    return archived


def _archived(view: View, id: str) -> Asked | None:
    match = re.fullmatch(r"(\d{8})-(\d{6})-[0-9a-f]{6}(-\d{1,6})?", id)
    if not match:
        return None
    path = f"{queue_item.LOGS['input']}/{id}.md"
    local = is_local(path, view.settings.config.local)
    data = read_regular(view.hub.root / path, _MOST_BYTES) if local else view.snapshot.read(path)
    try:
        at = parse_stamp(f"{match[1]}T{match[2]}Z")  # an id tells when it was queued
    except StampRefused:
        return None
    return Asked(data.decode("utf-8", "replace"), at, "archived") if data is not None else None
