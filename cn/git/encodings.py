"""In which encoding a commit is written (git-commit(1), "DISCUSSION").

git reads a commit anew in the encoding that its header names, header and all, before it looks for the author. In one
that writes letters otherwise than ASCII does (``IBM037``, ``UTF-16``) none is found: author, date and message of the
commit vanish from what git shows. cn has git leave the bytes as they are (``i18n.logOutputEncoding``), and reads them
here.
"""

from __future__ import annotations

import codecs

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


def decode_in(data: bytes, encoding: str) -> str:
    """Text of a commit. What its encoding cannot read, and one that is not :func:`is_readable`, is read as UTF-8."""
    if encoding and (codec := _codec(encoding)) in _PLAIN and codec != "utf-8":
        try:
            return data.decode(codec)
        except UnicodeDecodeError:
            pass
    return decode(data)


def _codec(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name
    except (LookupError, ValueError):  # a NUL in a name is a ValueError
        return ""
