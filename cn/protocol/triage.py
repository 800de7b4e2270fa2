"""The typed decision, and the ``## Triage`` section that carries it (``docs/protocol/thread.md``).

``decision := delete:<reason> | defer:<reason> | delegate:<actor> | do:merge |
do:reply:<branch> | do:custom:<description>``. If it is not in the type, it cannot be
decided.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from cn.values.errors import CnError
from cn.values.names import Name, NameRefused, Topic, parse_name, parse_topic
from cn.values.text import one_line, visible
from cn.values.timestamps import StampRefused, format_stamp, parse_stamp

VOCABULARY = "delete:<reason>, defer:<reason>, delegate:<actor>, do:merge, do:reply:<branch> or do:custom:<description>"


class TriageRefused(CnError):
    """A Triage section that decides nothing: malformed, doubled, or misplaced."""


@dataclass(frozen=True)
class Delete:
    """Discard the thread."""

    reason: str


@dataclass(frozen=True)
class Defer:
    """Keep it for later."""

    reason: str


@dataclass(frozen=True)
class Delegate:
    """Hand it to a peer, or assign it to a reviewer."""

    actor: Name


@dataclass(frozen=True)
class Merge:
    """Merge the branch into main."""


@dataclass(frozen=True)
class Reply:
    """Answer with a message on the branch ``<us>/<topic>``."""

    topic: Topic


@dataclass(frozen=True)
class Custom:
    """Open a managed concern."""

    description: str


Decision = Delete | Defer | Delegate | Merge | Reply | Custom


@dataclass(frozen=True)
class Triage:
    """A complete section. ``until`` and ``approval`` are as written, empty when absent."""

    decision: Decision
    actor: Name
    at: datetime
    body: str = ""
    until: str = ""
    approval: str = ""


_READERS: dict[str, Callable[[str], Decision]] = {
    "delete": Delete,
    "defer": Defer,
    "delegate": lambda payload: Delegate(parse_name(payload, "actor")),
    "do:reply": lambda payload: Reply(parse_topic(payload)),
    "do:custom": Custom,
}


def parse_decision(text: str) -> Decision:
    """Read one decision; raises :class:`TriageRefused` for anything outside the type."""
    verb, _, payload = text.strip().partition(":")
    if verb == "do":
        verb, colon, payload = payload.strip().partition(":")
        if verb == "merge" and not colon:
            return Merge()
        verb = f"do:{verb}"
    payload = payload.strip()
    if verb not in _READERS:
        raise TriageRefused(f"{one_line(text, 60)!r} is not a decision", f"write {VOCABULARY}")
    if not payload:
        raise TriageRefused(f"decision {one_line(text, 60)!r} lacks its payload", f"write {VOCABULARY}")
    if visible(payload) != payload or "\n" in payload:
        raise TriageRefused("the decision holds control or hidden characters", "write it as plain text")
    try:
        return _READERS[verb](payload)
    except NameRefused as refused:
        raise TriageRefused(refused.text, refused.hint) from None


def format_decision(decision: Decision) -> str:
    """The inverse of :func:`parse_decision`."""
    match decision:
        case Delete(reason):
            return f"delete:{reason}"
        case Defer(reason):
            return f"defer:{reason}"
        case Delegate(actor):
            return f"delegate:{actor}"
        case Merge():
            return "do:merge"
        case Reply(topic):
            return f"do:reply:{topic}"
        case Custom(description):
            return f"do:custom:{description}"
        case _:
            assert_never(decision)


def format_triage(triage: Triage) -> str:
    """The section as it stands in a thread, from its heading to the end of the file."""
    fields = {
        # On one line, whoever wrote it: a line feed in a reason could begin another section.
        "decision": visible(" ".join(format_decision(triage.decision).splitlines())),
        "actor": triage.actor,
        "timestamp": format_stamp(triage.at),
        "until": one_line(triage.until),
        "approval": one_line(triage.approval),
    }
    lines = ["## Triage", "", *(f"{key}: {value}" for key, value in fields.items() if value)]
    body = triage.body.strip("\n")
    if _FIELD.fullmatch(body.lstrip().partition("\n")[0]):
        body = f"{_BODY}\n\n{body}"  # else its first line would be read as a field
    return "\n".join([*lines, "", body] if body else lines) + "\n"


def check_section(triage: Triage) -> None:
    """Is the section read back as this one? Raises :class:`TriageRefused` for a text that begins another."""
    if find_headings(format_triage(triage).split("\n")) != [0]:
        raise TriageRefused(
            "the text has a line '## Triage', which would begin another section",
            "quote that line ('> ') or put it into a code fence; 'cn reply' sends any text",
        )


_HEADING = re.compile(r" {0,3}##[ \t]+Triage[ \t]*#*[ \t]*")
_FIELD = re.compile(r"[ \t]*(decision|actor|timestamp|until|approval)[ \t]*:(.*)", re.I)
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*\Z)|~{3,})")
"""A code fence; what follows backticks holds none (CommonMark 0.31, "Fenced code blocks")."""
_BODY = "<!-- body -->"


def find_headings(lines: list[str]) -> list[int]:
    """Indices of unquoted ``## Triage`` lines outside code fences and HTML comments."""
    return _scan(lines)[0]


def closing(text: str) -> str:
    """The line that ends a code fence or comment still open at the end of a text, or nothing."""
    return _scan(text.split("\n"))[1]


def _scan(lines: list[str]) -> tuple[list[int], str]:
    found: list[int] = []
    fence = ""
    comment = False
    for index, line in enumerate(lines):
        if comment:
            comment = _opens_comment(line.partition("-->")[2]) if "-->" in line else True
            continue
        if line.startswith(">"):
            continue  # quoted: it opens and closes nothing
        mark = _FENCE.match(line) if "```" in line or "~~~" in line else None
        if fence:
            rest = line.strip()
            if mark and mark[1][0] == fence[0] and len(mark[1]) >= len(fence) and not rest.strip(fence[0]):
                fence = ""
            continue
        if mark:
            fence = mark[1]
        elif "##" in line and _HEADING.fullmatch(line):
            found.append(index)
        else:
            comment = "<!--" in line and _opens_comment(line)
    return found, "-->" if comment else fence


def _opens_comment(line: str) -> bool:
    opened = line.rfind("<!--")
    return opened >= 0 and "-->" not in line[opened:]


def parse_triage(lines: list[str], heading: int, peer_lines: list[str]) -> Triage:
    """Read the section that starts at ``lines[heading]`` and runs to the end.

    ``peer_lines`` is the peer's text without its quotation marks: a section whose three
    deciding fields all stand there verbatim is the peer's, not an actor's.
    """
    fields: dict[str, str] = {}
    raw: dict[str, str] = {}
    index = heading + 1
    while index < len(lines):
        line = lines[index]
        field = _FIELD.fullmatch(line)
        if field:
            key = field[1].lower()
            if key in fields:
                raise TriageRefused(f"the Triage section gives {key} twice", "keep one")
            fields[key] = field[2].strip(" \t")
            raw[key] = line.strip()
        elif line.strip():
            break
        index += 1
    if empty := [key for key in ("until", "approval") if fields.get(key) == ""]:
        raise TriageRefused(
            f"the Triage section has nothing after {' and '.join(empty)}", "write it, or leave the line out"
        )
    missing = [key for key in ("decision", "actor", "timestamp") if not fields.get(key)]
    if missing:
        raise TriageRefused(
            f"the Triage section lacks {' and '.join(missing)}", "give decision, actor and timestamp, a line each"
        )
    theirs = {line.strip() for line in peer_lines}
    if all(raw[key] in theirs for key in ("decision", "actor", "timestamp")):
        raise TriageRefused(
            "the Triage section stands word for word in what the peer wrote", "decide in your own words"
        )
    try:
        actor = parse_name(fields["actor"], "actor")
        at = parse_stamp(fields["timestamp"])
    except (NameRefused, StampRefused) as refused:
        raise TriageRefused(refused.text, refused.hint) from None
    body = "\n".join(lines[index:]).strip("\n")
    body = body.removeprefix(_BODY).strip("\n")
    decision = parse_decision(fields["decision"])
    return Triage(decision, actor, at, body, fields.get("until", ""), fields.get("approval", ""))
