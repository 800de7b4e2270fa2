"""What is due by time alone: a deferral is over, a thing is old."""

from __future__ import annotations

from datetime import datetime, timedelta

from cn.protocol.ledger import Item
from cn.values.timestamps import format_second


def is_due(item: Item, now: datetime) -> bool:
    """Has the time of a deferral come?"""
    until = item.get("until")
    return item.state == "deferred" and bool(until) and until <= format_second(now)


def is_old(since: datetime, now: datetime, days: int) -> bool:
    """Is it older than ``days``?"""
    return now - since >= timedelta(days=days)
