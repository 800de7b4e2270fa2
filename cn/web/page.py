"""What a page is: a title, and parts that are drawn each by a template and replaced each for itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Part(NamedTuple):
    """A part of a page: the name by which it is replaced, its template, and what that is given.

    ``live`` parts follow the hub. ``wide`` ones stand in the first column.
    """

    name: str
    template: str
    given: Mapping[str, Any]
    live: bool = True
    wide: bool = True


class Page(NamedTuple):
    """A page. ``section`` is the entry of the navigation that it belongs to, ``lead`` a line below its title."""

    title: str
    section: str
    parts: tuple[Part, ...]
    lead: str = ""
    status: int = 200


class Drawn(NamedTuple):
    """A page as HTML: whole, and each live part for itself (name → a digest of it)."""

    html: str
    digests: Mapping[str, str]
    status: int = 200
