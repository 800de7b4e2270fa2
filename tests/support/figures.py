"""What the long harnesses count, for ``docs/reliability.md``.

With ``TEST_FIGURES`` naming a folder, each harness writes what it has seen into a file of its
own there, in JSON; ``docs/reliability.py`` adds them up. Without it nothing is written. A part
of the kills (``TEST_SLICE=1:2``) has a file of its own too.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path


def observed(harness: str, case: str, **numbers: float) -> None:
    """Print what was seen, and keep it where a folder is named."""
    print(f"{harness} {case}: " + ", ".join(f"{value} {name}" for name, value in numbers.items()))
    folder = os.environ.get("TEST_FIGURES")
    if folder:
        part = os.environ.get("TEST_SLICE", "0:1")
        name = f"{harness}-{case}" if part.endswith(":1") else f"{harness}-{case}-{part.replace(':', 'of')}"
        path = Path(folder, f"{name}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        on = datetime.now(UTC).strftime("%Y-%m-%d")
        path.write_text(json.dumps({"harness": harness, "case": case, "on": on, **numbers}, indent=1) + "\n")
