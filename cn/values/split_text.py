"""Split a long text into parts that a messenger takes, where a reader would pause.

Telegram counts UTF-16 code units (https://core.telegram.org/api/entities#entity-length).
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

LIMIT = 4096
"""The longest text of one message, https://core.telegram.org/bots/api#sendmessage."""
_PAUSES = (
    re.compile(r"(\n[ \t]*\n\s*)"),  # paragraphs
    re.compile(r"(\n\s*)"),  # lines
    re.compile(r"[.!?…。！？][\"'”’)\]]*(\s+)"),  # sentences
    re.compile(r"(\s+)"),  # words
)
"""Best first; the group is the white space that goes."""
_LEAST = 0.4
"""The share of a part that must be full before a weaker pause is not looked for."""
_ZWJ = "\u200d"
_CLUSTER = 64
"""How far back a whole character is looked for; Zalgo text has no end of marks."""


def split_text(text: str, limit: int = LIMIT) -> tuple[str, ...]:
    """The text in parts of at most ``limit`` UTF-16 code units, none of them blank.

    A part ends, best first, after a paragraph, a line, a sentence, a word, or where it must.
    Only white space at a cut is lost; a text that fits comes back as it is. Raises
    :class:`ValueError` for a limit below 2, into which not every character fits.
    """
    if limit < 2:
        raise ValueError(f"limit {limit}: a character can take two units")
    return tuple(_parts(text, limit)) if text.strip() else ()


def _parts(text: str, limit: int) -> Iterator[str]:
    while (most := _reach(text, limit)) < len(text):
        end = _cut(text, most)
        if text[:end].strip():
            yield text[:end]
        text = text[end:].lstrip()
    if text.strip():
        yield text


def _reach(text: str, limit: int) -> int:
    """How many characters fit."""
    sizes = accumulate(2 if c > "\uffff" else 1 for c in text[:limit])
    return bisect_right(list(sizes), limit)


def _cut(text: str, most: int) -> int:
    """Where the part ends, at most at ``most``, at least at 1; white space that follows goes."""
    for pause in _PAUSES:
        ends = [found.start(1) for found in pause.finditer(text, 0, most + 1)]
        end = max((end for end in ends if end <= most), default=0)
        if end and (end >= most * _LEAST or pause is _PAUSES[-1]) and text[:end].strip():
            return end
    return next((i for i in range(most, max(0, most - _CLUSTER), -1) if not _joined(text, i)), most)


def _joined(text: str, i: int) -> bool:
    """Would a cut before ``text[i]`` tear one visible character apart?

    An approximation of extended grapheme clusters, Unicode Standard Annex 29: marks, emoji
    joined by U+200D, skin tones, flags, keycaps, CR LF.
    """
    before, here = text[i - 1], text[i]
    if unicodedata.category(here) in ("Mn", "Me", "Mc") or _ZWJ in (before, here):
        return True
    if "\U0001f3fb" <= here <= "\U0001f3ff" or (before, here) == ("\r", "\n"):
        return True
    if _is_flag(before) and _is_flag(here):
        run = 0
        while run < i and _is_flag(text[i - 1 - run]):
            run += 1
        return run % 2 == 1
    return "\U000e0020" <= here <= "\U000e007f"  # tags, which spell the flags of regions


def _is_flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
