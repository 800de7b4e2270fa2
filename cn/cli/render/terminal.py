"""Is standard output a terminal?"""

from __future__ import annotations

import os
import sys


def is_terminal() -> bool:
    """Does standard output go to a terminal?"""
    return sys.stdout.isatty()


def colour() -> bool | None:
    """False where the user wants no colours (https://no-color.org); None: click looks at the stream."""
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None


def has_colours() -> bool:
    """May standard output hold colours?"""
    return is_terminal() and colour() is None
