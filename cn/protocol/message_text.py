"""How a thread shows a message: which lines are cn's (``docs/protocol/thread.md``).

Every line of a message, of a peer or ours, stands behind one more ``"> "`` than what cn says of it. A line that does
not is cn's: no text of a peer can be the heading of what was said before, or words of somebody else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from cn.protocol.proposal_text import CUT
from cn.protocol.proposal_text import FORM as PROPOSAL_FORM
from cn.values.text import quote, unquote

FORM = "(Lines of messages stand behind one more `>`, those of files are indented; cn wrote all others.)"
"""The first line. Threads of an older cn, where a message's lines stood beside cn's, have none."""
BEFORE, NOW, ATTACHED = "## Before", "## Now", "## Attachments"
_AS_IT_WAS = "(The thread showed this, and not which of its lines are whose:)"
_WRITTEN = re.compile(r"[a-z]+ from [^\n]+, written \d{4}-\d\d-\d\dT\d\d:\d\dZ")
"""Below its subject, what cn says of a message that came (:func:`cn.git.read_branches.format_message_content`)."""
_BELOW = re.compile(rf"(\n*{ATTACHED}\n\n(- [^\n]*\n?)+)?(\n*{CUT}[^\n]+)?")


class MessageText(NamedTuple):
    """A message as a thread shows it: what was said before it, its words, and what cn says below them."""

    before: str
    words: str
    below: tuple[str, ...]


def repeat(text: str) -> str:
    """What a thread showed, to be shown once more above an answer: as it was, where each line says whose it is."""
    first, _, rest = text.partition("\n")
    if first not in (FORM, PROPOSAL_FORM):
        return f"{_AS_IT_WAS}\n\n{quote(text)}"
    rest = rest.strip("\n")
    if rest.startswith(BEFORE):
        rest = rest.removeprefix(BEFORE).replace(f"\n{NOW}\n", "", 1).strip("\n")
    return rest


def read_message_text(text: str) -> MessageText | None:
    """The parts of a thread's message; None where it has another form, as one of an older cn."""
    first, *lines = text.split("\n")
    if first != FORM:
        return None
    before = ""
    if lines[:2] == ["", BEFORE] and NOW in lines:
        before, lines = "\n".join(lines[2 : lines.index(NOW)]).strip("\n"), lines[lines.index(NOW) :]
    found = read_words(lines[2:] if before else lines[1:])
    return found and found._replace(before=before)


def read_words(lines: Sequence[str]) -> MessageText | None:
    """A message with the lines that cn puts above it and below; None where it has another form."""
    if len(lines) < 3 or not lines[0].startswith("# ") or lines[1] or not _WRITTEN.fullmatch(lines[2]):
        return None
    rest = list(lines[2 + len(list(takewhile(bool, lines[2:]))) :])
    words = list(takewhile(lambda line: line.startswith(">"), rest[1:]))
    below = rest[1 + len(words) :]
    if not _BELOW.fullmatch("\n".join(below)):
        return None
    return MessageText("", unquote("\n".join(words)).strip("\n"), tuple(below))
