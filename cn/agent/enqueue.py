"""Threads of our own that the agent is to work on go into its queue."""

from __future__ import annotations

from cn.agent.plan.turns import plan_own_input
from cn.protocol.own_thread import Own
from cn.protocol.queue_item import QUEUE, new_input_id, parse_queue_name
from cn.run.executor import Book
from cn.system.random import nonce


def enqueue_own(book: Book, own: Own) -> None:
    """Put a thread of our own into the queue."""
    names = [e.path for e in book.snapshot.folder(QUEUE)]
    names += [path.rpartition("/")[2] for path in book.files if path.startswith(f"{QUEUE}/")]
    taken = {place.id for name in names if (place := parse_queue_name(name))}
    id = new_input_id(book.now, (own.path, nonce()), taken)
    book.perform(plan_own_input(own, book.settings.us, id, book.now))
