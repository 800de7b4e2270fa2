"""Another time for cn: ``TEST_CLOCK`` is added to what its one clock says, in seconds.

Python imports this module by its name when its folder is on ``PYTHONPATH``. cn reads the time
in one place (``cn/system/clock.py``); git's own reflogs and file times stay as they are.
"""

from __future__ import annotations

import os

_seconds = float(os.environ.get("TEST_CLOCK", "0"))
if _seconds:
    from cn.system import clock

    _real = clock.read_seconds

    def _read_seconds() -> float:
        return _real() + _seconds

    clock.read_seconds = _read_seconds
