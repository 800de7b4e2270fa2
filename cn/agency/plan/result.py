"""What a planner answers: what is to happen, or which rule says no."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cn.agency.events import Change, answer_of
from cn.agency.names import Party, Uuid


class Refused(NamedTuple):
    """A rule said no. ``rule`` is its stable name, ``remedy`` the next step, ``ask`` who could help."""

    rule: str
    reason: str
    remedy: str = ""
    ask: Party | None = None


class Content(NamedTuple):
    """A version of a file to be stored before its event: the bytes, named by their SHA-256."""

    file: Uuid
    hash: str
    data: bytes


@dataclass(frozen=True)
class Planned:
    """What happens, in order. ``grant`` is the capability that allows it, where structure alone does not."""

    changes: tuple[Change, ...]
    contents: tuple[Content, ...] = ()
    grant: Uuid | None = None
    more: Mapping[str, object] = field(default_factory=dict)

    @property
    def answer(self) -> dict[str, object]:
        """What the caller is told; ``more`` is what no event keeps."""
        return answer_of(self.changes) | dict(self.more)


def content(file: Uuid, data: bytes) -> Content:
    """A version by its bytes."""
    return Content(file, hashlib.sha256(data).hexdigest(), data)
