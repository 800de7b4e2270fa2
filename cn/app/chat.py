"""A chat message into the queue: once, and for good (seed 004 "Idempotence", DESIGN 13)."""

from __future__ import annotations

from datetime import datetime

from cn.app.book import Book
from cn.app.deliver import push_refs
from cn.app.run import open_run
from cn.core.chat import SEEN, parse_seen, plan_incoming
from cn.core.report import Report
from cn.shell.base import Base
from cn.shell.hub import Hub


def enqueue(hub: Hub, chat: str, update: int, text: str, sent: datetime) -> bool:
    """Queue a message in one commit; False when this update was queued before.

    Raises :class:`CnError` where it could not be queued: the message is to be offered again.
    """
    report = Report()
    queued: list[bool] = []
    with open_run(hub, report) as run:

        def plan(book: Book, base: Base, notes: Report) -> str | None:
            seen = parse_seen(book.snapshot.read(SEEN))
            book.perform(plan_incoming(chat, update, text, sent, seen, book.now))
            queued.append(update not in seen)
            return f"cn: {chat}"

        run.commit(plan)
        push_refs(run)
    return queued[-1]
