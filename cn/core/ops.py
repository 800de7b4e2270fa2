"""Operations of the agent: one closed type, its parser and formatter (seeds 000, 002; DESIGN 12).

An op stands in the frontmatter of ``output.md`` as ``key: value``, the value's segments
parted by ``|``; segments beyond the last belong to it, an empty one is absent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from cn.core.errors import CnError
from cn.core.text import one_line


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
    name = key.strip().lower()
    name = ALIASES.get(name, name)
    return name if name in USAGE else None


def parse_op(key: str, value: str) -> Op:
    """Read one op; ``key`` is one of :data:`USAGE`. Raises :class:`OpRefused`."""
    first, second, third = _segments(value)

    def need(text: str, what: str) -> str:
        if not text:
            raise OpRefused(f"{key} lacks {what}", f"write {key}: {USAGE[key]}")
        return text

    def rest() -> str:
        return f"{second}|{third}" if third else second

    readers: dict[str, Callable[[], Op]] = {
        "ack": lambda: Ack(need(first, "the id"), rest()),
        "done": lambda: Done(need(value.strip(), "the id")),
        "noop": lambda: Noop(need(first, "the id"), need(rest(), "the reason")),
        "fail": lambda: Fail(need(first, "the id"), need(rest(), "the reason")),
        "reply": lambda: Reply(need(first, "the id"), rest()),
        "delegate": lambda: Delegate(need(first, "the id"), need(rest(), "the peer")),
        "defer": lambda: Defer(need(first, "the id"), second, third),
        "delete": lambda: Delete(need(first, "the id"), rest()),
        "send": lambda: Send(need(first, "the peer"), need(second, "the message"), third),
        "surface": lambda: Surface(need(value.strip(), "the description")),
        "commit": lambda: Commit(need(first, "the id"), need(rest(), "the artifact")),
    }
    return readers[key]()


def _segments(value: str) -> tuple[str, str, str]:
    parts = [part.strip() for part in value.split("|", 2)]
    first, second, third = [*parts, "", ""][:3]
    return first, second, third


def format_op(op: Op) -> tuple[str, str]:
    """Key and value: the inverse of :func:`parse_op` for texts of one line."""
    match op:
        case Ack(id, reason):
            return "ack", _join(id, reason)
        case Done(id):
            return "done", id
        case Noop(id, reason):
            return "noop", _join(id, reason)
        case Fail(id, reason):
            return "fail", _join(id, reason)
        case Reply(id, message):
            return "reply", _join(id, message)
        case Delegate(id, to):
            return "delegate", _join(id, to)
        case Defer(id, until, reason):
            return "defer", _join(id, until, reason)
        case Delete(id, reason):
            return "delete", _join(id, reason)
        case Send(to, message, body):
            return "send", _join(to, message, body)
        case Surface(description):
            return "surface", one_line(description, 2000)
        case Commit(id, artifact):
            return "commit", _join(id, artifact)
        case _:
            assert_never(op)


def _join(*segments: str) -> str:
    """The segments up to the last that is not empty; a bar in any but the last would part it."""
    lines = [one_line(segment, 2000) for segment in segments]
    while lines and not lines[-1]:
        lines.pop()
    return "|".join([*(line.replace("|", "/") for line in lines[:-1]), *lines[-1:]])
