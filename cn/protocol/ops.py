"""Operations of the agent: one closed type, its parser and formatter (``docs/protocol/agent.md``).

An op stands in the frontmatter of ``output.md`` as ``key: value``, the value's segments
parted by ``|``; segments beyond the last belong to it, an empty one is absent.
"""

from __future__ import annotations

from dataclasses import MISSING, astuple, dataclass, fields
from typing import get_args

from cn.values.errors import CnError
from cn.values.text import one_line, visible

ACKNOWLEDGED = "(acknowledged)"


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
_KINDS: dict[str, type[Op]] = {kind.__name__.lower(): kind for kind in get_args(Op)}
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
    kind = _KINDS.get(key)
    if kind is None:
        raise OpRefused(f"{one_line(key, 80)!r} is no op", f"write one of {', '.join(USAGE)}")
    how, shape = f"write {key}: {USAGE[key]}", fields(kind)
    texts = [text.strip() for text in value.split("|", 1 if kind is Done else len(shape) - 1)]
    texts += [""] * (len(shape) - len(texts))
    for part, text in zip(shape, texts, strict=False):
        if not text and part.default is MISSING:
            raise OpRefused(f"{key} lacks the {'peer' if part.name == 'to' else part.name}", how)
    if any(texts[len(shape) :]):  # no id holds a bar: the whole value could only be refused later, less clearly
        raise OpRefused("done takes the id alone", how)
    return kind(*texts[: len(shape)])


def format_op(op: Op) -> tuple[str, str]:
    """Key and value on one line: the inverse of :func:`parse_op` for texts of one line."""
    return format_whole(type(op)(*(" ".join(text.split()) for text in astuple(op))))


def format_whole(op: Op) -> tuple[str, str]:
    """Key and value with the line feeds of its texts: the inverse of :func:`parse_op`.

    The segments up to the last that is not empty; a bar in any but the last would part it. Nothing is cut
    short: what is missing here would never be sent.
    """
    texts = [visible(text.replace("\r\n", "\n").strip()) for text in astuple(op)]
    while texts and not texts[-1]:
        texts.pop()
    return type(op).__name__.lower(), "|".join([*(text.replace("|", "/") for text in texts[:-1]), *texts[-1:]])


Ending = Ack | Done | Noop | Fail | Reply | Delegate | Defer | Delete


def payload(ending: Ending | None, body: str) -> str:
    """What the chat gets."""
    message = ending.message if isinstance(ending, Reply) else ""
    return body or message or ACKNOWLEDGED
