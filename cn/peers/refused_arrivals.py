"""Arrivals that were refused and reported once; ``cn status`` shows them until they are gone."""

from __future__ import annotations

from collections.abc import Collection

from cn.peers.observe import FETCH, Observation, name_of
from cn.run.refused import RefusedArrival
from cn.run.run import Run
from cn.values.names import Name, ThreadKey
from cn.values.text import one_line, visible

ARRIVAL, INVALID = "arrival", "name"


def note_arrivals(
    run: Run, seen: Observation, read: Collection[ThreadKey], refused: Collection[RefusedArrival]
) -> None:
    """Note which heads are not let in now.

    ``read`` are those that this run looked into. What is not listed any more, or moved, is gone.
    """
    conditions = run.memory.conditions
    for kind in (ARRIVAL, FETCH):
        for name in conditions.names(kind):
            branch, _, head = name.rpartition(" ")
            peer, _, topic = branch.partition("/")
            key = (Name(peer), topic)
            listed = seen.inbound.get(key)
            same = listed is not None and listed[1] == head and key not in read
            unseen = peer in run.settings.peers and peer not in seen.saw_inbound
            if not (same or unseen):
                conditions.clear(kind, name)
    for one in refused:
        conditions.set(ARRIVAL, one.text, one.remedy, name=name_of(one.key, one.head))


def note_names(run: Run, seen: Observation) -> None:
    """Note names outside the grammar, as they are listed now; of a peer that was not seen, as they were."""
    conditions = run.memory.conditions
    for name in conditions.names(INVALID):
        peer = name.partition(" ")[0]
        if peer not in run.settings.peers or peer in seen.saw_inbound | seen.saw_ours:
            conditions.clear(INVALID, name)
    for peer, branch in seen.invalid:
        text = f"{peer}'s branch {one_line(branch, 100)} is refused: valid-name"
        conditions.set(INVALID, text, "its creator must rename it", name=f"{peer} {visible(branch)}")
