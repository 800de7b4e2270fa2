"""Which wraps this machine has: bubblewrap as a program, sandlock as a package where the kernel has Landlock."""

from __future__ import annotations

import importlib.util
import os
import shutil
from typing import Final

import pytest


def _lacks_sandlock() -> str:
    if importlib.util.find_spec("sandlock") is None:
        return "sandlock is not installed"
    import sandlock

    found, needed = sandlock.landlock_abi_version(), sandlock.min_landlock_abi()
    return "" if found >= needed else f"the kernel's Landlock is {found}, and sandlock needs {needed}"


LACKS: Final = {"bwrap": "" if shutil.which("bwrap") else "bubblewrap is not installed", "sandlock": _lacks_sandlock()}
"""What each needs and is not here; empty where it is."""
NEEDS: Final = {name: pytest.mark.skipif(bool(why), reason=why) for name, why in LACKS.items()}
WRAPS: Final = [pytest.param(name, marks=mark) for name, mark in NEEDS.items()]
"""The cases of a test that is one for each wrap."""

_RIGHTS: Final = "+dac_read_search,+dac_override"
AS_OTHER: Final = (
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
    *(f"--inh-caps={_RIGHTS}", f"--ambient-caps={_RIGHTS}", "--"),
)
"""Run a command as a user that owns nothing of root's but can read it all, its Python among it."""
needs_other_user: Final = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root to become another user"
)


def guard(wrap: str) -> str:
    """The lines of a runner for its wrap, so that it is started here: sandlock does not hold what root starts."""
    return f"wrap = '{wrap}'" + ("\nunguarded = true" if wrap == "sandlock" and os.geteuid() == 0 else "")
