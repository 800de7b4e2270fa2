"""What the long harnesses count, for ``docs/reliability.md``.

With ``TEST_FIGURES`` naming a folder, each harness writes what it has seen into a file of its
own there, in JSON; ``docs/reliability.py`` adds them up. Without it nothing is written.
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
        path = Path(folder, f"{harness}-{case}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        on = datetime.now(UTC).strftime("%Y-%m-%d")
        path.write_text(json.dumps({"harness": harness, "case": case, "on": on, **numbers}, indent=1) + "\n")
