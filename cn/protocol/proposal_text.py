"""How a thread shows a proposal: which lines are cn's, and how a path stands on one (``docs/protocol/thread.md``).

Every line of a commit's message and of a file is indented. A line that is not indented is cn's: no text of a peer can
be the heading of a file, or a row of the list of files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from cn.values.names import PATH_BYTES
from cn.values.text import shown_name

INDENT = "    "
FORM = "(Lines of messages and files are indented by four spaces and more; cn wrote all others.)"
"""The first line. Threads of an older cn, which indented no files, have none."""
MOST_FILES = 1000
"""Files that a thread names at most; one that cannot name all is not merged."""
COMMIT_LIST, FILE_LIST, NOT_SHOWN = "## Commits", "## Files", "## Not shown"
NEW_TEXT, EMPTY, CUT = "(the new text)", "(empty)", "… cut here: "
"""What cn says in the text of a file, beside its lines."""
WORDS = {"A": "added", "M": "changed", "D": "deleted", "R": "renamed", "T": "type changed"}
"""What became of a file, by the letter of git's status."""
ARROW = " → "
_PATH = r'"(?:[^"\\]|\\.)*"|[^"](?:(?! \(|, | → ).)*'
_WORD = "|".join(WORDS.values())
_HEADING = re.compile(rf"## (.+) \(({_WORD})\)")
_ROW = re.compile(
    rf"- (?P<word>{_WORD}) (?:(?P<source>{_PATH}) → )?(?P<path>{_PATH})"
    r"(?: \((?:binary|\+\d+ −\d+)\))?(?:, (?:no longer )?executable)?"
    rf"(?:, a link to (?:{_PATH}))?(?:, was a link to (?:{_PATH}))?"
)


def show_path(path: str) -> str:
    """A path on one line, no two alike. One that could be read as more than a path stands in quotation marks.

    Bytes that are no UTF-8, here as surrogates, are shown as hexadecimal escapes.
    """
    path = re.sub(r"\\(?=x[0-9a-f]{2})", "<U+005C>", path)
    path = "".join(f"\\x{ord(c) - 0xDC00:02x}" if "\udc80" <= c <= "\udcff" else c for c in path)
    name = shown_name(path, 10 * PATH_BYTES)  # what is longer is not merged
    if name.startswith('"') or re.search(r" \(|, | → ", name):
        name = '"' + re.sub(r'(["\\])', r"\\\1", name) + '"'
    return name


def file_heading(path: str, word: str) -> str:
    """What stands above the text of a file."""
    return f"## {show_path(path)} ({word})"


def read_heading(line: str) -> tuple[str, str] | None:
    """Path and word of :func:`file_heading`; None: it is none."""
    found = _HEADING.fullmatch(line)
    return (found[1], found[2]) if found else None


def read_row(line: str) -> tuple[str, str] | None:
    """Path and word of a row in the list of files; None: it is none."""
    found = _ROW.fullmatch(line)
    return (found["path"], found["word"]) if found else None


def read_sections(lines: Sequence[str]) -> list[tuple[str, Sequence[str]]]:
    """The headings of a text in this form, with the lines below each; of any other text, none."""
    starts = [at for at, line in enumerate(lines) if line.startswith("## ")] if lines[:1] == [FORM] else []
    return [(lines[start], lines[start + 1 : end]) for start, end in pairwise([*starts, len(lines)])]
