"""What a server says on its standard output, in whole lines of a bounded length and with a bounded number of parts.

The library gathers a line for as long as it goes on, and looks through all that it has at each piece. It reads text in
an encoding that it is given by name, so ours is UTF-8 that comes out line by line.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

from cn.server.bodies import has_more_parts
from cn.server.sdk.bounded_http import MOST_BYTES, MOST_MEMBERS, TOO_MANY

ENCODING: Final = "cn_lines"
TOO_MUCH: ContextVar[Callable[[str], None]] = ContextVar("TOO_MUCH")
"""Who is told, in the tasks of a connection, what is too much of a line. Nothing is kept then."""
_LONG: Final = f"a line of it has more than the {MOST_BYTES >> 20} MiB that cn reads"


class _Lines(codecs.IncrementalDecoder):
    """Gives all up to the last end of a line, and keeps the rest; bytes that are no text become U+FFFD."""

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._parts: list[bytes] = []
        self._size, self._over = 0, False

    def decode(self, data: bytes, final: bool = False) -> str:  # type: ignore[override]
        """A line that has no end at the end of all is no message."""
        begun, newline, rest = bytes(data).rpartition(b"\n")
        whole = b""
        if newline:
            whole = b"".join([*self._parts, begun, newline])
            self._parts, self._size = [], 0
        self._parts.append(rest)
        self._size += len(rest)
        why = _LONG if max(self._size, len(whole) - len(begun)) > MOST_BYTES else _too_many(whole)
        if why and not self._over:
            self._over = True
            TOO_MUCH.get()(why)
        if self._over:
            self._parts, self._size = [], 0
            return ""
        return whole.decode("utf-8", "replace")

    def reset(self) -> None:
        """As at the start."""
        self._parts, self._size = [], 0


def _too_many(whole: bytes) -> str:
    """Is there a line with too many parts? A short one has not."""
    if len(whole) <= MOST_MEMBERS:
        return ""
    found = any(has_more_parts(line, MOST_MEMBERS) for line in whole.split(b"\n"))
    return f"a line of it {TOO_MANY}" if found else ""


def _find(name: str) -> codecs.CodecInfo | None:
    utf8 = codecs.lookup("utf-8")
    return codecs.CodecInfo(utf8.encode, utf8.decode, incrementaldecoder=_Lines) if name == ENCODING else None


codecs.register(_find)
