"""Put threads of our own that the agent is to work on into its queue."""

from __future__ import annotations

from cn.agent.plan.turns import plan_own_input
from cn.protocol.own_thread import Own
from cn.protocol.queue_item import DEAD, QUEUE, new_input_id, parse_queue_name
from cn.run.executor import Executor
from cn.system.random import nonce


def enqueue_own(executor: Executor, own: Own) -> None:
    """Put a thread of our own into the queue."""
    names = executor.names(QUEUE) | executor.names(DEAD)
    taken = {place.id for name in names if (place := parse_queue_name(name))}
    id = new_input_id(executor.now, (own.path, nonce()), taken)
    executor.perform(plan_own_input(own, executor.settings.us, id, executor.now))
