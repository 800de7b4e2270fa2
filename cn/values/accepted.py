"""That a configuration is accepted, as a value: what opens a key takes one, so that mypy sees who forgets it."""

from __future__ import annotations

from typing import NamedTuple

from cn.values.names import Oid


class Accepted(NamedTuple):
    """This clone has accepted the configuration of ``commit``: who opens a key or a token has to show it.

    Only :func:`cn.run.view.find_accepted` makes one.
    """

    commit: Oid
