"""Arrivals that were refused and reported once; ``cn status`` shows them until they are gone."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from cn.peers.observe import FETCH, Observation, standing_name
from cn.run.memory import Local
from cn.run.refused import RefusedArrival
from cn.run.settings import Settings
from cn.values.names import Name, ThreadKey
from cn.values.text import one_line, visible

ARRIVAL, INVALID = "arrival ", "name "


def note_arrivals(
    local: Local,
    settings: Settings,
    seen: Observation,
    read: Collection[ThreadKey],
    refused: Collection[RefusedArrival],
    now: datetime,
) -> None:
    """Of the heads that were not let in: which stand now.

    ``read`` are those that this run looked into. What is not listed any more, or moved, is gone.
    """
    for prefix in (ARRIVAL, FETCH):
        for name in local.standing_names(prefix):
            branch, _, head = name.removeprefix(prefix).rpartition(" ")
            peer, _, topic = branch.partition("/")
            key = (Name(peer), topic)
            listed = seen.inbound.get(key)
            same = listed is not None and listed[1] == head and key not in read
            unseen = peer in settings.peers and peer not in seen.saw_inbound
            if not (same or unseen):
                local.stands(name, "", now)
    for one in refused:
        local.stands(standing_name(ARRIVAL, one.key, one.head), one.text, now, one.remedy)


def note_names(local: Local, settings: Settings, seen: Observation, now: datetime) -> None:
    """Names outside the grammar, as they are listed now; of a peer that was not seen, as they were."""
    for name in local.standing_names(INVALID):
        peer = name.removeprefix(INVALID).partition(" ")[0]
        if peer not in settings.peers or peer in seen.saw_inbound | seen.saw_ours:
            local.stands(name, "", now)
    for peer, branch in seen.invalid:
        text = f"{peer}'s branch {one_line(branch, 100)} is refused: valid-name"
        local.stands(f"{INVALID}{peer} {visible(branch)}", text, now, "its creator must rename it")
