"""What the boss of a handler is told of an agent's end."""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from cn.agency.names import Uuid
from cn.agents.stuck import IN_A_ROW
from cn.values.shell_words import command
from cn.values.text import in_quotes, one_line
from cn.values.timestamps import format_second

_MOST = 80


class Letter(NamedTuple):
    """A message; without a text there is none."""

    text: str
    subject: str = ""


NO_LETTER: Final = Letter("")


class Whose(NamedTuple):
    """The handler for whom an agent worked. ``root``: it is the one above all, which never ends."""

    handler: Uuid
    title: str
    root: bool

    @property
    def name(self) -> str:
        """As people know it."""
        return f"{self.handler[:8]} ({in_quotes(self.title)})"


class Ended(NamedTuple):
    """How an agent ended: why it was made to (empty: it was not), its last call then, which one it was in a row that
    got nowhere (0: it got somewhere), what it said last, and until when the next one has to wait. ``unanswered``: which
    one it was in a row that no model answered.
    """

    ending: str
    call: str
    idle: int
    said: str
    until: datetime | None = None
    unanswered: int = 0


def letter_of_end(whose: Whose, agent: Uuid, ended: Ended) -> Letter:
    """What has to be known: that an agent was ended, or that its handler now waits."""
    lines, subject = [], ""
    if ended.ending:
        subject = f"Agent of {whose.name} ended: {ended.ending}"
        lines.append(f"Agent {agent[:8]} of {whose.name} was ended: {ended.ending}.")
        lines += [f"Its last call: {one_line(ended.call)}"] if ended.call else []
    if ended.idle == IN_A_ROW:
        subject = f"{whose.name} pauses: {IN_A_ROW} agents got nowhere"
        lines.append(
            f"{IN_A_ROW} agents of {whose.name} in a row got nowhere: {NOWHERE}. The next one {_waits(ended.until)}."
        )
        lines.append(
            f"To go on at once, write to it: {command('cn mail send {} TEXT', whose.handler[:8])}. {_or(whose)}"
        )
    if ended.unanswered == IN_A_ROW:
        subject = f"{whose.name} waits: no model answers"
        lines.append(
            f"No model answered {IN_A_ROW} agents of {whose.name} in a row. That is no fault of theirs, and counts as "
            "no attempt: the API is asked again every few minutes, and work goes on once it answers. 'cn agency "
            "status' and 'cn doctor' say how it is."
        )
    if not lines:
        return NO_LETTER
    lines += [f"It said last: {ended.said}"] if ended.said else []
    return Letter("\n\n".join(lines), one_line(subject, _MOST))


NOWHERE: Final = "they did no more than read, send, block and say"


def _waits(until: datetime | None) -> str:
    return f"has to wait until {format_second(until)}" if until else "has to wait"


def _or(whose: Whose) -> str:
    if whose.root:
        return f"To let it rest: {command('cn outcome block {} REASON', whose.handler[:8])}."
    return f"To take its work back: {command('cn handler stop {}', whose.handler[:8])}."
