"""A chat on its way in and out: its messages go into the queue, exactly once; what was said is kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cn.agent.plan.chat import SEEN, parse_seen, plan_incoming
from cn.agent.plan.conversation import (
    ASSISTANT,
    PATH,
    USER,
    Conversation,
    append,
    format_conversation,
    new_entry,
    parse_conversation,
    rotate,
    said_in,
)
from cn.agent.plan.turns import Permission
from cn.agent.queue import current_turn, known_ids, update_queue
from cn.git.repository import Hub
from cn.protocol.effects import Archive, Plan
from cn.protocol.hub_config import HubConfig, is_local
from cn.protocol.queue_item import Input, Turn, new_input_id, next_nth, parse_input
from cn.run.executor import Executor
from cn.run.memory import put_bounded
from cn.run.run import Run, open_run
from cn.run.secret_gate import mask_text
from cn.system.files import read_regular
from cn.system.random import nonce
from cn.telegram.api import Already, Enqueued, Incoming, Queued
from cn.values.names import HubPath
from cn.values.report import Report

_MOST_BYTES = 8 << 20
_GROUPS = 300
"""Groups of which a clone remembers that an allowed user wrote there, and who: only there a text may go."""

MayGive = Callable[[Run, Input], Permission]
"""May the agent have this item now?"""


def enqueue(hub: Hub, incoming: Incoming, may_give: MayGive | None = None) -> Queued:
    """Queue a message in one commit; :class:`Already` when this update was queued before.

    Where the agent is idle, the same commit gives it its next item, unless ``may_give`` forbids it.
    Raises :class:`CnError` where the hub can take nothing now: the message is to be offered again.
    """
    report = Report()
    chat = f"telegram:{incoming.chat_id}"
    with open_run(hub, report) as run:
        if incoming.chat_id != incoming.user_id:
            put_bounded(run.memory.section("chats"), chat, incoming.user_id, most=_GROUPS)

        def plan(executor: Executor) -> tuple[str | None, Queued]:
            seen = parse_seen(executor.snapshot.read(SEEN))
            if incoming.update_id in seen:
                return None, Already()
            taken = known_ids(executor, current_turn(executor))
            nth = next_nth(executor.now, taken)  # in the order in which they came
            id = new_input_id(executor.now, (chat, str(incoming.update_id), nonce()), taken, nth)
            text = _clean(incoming.text, run)
            executor.perform(plan_incoming(chat, incoming.update_id, text, id, seen, executor.now))
            may_give_now = partial(may_give, run) if may_give else None
            # Whether the model was asked about a turn that is out of time, the processor knows.
            update_queue(run, executor, may_give=may_give_now, keep_expired_turn=True)
            return f"cn: {chat}", Enqueued(id)

        return run.commit_for(plan)


def _clean(text: str, run: Run) -> str:
    """A message as it may be committed. It stays as it was where it was written, in the chat."""
    masked, found = mask_text(text, run.settings)
    if not found:
        return text
    kinds = ", ".join(dict.fromkeys(one.kind for one in found))
    return f"{masked}\n\n(cn took out what looks like a secret: {kinds}. It is not passed on in a chat.)"


def remember(executor: Executor, turn: Turn, answer: str) -> None:
    """What was asked and answered, in the commit that answers; earlier days go to files of their own."""
    asked, chat = turn.input, turn.input.sender
    kept = partial(read_conversation, executor.hub, executor.settings.config, executor.read)
    fresh = []
    if not asked.path:  # else it was put off, and is there since
        text = said_in(parse_input(turn.text).content)
        fresh.append(new_entry(asked.queued, chat, USER, text, asked.id))
    if answer:
        fresh.append(new_entry(executor.now, chat, ASSISTANT, answer, asked.id))
    said = append(kept(PATH), *fresh)
    stays, moved = rotate(said, executor.now)
    effects = [Archive(PATH, format_conversation(stays))]
    for path, entries in moved.items():
        day = append(kept(path), *entries)
        effects.append(Archive(path, format_conversation(day)))
    executor.perform(Plan(chat, tuple(effects)))


def read_conversation(
    hub: Hub, config: HubConfig, read: Callable[[HubPath], bytes | None], path: HubPath = PATH
) -> Conversation:
    """What was said: in main, of which ``read`` reads a file, or, where the hub keeps it local, on this machine."""
    data = read_regular(hub.root / path, _MOST_BYTES) if is_local(path, config.local) else read(path)
    return parse_conversation(data or b"")
