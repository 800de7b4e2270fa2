"""What something costs, set against the size of what it is given: the same on any machine, busy or not."""

from __future__ import annotations

import time
from collections.abc import Callable

FREE = 0.05
"""Seconds of processor time that are cheap whatever the size."""
MOST = 9.0
"""Times the cost for four times the size: linear is 4, quadratic 16."""


def assert_cost_grows_as_size(run: Callable[[int], object], size: int) -> None:
    """``run`` of four times ``size`` takes about four times the processor time of this process."""
    large = min(_cost(run, 4 * size) for _ in range(2))
    if large < FREE:
        return
    small = min(_cost(run, size) for _ in range(3))
    assert large <= MOST * small, f"{small:.3f} s, then {large:.3f} s for four times as much"


def _cost(run: Callable[[int], object], size: int) -> float:
    begun = time.process_time()
    run(size)
    return time.process_time() - begun
