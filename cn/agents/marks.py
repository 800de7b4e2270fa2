"""By which variables of their environment processes of agents are known, as far as this user may look into them.

A program of the standard library alone: ``python -I -S marks.py`` writes what its user finds as JSON, so that ``sudo``
finds what belongs to the user whom a wrap takes.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress

_PREFIXES = b"CN_AGENT_", b"CN_HANDLER="
_SHOWN = "CN_AGENT_ID", "CN_AGENT_HUB", "CN_HANDLER"


def marked() -> Iterator[tuple[int, dict[str, str]]]:
    """All processes but this one, with their marks."""
    with suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                with suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                    yield int(name), _marks(file.read())


def _marks(environment: bytes) -> dict[str, str]:
    rows = (row.partition(b"=") for row in environment.split(b"\0") if row.startswith(_PREFIXES))
    return {name.decode("ascii", "replace"): value.decode("ascii", "replace") for name, _, value in rows}


def main() -> None:
    """Those that have some; no token is told."""
    shown = [(pid, {name: one[name] for name in _SHOWN if name in one}) for pid, one in marked()]
    json.dump([(pid, one) for pid, one in shown if one], sys.stdout)


if __name__ == "__main__":
    main()
