"""The clock, in one place."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """The time, UTC, in whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)
