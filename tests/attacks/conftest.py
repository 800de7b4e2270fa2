"""The hubs of the loop tests serve here too."""

from loop.conftest import template, world

__all__ = ["template", "world"]
