"""How answers look: text for people, JSON for programs; here: what standard output can show."""

from __future__ import annotations

import os
import sys

COLOUR = False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None
"""False where the user wants no colours (https://no-color.org); None: click looks at the stream."""


def has_colours() -> bool:
    """May standard output hold colours?"""
    return sys.stdout.isatty() and COLOUR is None
