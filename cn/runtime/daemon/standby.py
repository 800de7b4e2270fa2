"""A processor that is loaded in advance and waits for the word to begin.

Importing takes longer than a turn does. The daemon keeps one such child; it holds no lock
and has read nothing of the hub, so ending it at any time is harmless.
"""

from __future__ import annotations

import gc
import os
import sys

from cn.llm import client
from cn.system.child import GO
from cn.telegram import client as telegram


def stand_by() -> bool:
    """Load, then wait: True for the word to begin, False when the daemon is gone."""
    import yaml  # noqa: F401

    from cn.runtime import cycle  # noqa: F401

    client.load_all()
    telegram.load()
    gc.freeze()  # what is loaded stays: no collection needs to look at it
    word = sys.stdin.buffer.readline()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    return word == GO
