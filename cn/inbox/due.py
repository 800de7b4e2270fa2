"""What is due by time alone: deferred threads come back, old answers are cleaned up."""

from __future__ import annotations

from cn.inbox.plan.arrivals import plan_returned
from cn.outbox.plan.due import is_due, is_old
from cn.outbox.plan.receipts import clean_up
from cn.protocol.effects import Plan
from cn.protocol.ledger import IN, OUT, Item
from cn.run.executor import Executor
from cn.run.memory import Local
from cn.values.names import Name
from cn.values.report import Report


def plan_times(executor: Executor, report: Report, local: Local) -> None:
    """What time alone brings about: deferred threads return, old notices are cleaned up."""
    for peer, known in executor.snapshot.pending():
        item = executor.item(peer, IN, known.topic)  # this very run may have refreshed or ended it
        if item is not None and is_due(item, executor.now):
            executor.perform(plan_returned(peer, item, executor.now))
            report.done(f"{item.get('thread')} returns: deferred until now", source=f"{peer}/{item.topic}")
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
    for key in sorted(local.due_for_a_day(old, executor.now)):
        peer, item = old[key]
        source = f"{peer}/{item.topic}"
        executor.perform(
            Plan(source, (clean_up(peer, item, executor.now, f"older than {days} days", source),))
        )
