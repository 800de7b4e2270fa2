"""In which encoding a commit is written (git-commit(1), "DISCUSSION").

git reads a commit anew in the encoding that its header names, header and all, before it looks for the author. In one
that writes letters otherwise than ASCII does (``IBM037``, ``UTF-16``) none is found: author, date and message of the
commit vanish from what git shows. Of such a commit cn reads the bytes.
"""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

from cn.values.text import decode

_PLAIN = frozenset(
    {
        *("utf-8", "ascii", "koi8-r", "koi8-u", "euc_jp", "euc_kr", "gb2312", "gbk", "gb18030", "big5", "tis-620"),
        *(f"iso8859-{n}" for n in (*range(1, 12), *range(13, 17))),
        *(f"cp{n}" for n in (*range(1250, 1259), 437, 850, 852, 866, 874)),
    }
)
"""Python's names of encodings in which every byte of ASCII stands for itself, outside of longer characters too."""


def encoding_of(header: bytes) -> str:
    """What a commit's header names; empty: UTF-8."""
    found = next((line for line in header.split(b"\n") if line.startswith(b"encoding ")), b"")
    return found.partition(b" ")[2].decode("ascii", "replace").strip()


def is_readable(encoding: str) -> bool:
    """Does git show author, date and message of a commit that names this encoding?"""
    return not encoding or _codec(encoding) in _PLAIN


class Words(NamedTuple):
    """Author, email, when in seconds since 1970 (as a text), and message of a commit, as its bytes say."""

    author: str
    email: str
    at: str
    message: str


_AUTHOR = re.compile(rb"^author ([^\n<]*?) ?<([^\n]*?)> ([0-9]*)", re.MULTILINE)


def read_words(commit: bytes) -> Words:
    """What a commit says, whatever encoding it names."""
    header, _, message = commit.partition(b"\n\n")
    found = _AUTHOR.search(header)
    author, email, at = (decode(part) for part in found.groups()) if found else ("", "", "")
    return Words(author, email, at, decode(message))


def _codec(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name
    except (LookupError, ValueError):  # a NUL in a name is a ValueError
        return ""
