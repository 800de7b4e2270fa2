"""Which wraps this machine has: bubblewrap as a program, sandlock as a package where the kernel has Landlock."""

from __future__ import annotations

import importlib.util
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
