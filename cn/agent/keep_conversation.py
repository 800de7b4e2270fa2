"""Write the conversation of a chat into ``state/conversation.json``, for the next turns."""

from __future__ import annotations

from cn.agent.plan.conversation import (
    ASSISTANT,
    PATH,
    USER,
    append,
    format_conversation,
    new_entry,
    parse_conversation,
    rotate,
)
from cn.agent.plan.dialogue import said_in
from cn.protocol.effects import Archive, Plan
from cn.protocol.hub_config import is_local
from cn.protocol.queue_item import Turn, parse_input
from cn.run.executor import Executor
from cn.system.files import read_regular
from cn.values.names import HubPath

_MOST_BYTES = 8 << 20


def remember(executor: Executor, turn: Turn, answer: str) -> None:
    """What was asked and answered, in the commit that answers; earlier days go to files of their own."""
    asked, chat = turn.input, turn.input.sender
    fresh = []
    if not asked.path:  # else it was put off, and is there since
        text = said_in(parse_input(turn.text).content)
        fresh.append(new_entry(asked.queued, chat, USER, text, asked.id))
    if answer:
        fresh.append(new_entry(executor.now, chat, ASSISTANT, answer, asked.id))
    said = append(parse_conversation(_read(executor, PATH)), *fresh)
    stays, moved = rotate(said, executor.now)
    effects = [Archive(PATH, format_conversation(stays))]
    for path, entries in moved.items():
        day = append(parse_conversation(_read(executor, path)), *entries)
        effects.append(Archive(path, format_conversation(day)))
    executor.perform(Plan(chat, tuple(effects)))


def _read(executor: Executor, path: HubPath) -> bytes:
    """From main, or, where the hub keeps it local, from this machine."""
    if is_local(path, executor.settings.config.local):
        return read_regular(executor.hub.root / path, _MOST_BYTES) or b""
    return executor.read(path) or b""
