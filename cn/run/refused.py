"""What a run refused to commit, as values."""

from __future__ import annotations

from typing import NamedTuple

from cn.values.names import Oid, ThreadKey


class RefusedArrival(NamedTuple):
    """A head that was not let in, and why, in words."""

    key: ThreadKey
    head: Oid
    text: str
    remedy: str
