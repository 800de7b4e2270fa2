"""What time alone brings about: deferred threads come back, old answers are cleaned up."""

from __future__ import annotations

from cn.inbox.plan.arrivals import plan_returned
from cn.outbox.plan.due import is_due, is_old
from cn.outbox.plan.receipts import clean_up
from cn.protocol.effects import Plan
from cn.protocol.ledger import IN, OUT, Item
from cn.run.executor import Book
from cn.run.memory import Local
from cn.values.names import Name
from cn.values.report import Report


def plan_times(book: Book, report: Report, local: Local) -> None:
    """What time alone brings about: deferred threads return, old notices are cleaned up."""
    for peer, known in book.snapshot.pending():
        item = book.item(peer, IN, known.topic)  # this very run may have refreshed or ended it
        if item is not None and is_due(item, book.now):
            book.perform(plan_returned(peer, item, book.now))
            report.done(f"{item.get('thread')} returns: deferred until now", source=f"{peer}/{item.topic}")
    days = book.settings.config.notice_days
    old: dict[str, tuple[Name, Item]] = {}
    for peer, known in book.snapshot.outbound():
        item = book.item(peer, OUT, known.topic)
        if item is None:
            continue
        answer = item.get("about") or item.get("kind") == "notice"
        ended = item.state in ("delivered", "answered") and peer in book.settings.peers
        if answer and ended and is_old(item.since, book.now, days):
            old[f"{peer}/{item.topic} {item.head}"] = (peer, item)
    for key in sorted(local.due_for_a_day(old, book.now)):
        peer, item = old[key]
        source = f"{peer}/{item.topic}"
        book.perform(Plan(source, (clean_up(peer, item, book.now, f"older than {days} days", source),)))
