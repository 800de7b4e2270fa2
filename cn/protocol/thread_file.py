"""The thread document: one markdown file per inbound branch (``docs/protocol/thread.md``).

The trust boundary runs through it. What a peer wrote stands behind ``"> "``; who sent
which head is known from the ledger, never from the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from cn.protocol.triage import Triage, TriageRefused, closing, find_headings, format_triage, parse_triage
from cn.values.names import Branch, Name, Oid
from cn.values.text import one_line, quote
from cn.values.timestamps import format_stamp

_HEAD = re.compile(r"\*\*Head:\*\*[ \t]*([0-9a-f]+)[ \t]*")
_LAST_RULE = re.compile(r"\n---\s*\Z")


class Header(NamedTuple):
    """What cn itself says of a thread. ``signature`` is ``verified SHA256:…``, ``unverified`` or ``bad``."""

    peer: Name
    topic: str
    branch: Branch
    received: datetime
    head: Oid
    signature: str
    earlier: str = ""


def format_thread(header: Header, content: str) -> str:
    """A new thread; every line of ``content`` is quoted."""
    lines = [
        f"# {header.peer}/{_shown(header.topic)}",
        "",
        f"**From:** {header.peer}",
        f"**Branch:** {_shown(header.branch)}",
        f"**Received:** {format_stamp(header.received)}",
        f"**Head:** {header.head}",
        f"**Signature:** {header.signature}",
    ]
    if header.earlier:
        lines.append(f"**Earlier:** {one_line(header.earlier)}")
    return "\n".join([*lines, "", "---", "", quote(content)]) + "\n"


def _shown(name: str) -> str:
    """A name on an unquoted line; it must not open a comment that would hide all that follows."""
    return one_line(name, 300).replace("<!--", "&lt;!--")


def read_text(data: bytes) -> str:
    """The text of a thread file: UTF-8, one byte order mark dropped, CRLF as LF."""
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError:
        raise TriageRefused("the file is not UTF-8 text", "save it as UTF-8") from None
    return text.replace("\r\n", "\n")


def peer_block(committed: str) -> list[str]:
    """The quoted lines of the peer, as cn wrote them: the first run of ``>`` lines."""
    lines = committed.split("\n")
    start = next((i for i, line in enumerate(lines) if line.startswith(">")), len(lines))
    end = next((i for i in range(start, len(lines)) if not lines[i].startswith(">")), len(lines))
    return lines[start:end]


def _block_end(lines: list[str], block: list[str]) -> int | None:
    """Where the peer's block ends in the working copy; None if it was edited.

    White space at the end of a line does not count: editors take it away.
    """
    size = len(block)
    wanted = [line.rstrip() for line in block]
    have = [line.rstrip() for line in lines]
    for start in range(len(have) - size + 1):
        if have[start] == wanted[0] and have[start : start + size] == wanted:
            return start + size
    return None


def seen_head(text: str) -> str:
    """The ``Head:`` an actor had before the eyes; empty when there is none."""
    for line in text.split("\n"):
        if line.startswith(">"):
            break
        match = _HEAD.fullmatch(line)
        if match:
            return match[1]
    return ""


def read_decision(working: str, committed: str) -> Triage | None:
    """The Triage of a thread, or None while it is pending.

    ``committed`` is the version in main, from which the peer's text is known. Raises
    :class:`TriageRefused` for sections that must not decide.
    """
    lines = working.split("\n")
    headings = find_headings(lines)
    if not headings:
        return None
    if len(headings) > 1:
        raise TriageRefused("there are two ## Triage sections", "keep one, the last thing in the file")
    heading = headings[0]
    block = peer_block(committed)
    end = _block_end(lines, block) if block else 0
    later = any(line.startswith(">") for line in lines[heading:])
    if (end is not None and heading < end) or (end is None and later):
        raise TriageRefused("## Triage stands before the peer's text", "move it to the end of the file")
    plain = [re.sub(r"^> ?", "", line) for line in block]
    return parse_triage(lines, heading, plain)


def _cut(text: str) -> tuple[str, str]:
    """The text before its Triage section, and that section."""
    lines = text.split("\n")
    headings = find_headings(lines)
    if not headings:
        return text, ""
    return "\n".join(lines[: headings[0]]), "\n".join(lines[headings[0] :])


def _trimmed(text: str) -> str:
    """Without the rule at its end; a code fence or comment left open is closed."""
    end = closing(text)
    text = f"{text.rstrip()}\n{end}" if end else text
    return _LAST_RULE.sub("", text.rstrip()).rstrip()


def set_triage(text: str, triage: Triage) -> str:
    """The thread with this section; one that is not yet processed is replaced."""
    before, after = _cut(text)
    if after and not peer_block(before) and peer_block(after):
        raise TriageRefused("## Triage stands before the peer's text", "move it to the end of the file")
    return f"{_trimmed(before)}\n\n---\n\n{format_triage(triage)}"


def set_record(text: str, words: str, actor: str, at: datetime, body: str = "") -> str:
    """The thread with the section of a decision that only an output can bring (``ack``, ``fail``)."""
    before, _ = _cut(text)
    fields = [f"decision: {one_line(words)}", f"actor: {actor}", f"timestamp: {format_stamp(at)}"]
    section = "\n".join(["## Triage", "", *fields, *(["", body] if body else [])])
    return f"{_trimmed(before)}\n\n---\n\n{section}\n"


def mark_triage(text: str, heading: str, line: str) -> str:
    """The thread with its Triage kept as history under ``## heading``, so it decides no more."""
    before, section = _cut(text)
    kept = _trimmed("\n".join(section.split("\n")[1:]).strip("\n"))
    return f"{_trimmed(before)}\n\n---\n\n## {heading}\n\n{line}\n\n{kept}\n"


class _Parts(NamedTuple):
    """The lines of a thread: header and quotation, what follows them, the Triage section with its heading."""

    top: list[str]
    notes: list[str]
    section: list[str]


def _parts(text: str, blocks: Iterable[list[str]] = ()) -> _Parts:
    """``blocks`` are what the quotation may be; else the first quoted lines are it."""
    before, section = _cut(text)
    lines = before.split("\n")
    ends = (_block_end(lines, block) for block in (*blocks, peer_block(before)) if block)
    end = next((end for end in ends if end is not None), len(lines))
    return _Parts(lines[:end], lines[end:], section.split("\n") if section else [])


def refresh(text: str, fresh: str, reason: str, known: Sequence[str] = ()) -> str:
    """The thread ``fresh`` with what people wrote into ``text``; a Triage in either is void for ``reason``.

    ``known`` are versions that main had: a line of their header or quotation is no person's.
    """
    new, old = _parts(fresh), _parts(text, map(peer_block, known))
    cns = {line.rstrip() for one in (fresh, *known) for line in _parts(one).top}
    above = [line for line in old.top if line.strip() and line.rstrip() not in cns]
    there = {line.rstrip() for line in new.notes if line.strip()}
    notes = _trimmed("\n" + "\n".join(line for line in old.notes if line.rstrip() not in there)).strip()
    if find_headings(notes.split("\n")):  # a fence or comment hid it, which began above the quotation
        notes = quote(notes)
    void = [line for line in old.section[1:] if not (line.startswith(">") and line.rstrip() in cns)]
    if new.section != old.section:
        void += new.section[1:]
    parts = [_trimmed("\n".join([*new.top, *new.notes])), *([notes] if notes else [])]
    if above or old.section or new.section:
        heading = "Void triage" if old.section or new.section else "Set aside"
        quoted = quote("\n".join([*above, *void]).strip("\n"))
        parts.append(f"---\n\n## {heading}\n\n{reason}\n\n{quoted}")
    return "\n\n".join(parts) + "\n"


def keep_mains(text: str, base: str, main: str) -> str:
    """``text``, an edit of ``base`` which ``main`` has overtaken, with what main says since, quoted.

    It stands before the Triage, whose section runs to the end of the file. Header and the peer's
    text are not taken along: those are renewed from the branch.
    """
    known = {*base.split("\n"), *text.split("\n")}
    since = [line for line in main.split("\n") if line not in known and not line.startswith((">", "**"))]
    if not since:
        return text
    before, section = _cut(text)
    parts = [_trimmed(before), f"---\n\n## Written elsewhere meanwhile\n\n{quote(chr(10).join(since))}"]
    return "\n\n".join([*parts, f"---\n\n{section}"] if section else parts).rstrip("\n") + "\n"


def append_section(text: str, heading: str, lines: list[str]) -> str:
    """The thread with one more section of cn's at its end."""
    end = closing(text)
    return "\n".join([text.rstrip(), *([end] if end else []), "", f"## {heading}", "", *lines]) + "\n"
