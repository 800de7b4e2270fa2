"""Python packages that not every hub needs: the extras of ``pyproject.toml``."""

from __future__ import annotations

from importlib.util import find_spec

from cn.values.errors import ConfigError

RUNTIME = {"anthropic": "anthropic", "telegram": "python-telegram-bot"}
"""The modules of the extra ``runtime``, and the packages that bring them."""


class ExtraMissing(ConfigError):
    """A package is not installed that the command needs."""


def require_runtime(*modules: str) -> None:
    """Raise :class:`ExtraMissing` where one of the modules (else: of all) is not there; none is imported."""
    missing = [RUNTIME[module] for module in modules or RUNTIME if find_spec(module) is None]
    if missing:
        raise ExtraMissing(
            f"the Python package {' and '.join(missing)} is not installed",
            f"pip install 'cn-hub[runtime]'; with pipx: pipx inject cn-hub {' '.join(RUNTIME.values())}",
        )
