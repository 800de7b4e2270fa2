"""Where the template of a new hub lies."""

from __future__ import annotations

from pathlib import Path

from cn.values.errors import Refused


def template_dir() -> Path:
    """``hub-template``: inside the wheel, or at the top of a checkout."""
    package = Path(__file__).resolve().parent.parent
    for candidate in (package / "hub-template", package.parent / "hub-template"):
        if candidate.is_dir():
            return candidate
    raise Refused("the hub template is missing from this installation", "install cn-hub again")
