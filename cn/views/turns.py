"""The agent's turns, newest first: what it was asked and what it answered, as the archive has them."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from cn.agent.archive import Rejected, archived_names, read_archived, read_rejected
from cn.agent.plan.output import parse_output
from cn.llm.usage import Call, read_calls
from cn.protocol.ops import format_whole
from cn.protocol.queue_item import Trigger, parse_input, parse_trigger
from cn.run.view import View
from cn.values.timestamps import StampRefused, parse_stamp


class Turned(NamedTuple):
    """One attempt at an item. ``about`` is a thread or a chat, ``ops`` what was answered, ``calls`` what it used."""

    trigger: Trigger
    queued: datetime | None
    sender: str
    cadence: str
    about: str
    ops: tuple[str, ...]
    answered: bool
    rejected: Rejected | None
    calls: tuple[Call, ...]


def list_turns(view: View, count: int) -> list[Turned]:
    """The last ``count`` turns that are archived."""
    triggers = sorted(t for name in archived_names(view, "input") if (t := parse_trigger(name)))[-count:]
    names = [str(trigger) for trigger in triggers]
    asked, answers = read_archived(view, "input", names), read_archived(view, "output", names)
    rejected = read_rejected(view, names[0][:8]) if names else {}
    calls: dict[str, list[Call]] = {}
    for call in read_calls(view.hub.root):
        calls.setdefault(call.trigger or call.input, []).append(call)
    found = []
    for trigger in reversed(triggers):
        name = str(trigger)
        told = parse_input(asked.get(name, b"").decode("utf-8", "replace"))
        answer = answers.get(name)
        ops = tuple(_without(trigger.id, ": ".join(format_whole(op))) for op in parse_output(answer or b"").ops)
        about = told.thread or told.sender
        used = tuple(calls.get(name, ()))
        found.append(
            Turned(
                trigger,
                _queued(name),
                told.sender,
                told.cadence,
                about,
                ops,
                answer is not None,
                rejected.get(name),
                used,
            )
        )
    return found


def _without(id: str, op: str) -> str:
    """An op without the item that it is about, which stands beside it."""
    return op.replace(f"{id}|", "").removesuffix(f": {id}")


def _queued(name: str) -> datetime | None:
    try:
        return parse_stamp(f"{name[:8]}T{name[9:15]}Z")
    except StampRefused:
        return None
