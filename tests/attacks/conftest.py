"""The hubs of the loop tests serve here too."""

from loop.conftest import world

__all__ = ["world"]
