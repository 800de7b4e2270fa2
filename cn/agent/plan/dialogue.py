"""The conversation as messages of a request, and a message as an item.

Whatever a text holds, it ends neither its quotation nor its role.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from cn.agent.plan.conversation import ASSISTANT, USER, Entry
from cn.agent.plan.output import format_output
from cn.agent.plan.prompt_parts import cut, cut_note
from cn.llm.request import Said
from cn.protocol.ops import Reply
from cn.protocol.queue_item import is_input_id
from cn.values.text import one_line, quote, unquote, visible
from cn.values.timestamps import format_second

SAID_BYTES = 8 * 1024
"""Bytes of one text of the conversation."""


def message_content(text: str) -> str:
    """The content of an item that is a message and no thread: ``## Message``, quoted."""
    return f"## Message\n\n{quote(text)}"


def said_in(content: str) -> str:
    """The text in :func:`message_content`, but for what quoting made visible."""
    return "\n".join(unquote(line) for line in content.split("\n") if line.startswith(">"))


def format_messages(entries: Sequence[Entry]) -> list[Said]:
    """Earlier messages, alternating, the first the user's and the last the assistant's."""
    found = [
        Said(role, "\n\n".join(_said(entry) for entry in group))
        for role, group in groupby(entries, key=lambda e: e.role)
    ]
    if found and found[0].role == ASSISTANT:  # a request starts with the user's words
        del found[0]
    if found and found[-1].role == USER:
        found.append(Said(ASSISTANT, "(no answer was sent)"))
    return found


def _said(entry: Entry) -> str:
    """An entry in the form in which items come and answers go: a model goes on as it sees itself begin."""
    text, left = cut(entry.text, SAID_BYTES)
    known = is_input_id(entry.input)
    if entry.role == ASSISTANT:
        text = visible(text).strip() + cut_note(left)
        return format_output(entry.input, (Reply(entry.input),), text).rstrip("\n") if known else text or "(nothing)"
    fields = {"id": entry.input if known else "", "from": one_line(entry.sender), "queued": format_second(entry.at)}
    lines = [f"{key}: {value}" for key, value in fields.items() if value]
    return "\n".join(["---", *lines, "---", "", message_content(text) + cut_note(left)])
