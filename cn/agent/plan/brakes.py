"""What stops agents that answer each other, or that answer nothing: seen in the records, never in prose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from cn.protocol.hub_config import HubConfig
from cn.protocol.ledger import Item
from cn.protocol.log import Row

_MANY = 5
_WORDLESS = frozenset({("ack", "✓ acked"), ("ack", "✓ acked (no op)")})


def count_hops(item: Item) -> int:
    """How many automatic answers in a row led to what waits; a person's hand began them anew."""
    return int(item.get("hops") or 0)


def waits_for_person(item: Item, config: HubConfig) -> bool:
    """Would an automatic answer be one too many?"""
    return count_hops(item) >= config.limits.hops


class Held(NamedTuple):
    """What waits for a person: ``peer/topic``, and how many automatic answers led to it."""

    source: str
    hops: int


class Burst(NamedTuple):
    """Items that were acknowledged without a word within one minute: ``at``, and how many."""

    at: datetime
    items: int


def find_bursts(rows: Iterable[Row]) -> tuple[Burst, ...]:
    """The minutes in which many items were acknowledged, oldest first; times in the log are of minutes."""
    counted = Counter(row.at for row in rows if (row.decision, row.executed) in _WORDLESS)
    return tuple(Burst(at, count) for at, count in sorted(counted.items()) if count >= _MANY)
