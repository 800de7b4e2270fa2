"""Title and time of writing of a thread, read from its head and the beginning of its quotation.

Lists show both of every thread that waits, so this reads a file without parsing all of it, and imports next to nothing.
"""

from __future__ import annotations

import re
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from cn.values.timestamps import stamp_or_none

_HEADER = r"\*\*Written:\*\*[ \t]*(\S+)[ \t]*"
_COMMIT = r"> - [0-9a-f]{10} [^<]*<[^>]*> (\S{1,30}): (.*)"
_MESSAGE = r"> [a-z]+ from \S+, written (\S+)"
_COMMITS, _END = "> ## Commits", "> ## Files"
_LINES = 2000
"""So many lines are looked at: the commits stand first, and may have long messages."""


class Summary(NamedTuple):
    """``title`` is the first commit's (empty for a message), ``written`` when its creator wrote the last of it, as it
    claims (None: not said).
    """

    title: str = ""
    written: datetime | None = None


def read_summary(text: str) -> Summary:
    """What a thread's text says, whoever edited it: nothing is decided by it."""
    said, title, quoted, commits = "", "", 0, False
    for line in islice(text.split("\n"), _LINES):
        if not line.startswith(">"):
            if found := re.fullmatch(_HEADER, line):
                said = found[1]
            elif quoted:
                break
            continue
        quoted += 1
        if line == _END:
            break
        if commits and (commit := re.fullmatch(_COMMIT, line)):
            said, title = said or commit[1], commit[2]  # newest first: the last title is the first commit's
        elif quoted == 3 and not commits and (message := re.fullmatch(_MESSAGE, line)):
            said = said or message[1]
        commits = commits or line == _COMMITS
    return Summary(title, stamp_or_none(said))
