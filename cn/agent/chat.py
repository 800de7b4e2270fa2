"""A chat on its way in: its messages go into the queue, exactly once."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial

from cn.agent.plan.chat import SEEN, parse_seen, plan_incoming
from cn.agent.queue import known_ids, update_queue
from cn.git.repository import Hub
from cn.protocol.queue_item import Input, new_input_id, next_nth
from cn.run.executor import Executor
from cn.run.memory import put_bounded
from cn.run.run import Run, open_run
from cn.run.secret_gate import mask_text
from cn.telegram.api import Incoming

_GROUPS = 300
"""Groups of which a clone remembers that an allowed user wrote there, and who: only there a text may go."""

MayGive = Callable[[Run, Input], str | None]
"""As :data:`cn.agent.queue.MayGive`, in a run."""


def enqueue(hub: Hub, incoming: Incoming, may_give: MayGive | None = None) -> str:
    """Queue a message in one commit; its id, empty when this update was queued before.

    Where the agent is idle, the same commit gives it its next item, unless ``may_give`` forbids it.
    Raises :class:`CnError` where the hub can take nothing now: the message is to be offered again.
    """
    chat = f"telegram:{incoming.chat_id}"
    with open_run(hub) as run:
        if incoming.chat_id != incoming.user_id:
            put_bounded(run.memory.section("chats"), chat, incoming.user_id, most=_GROUPS)

        def plan(executor: Executor) -> tuple[str | None, str]:
            seen = parse_seen(executor.snapshot.read(SEEN))
            if incoming.update_id in seen:
                return None, ""
            taken = known_ids(executor)
            nth = next_nth(executor.now, taken)  # in the order in which they came
            id = new_input_id(executor.now, (chat, str(incoming.update_id), secrets.token_hex(8)), taken, nth)
            text = _clean(incoming.text, run)
            executor.perform(plan_incoming(chat, incoming.update_id, text, id, seen, executor.now))
            may_give_now = partial(may_give, run) if may_give else None
            # Whether the model was asked about a turn that is out of time, the processor knows.
            update_queue(run, executor, may_give=may_give_now, keep_expired_turn=True)
            return f"cn: {chat}", id

        return run.commit_for(plan)


def _clean(text: str, run: Run) -> str:
    """A message as it may be committed. It stays as it was where it was written, in the chat."""
    masked, found = mask_text(text, run.settings)
    if not found:
        return text
    kinds = ", ".join(dict.fromkeys(one.kind for one in found))
    return f"{masked}\n\n(cn took out what looks like a secret: {kinds}. It is not passed on in a chat.)"
