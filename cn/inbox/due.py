"""What is due by time alone: deferred threads come back, old answers are cleaned up."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta

from cn.inbox.plan.arrivals import is_due, plan_returned
from cn.outbox.plan.receipts import clean_up
from cn.protocol.effects import Plan
from cn.protocol.ledger import IN, OUT, Item
from cn.run.executor import Executor
from cn.run.memory import Memory
from cn.values.names import Name
from cn.values.timestamps import StampRefused, format_second, is_old, parse_stamp

_A_DAY = timedelta(days=1)


def record_due(executor: Executor) -> None:
    """What time alone brings about: deferred threads return, old notices are cleaned up."""
    for peer, known in executor.snapshot.pending():
        item = executor.item(peer, IN, known.topic)  # this very run may have refreshed or ended it
        if item is not None and is_due(item, executor.now):
            executor.perform(plan_returned(peer, item, executor.now))
            executor.notes.done(f"{item.get('thread')} returns: deferred until now", source=f"{peer}/{item.topic}")
    days = executor.settings.config.notice_days
    old: dict[str, tuple[Name, Item]] = {}
    for peer, known in executor.snapshot.outbound():
        item = executor.item(peer, OUT, known.topic)
        if item is None:
            continue
        answer = item.get("about") or item.get("kind") == "notice"
        ended = item.state in ("delivered", "answered") and peer in executor.settings.peers
        if answer and ended and is_old(item.since, executor.now, days):
            old[f"{peer}/{item.topic} {item.head}"] = (peer, item)
    for key in sorted(_due_for_a_day(executor.memory, old, executor.now)):
        peer, item = old[key]
        source = f"{peer}/{item.topic}"
        executor.perform(Plan(source, (clean_up(peer, item, executor.now, f"older than {days} days", source),)))


def _due_for_a_day(memory: Memory, keys: Iterable[str], now: datetime) -> set[str]:
    """Of all that is due now: what was due a day ago too, and whenever cn looked since.

    So a clock that jumped ahead, and is set right within that day, has brought nothing about.
    """
    before = due_since(memory)
    since = {key: at if (at := before.get(key)) and at <= now else now for key in keys}
    entries = memory.section("due")
    entries.clear()
    entries.update({key: format_second(at) for key, at in since.items()})
    return {key for key, at in since.items() if now - at >= _A_DAY}


def due_since(memory: Memory) -> dict[str, datetime]:
    """Since when cn has seen what is due: ``peer/topic head`` of the notice."""
    with suppress(StampRefused):
        return {key: parse_stamp(str(at)) for key, at in memory.section("due").items()}
    return {}
