"""Another time for cn: ``TEST_CLOCK`` is added to what its one clock says, in seconds.

Python imports this module by its name when its folder is on ``PYTHONPATH``. cn reads the time
in one place (``cn/system/clock.py``); git's own reflogs and file times stay as they are.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta

_seconds = float(os.environ.get("TEST_CLOCK", "0"))
if _seconds:
    from cn.system import clock

    _real = clock.now

    def _now() -> datetime:
        return _real() + timedelta(seconds=_seconds)

    clock.now = _now
