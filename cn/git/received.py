"""What a fetch received: the objects of its packs, and those that git needed to read them (gitformat-pack(5)).

An entry is whole, or a delta upon an earlier entry of its pack, or upon an object that it names. That one need not
come with the pack: git completes it with the object of this id that is here (git-index-pack(1), ``--fix-thin``).
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import NamedTuple

from cn.git.process import Git

_DELTA_UPON_ID = 7


class Received(NamedTuple):
    """The ids of objects that are in the packs of a folder, and of those that deltas in there name as their bases."""

    objects: frozenset[str]
    bases: frozenset[str]


def read_received(git: Git, objects: Path) -> Received:
    """Of all packs in this folder of objects."""
    found, bases = set[str](), set[str]()
    for index in sorted(objects.glob("pack/pack-*.idx")):
        rows = [line.split(" ") for line in git.run("show-index", stdin=index.read_bytes()).lines]
        found.update(row[1] for row in rows)
        with (
            index.with_suffix(".pack").open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pack,
        ):
            bases.update(_base(pack, int(row[0]), len(row[1]) // 2) for row in rows)
    return Received(frozenset(found), frozenset(bases - {""}))


def _base(pack: mmap.mmap, at: int, width: int) -> str:
    """The id that the entry at this offset names as its base; empty: it names none. ``width`` is that of an id."""
    kind = pack[at] >> 4 & 7
    while pack[at] & 0x80:  # the bytes of its size
        at += 1
    return pack[at + 1 : at + 1 + width].hex() if kind == _DELTA_UPON_ID else ""
