"""What a bundle comes to when it is unpacked, before git does that: it may be a thousand times its own size.

git limits what it reads (``index-pack --max-input-size``), not what that inflates to. The formats are those of
gitformat-bundle(5) and gitformat-pack(5).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

_OFFSET, _REFERENCE = 6, 7
"""Kinds of entries that are a difference to another object."""
_PIECE: Final = 1 << 16
_HEADER: Final = 12
_NUMBERS: Final = 32
"""Bytes in which the two sizes stand with which a difference begins."""


def unpacked_size(bundle: bytes, most: int) -> int:
    """The bytes of all its objects, as far as they can be told, until there are more than ``most``.

    0 for what is no bundle: git says so. Raises :class:`ValueError` for one that cannot be read to its end.
    """
    start = bundle.find(b"\n\n") + 2
    head = bundle[:start]
    name = 32 if b"\n@object-format=sha256\n" in head else 20
    total = 0
    if head.startswith(b"# v") and bundle[start : start + 4] == b"PACK":
        try:
            for size in _sizes(memoryview(bundle), start, name):
                total += size
                if total > most:
                    break
        except (IndexError, zlib.error) as why:
            raise ValueError(f"the pack of the bundle is damaged: {why}") from None
    return total


def _sizes(data: memoryview, start: int, name: int) -> Iterator[int]:
    """What each entry says of its size, before it is inflated; of a difference also what that comes to."""
    at = start + _HEADER
    for _ in range(int.from_bytes(data[start + 8 : at], "big")):
        first = data[at]
        kind = first >> 4 & 7
        high, at = _number(data, at) if first & 0x80 else (0, at + 1)
        size = high >> 7 << 4 | first & 15
        yield size
        if kind == _OFFSET:
            at = _number(data, at)[1]
        elif kind == _REFERENCE:
            at += name
        beginning, at = _inflate(data, at, size)
        if kind in (_OFFSET, _REFERENCE):
            yield _number(beginning, _number(beginning, 0)[1])[0]


def _number(data: memoryview | bytes, at: int) -> tuple[int, int]:
    """Seven bits of each byte, the lowest first, while the eighth is set; and where it ends."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value, at


def _inflate(data: memoryview, at: int, size: int) -> tuple[bytes, int]:
    """The beginning of an entry, and where it ends. It may not be longer than it says."""
    inflater, beginning, length = zlib.decompressobj(), b"", 0
    while not inflater.eof:
        if at >= len(data) or length > size:
            raise zlib.error("it is not whole, or longer than it says")
        piece = data[at : at + _PIECE]
        while True:
            out = inflater.decompress(piece, _PIECE)
            length += len(out)
            beginning = (beginning + out)[:_NUMBERS]
            piece = memoryview(inflater.unconsumed_tail)
            if length > size or inflater.eof or not piece:
                break
        at += _PIECE if not inflater.eof else min(_PIECE, len(data) - at) - len(inflater.unused_data)
    return beginning, at
