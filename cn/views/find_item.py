"""Find an item: the one in flight, one that waits, was given up, or was archived."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from cn.agent.plan.turns import source_of
from cn.agent.queue import peek_turn
from cn.protocol.hub_config import is_local
from cn.protocol.queue_item import LOGS, Input, format_input
from cn.run.snapshot import Snapshot
from cn.run.view import View
from cn.system.files import read_regular
from cn.values.errors import Refused
from cn.values.text import one_line
from cn.values.timestamps import StampRefused, parse_stamp
from cn.views.queue import read_queue

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
                return Asked(_text_of(view.snapshot, item), item.queued, where)
    if id is None:
        return None
    archived = _archived(view, id)
    if archived is None:
        raise Refused(
            f"there is no item {one_line(id, 80)!r}",
            "give the id or the thread of an item in 'cn queue', or an archived id of logs/input/",
        )
    return archived


def _text_of(snapshot: Snapshot, item: Input) -> str:
    """The input as it would be given now."""
    content = snapshot.text(item.path) if item.path else item.content
    return format_input(item, item.attempts + 1, content)


def _archived(view: View, id: str) -> Asked | None:
    match = re.fullmatch(r"(\d{8})-(\d{6})-[0-9a-f]{6}(-\d{1,6})?", id)
    if not match:
        return None
    path = f"{LOGS['input']}/{id}.md"
    local = is_local(path, view.settings.config.local)
    data = read_regular(view.hub.root / path, _MOST_BYTES) if local else view.snapshot.read(path)
    try:
        at = parse_stamp(f"{match[1]}T{match[2]}Z")  # an id tells when it was queued
    except StampRefused:
        return None
    return Asked(data.decode("utf-8", "replace"), at, "archived") if data is not None else None
