"""How much one request may say, whoever asks: the numbers that schemas of tools tell, and the rules that keep them."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from cn.agency.operations import Operation
from cn.agency.plan.result import Refused

LIMIT_NAMED, LIMIT_WORDS, LIMIT_LINKS = "limit-named", "limit-words", "limit-links"

MOST_TITLE: Final = 200
"""Characters of a title, a subject, a description or a reason."""
MOST_TEXT: Final = 64 * 1024
"""Bytes of a text, and with that its characters."""
MOST_NAME: Final = 1000
"""Characters of what names something, and of words to look for."""
MOST_WORDS: Final = 32
"""Different words to look for: each is looked for in each description."""
MOST_NAMED: Final = 1000
"""Entries of a list in one request."""
MOST_LINKS: Final = 1000
"""Different files that a version of a file names as ``kb://UUID``: the page of each is written with it."""


def fit_lists(operation: Operation) -> Refused | None:
    """No list of an operation is longer than one request may have it."""
    for part in fields(operation):
        value = getattr(operation, part.name)
        if isinstance(value, tuple) and len(value) > MOST_NAMED:
            why = f"it names {len(value):,} as {part.name!r}, and {MOST_NAMED:,} are the most at once"
            return Refused(LIMIT_NAMED, why, "ask several times, with a part of them each")
    return None


def fit_words(words: str) -> Refused | None:
    """Words to look for are few: looking takes as much longer for more, while others wait."""
    if len(words) > MOST_NAME:
        why = f"words of {len(words):,} characters are looked for, and {MOST_NAME:,} are the most"
    elif (many := len(set(words.casefold().split()))) > MOST_WORDS:
        why = f"{many:,} different words are looked for, and {MOST_WORDS} are the most"
    else:
        return None
    return Refused(LIMIT_WORDS, why, "look for the few words that tell it from others")


def fit_links(many: int) -> Refused | None:
    """A version names so many files at most. What older records name is read all the same."""
    if many <= MOST_LINKS:
        return None
    why = f"it names {many:,} files as kb://UUID, and {MOST_LINKS:,} are the most"
    remedy = "divide it into several files; or leave out 'kb://' where it need not be a link"
    return Refused(LIMIT_LINKS, why, remedy)
