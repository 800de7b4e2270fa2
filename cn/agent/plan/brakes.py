"""What stops agents that answer each other, or that answer nothing: seen in the records, never in prose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from cn.protocol import rules
from cn.protocol.hub_config import HubConfig
from cn.protocol.ledger import Item
from cn.protocol.log import Row
from cn.protocol.peers_file import Peer

_MANY = 5
_WORDLESS = frozenset({("ack", "✓ acked"), ("ack", "✓ acked (no op)")})


def count_hops(item: Item) -> int:
    """How many automatic answers in a row led to what waits; a person's hand began them anew."""
    return int(item.get("hops") or 0)


def why_held(item: Item, creator: Peer, config: HubConfig) -> str:
    """Why no agent is given it, but a person decides; empty: an agent may. An automatic answer would be one too many,
    or the key that is pinned for its ``creator`` did not sign it.
    """
    if rules.signed_by_its_key(item.get("signature"), creator, ""):
        return f"the key that is pinned for {creator.name} did not sign it"
    hops = count_hops(item)
    return f"{hops} automatic answers in a row led to it" if hops >= config.limits.hops else ""


class Held(NamedTuple):
    """What waits for a person: ``peer/topic``, how many automatic answers led to it, and ``why`` it waits."""

    source: str
    hops: int
    why: str


class Burst(NamedTuple):
    """Items that were acknowledged without a word within one minute: ``at``, and how many."""

    at: datetime
    items: int


def find_bursts(rows: Iterable[Row]) -> tuple[Burst, ...]:
    """The minutes in which many items were acknowledged, oldest first; times in the log are of minutes."""
    counted = Counter(row.at for row in rows if (row.decision, row.executed) in _WORDLESS)
    return tuple(Burst(at, count) for at, count in sorted(counted.items()) if count >= _MANY)
