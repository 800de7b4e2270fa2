"""What this installation brings: the extras of ``pyproject.toml`` that not every hub needs, and the hub template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from cn.values.errors import ConfigError, Refused

RUNTIME = {"anthropic": "anthropic", "telegram": "python-telegram-bot"}
"""The modules of the extra ``runtime``, and the packages that bring them."""

WEB = {"starlette": "starlette", "uvicorn": "uvicorn", "jinja2": "jinja2"}
"""The same of the extra ``web``."""


SERVING = {"mcp": "mcp", "anthropic": "anthropic"}
"""The same of the extra ``agency``: what the server needs, and the agents that it brings."""


class ExtraMissing(ConfigError):
    """A package is not installed that the command needs."""


def require_runtime(*modules: str) -> None:
    """Raise :class:`ExtraMissing` where one of the modules (else: of all) is not there; none is imported."""
    _require("runtime", RUNTIME, modules or tuple(RUNTIME))


def require_agency() -> None:
    """The same for what the server of Agency needs."""
    _require("agency", SERVING, tuple(SERVING))


def _require(extra: str, packages: Mapping[str, str], modules: Sequence[str]) -> None:
    missing = [packages[module] for module in modules if find_spec(module) is None]
    if missing:
        raise ExtraMissing(
            f"the Python package {' and '.join(missing)} is not installed",
            f"pip install 'cn-hub[{extra}]'; with pipx: pipx inject cn-hub {' '.join(packages.values())}",
        )


def require_web() -> None:
    """Raise :class:`ExtraMissing` where a package of the extra ``web`` is not there; none is imported."""
    missing = [package for module, package in WEB.items() if find_spec(module) is None]
    if missing:
        raise ExtraMissing(
            f"the Python package {' and '.join(missing)} is not installed",
            f"pip install 'cn-hub[web]'; with pipx: pipx inject cn-hub {' '.join(WEB.values())}",
        )


def template_dir() -> Path:
    """``hub-template``: inside the wheel, or at the top of a checkout."""
    package = Path(__file__).resolve().parent.parent
    for candidate in (package / "hub-template", package.parent / "hub-template"):
        if candidate.is_dir():
            return candidate
    raise Refused("the hub template is missing from this installation", "install cn-hub again")
