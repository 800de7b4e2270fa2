"""Operations of the agent: one closed type, its parser and formatter (``docs/protocol/agent.md``).

An op stands in the frontmatter of ``output.md`` as ``key: value``, the value's segments
parted by ``|``; segments beyond the last belong to it, an empty one is absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from cn.protocol.chat_reply import ACKNOWLEDGED
from cn.values.errors import CnError
from cn.values.text import one_line, visible


class OpRefused(CnError):
    """A value that is no op of its key."""


@dataclass(frozen=True)
class Ack:
    """Seen, nothing to do; ends the item."""

    id: str
    reason: str = ""


@dataclass(frozen=True)
class Done:
    """Complete; ends the item."""

    id: str


@dataclass(frozen=True)
class Noop:
    """Seen, nothing to do, and why; ends the item (``cn out do noop``)."""

    id: str
    reason: str


@dataclass(frozen=True)
class Fail:
    """It could not be processed; ends the item."""

    id: str
    reason: str


@dataclass(frozen=True)
class Reply:
    """Answer; ends the item. ``message`` is the short line, the body of the output the text."""

    id: str
    message: str = ""


@dataclass(frozen=True)
class Delegate:
    """Hand it to a peer, or assign it to a reviewer; ends the item."""

    id: str
    to: str


@dataclass(frozen=True)
class Defer:
    """Put it off; ``until`` as written, empty when absent."""

    id: str
    until: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Delete:
    """Discard it; ends the item."""

    id: str
    reason: str = ""


@dataclass(frozen=True)
class Send:
    """A message to a peer, beside what becomes of the item."""

    to: str
    message: str
    body: str = ""


@dataclass(frozen=True)
class Surface:
    """Open a managed concern, beside what becomes of the item."""

    description: str


@dataclass(frozen=True)
class Commit:
    """Record an artifact (a path of main, or an object id), beside what becomes of the item."""

    id: str
    artifact: str


Op = Ack | Done | Noop | Fail | Reply | Delegate | Defer | Delete | Send | Surface | Commit

USAGE = {
    "ack": "ID[|REASON]",
    "done": "ID",
    "noop": "ID|REASON",
    "fail": "ID|REASON",
    "reply": "ID|MESSAGE",
    "delegate": "ID|PEER",
    "defer": "ID[|UNTIL[|REASON]]",
    "delete": "ID[|REASON]",
    "send": "PEER|MESSAGE[|BODY]",
    "surface": "DESCRIPTION",
    "commit": "ID|ARTIFACT",
}
"""Every key with the shape of its value."""
ALIASES = {"mca": "surface"}


def op_key(key: str) -> str | None:
    """The op a frontmatter key names, in any case; None when it names none."""
    name = key.strip()
    if not name.isascii():  # lower() makes ASCII of the Kelvin sign
        return None
    name = ALIASES.get(name.lower(), name.lower())
    return name if name in USAGE else None


def parse_op(key: str, value: str) -> Op:
    """Read one op; ``key`` is one of :data:`USAGE`. Raises :class:`OpRefused`."""
    first, _, rest = (part.strip() for part in value.partition("|"))
    second, _, third = (part.strip() for part in rest.partition("|"))

    def need(text: str, what: str) -> str:
        if not text:
            raise OpRefused(f"{key} lacks {what}", f"write {key}: {USAGE[key]}")
        return text

    match key:
        case "surface":
            return Surface(need(value.strip(), "the description"))
        case "send":
            return Send(need(first, "the peer"), need(second, "the message"), third)
    id = need(first, "the id")
    match key:
        case "ack":
            return Ack(id, rest)
        case "done":
            if rest:  # no id holds a bar: the whole value could only be refused later, less clearly
                raise OpRefused("done takes the id alone", f"write {key}: {USAGE[key]}")
            return Done(id)
        case "noop":
            return Noop(id, need(rest, "the reason"))
        case "fail":
            return Fail(id, need(rest, "the reason"))
        case "reply":
            return Reply(id, rest)
        case "delegate":
            return Delegate(id, need(rest, "the peer"))
        case "defer":
            return Defer(id, second, third)
        case "delete":
            return Delete(id, rest)
        case "commit":
            return Commit(id, need(rest, "the artifact"))
        case _:
            raise OpRefused(f"{one_line(key, 80)!r} is no op", f"write one of {', '.join(USAGE)}")


def format_op(op: Op) -> tuple[str, str]:
    """Key and value on one line: the inverse of :func:`parse_op` for texts of one line."""
    key, segments = _split(op)
    return key, _join([" ".join(segment.split()) for segment in segments])


def format_whole(op: Op) -> tuple[str, str]:
    """Key and value with the line feeds of its texts: the inverse of :func:`parse_op`."""
    key, segments = _split(op)
    return key, _join([segment.replace("\r\n", "\n") for segment in segments])


def _split(op: Op) -> tuple[str, tuple[str, ...]]:
    match op:
        case Ack(id, reason):
            return "ack", (id, reason)
        case Done(id):
            return "done", (id,)
        case Noop(id, reason):
            return "noop", (id, reason)
        case Fail(id, reason):
            return "fail", (id, reason)
        case Reply(id, message):
            return "reply", (id, message)
        case Delegate(id, to):
            return "delegate", (id, to)
        case Defer(id, until, reason):
            return "defer", (id, until, reason)
        case Delete(id, reason):
            return "delete", (id, reason)
        case Send(to, message, body):
            return "send", (to, message, body)
        case Surface(description):
            return "surface", (description,)
        case Commit(id, artifact):
            return "commit", (id, artifact)
        case _:
            assert_never(op)


def _join(segments: list[str]) -> str:
    """The segments up to the last that is not empty; a bar in any but the last would part it.

    Nothing is cut short: what is missing here would never be sent.
    """
    texts = [visible(segment.strip()) for segment in segments]
    while texts and not texts[-1]:
        texts.pop()
    return "|".join([*(text.replace("|", "/") for text in texts[:-1]), *texts[-1:]])


Ending = Ack | Done | Noop | Fail | Reply | Delegate | Defer | Delete


def payload(ending: Ending | None, body: str) -> str:
    """What the chat gets."""
    message = ending.message if isinstance(ending, Reply) else ""
    return body or message or ACKNOWLEDGED
