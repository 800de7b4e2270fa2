"""Where pages stand: below a server's root, or as files beside each other. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from urllib.parse import quote, urlencode

SECTIONS: tuple[str, ...] = ("now", "threads", "agent", "peers", "log", "history")
"""The pages of the navigation, in its order."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")


@dataclass(frozen=True)
class Links:
    """The addresses that a page names. ``here`` is the page that names them."""

    here: str = "now"

    @property
    def static(self) -> str:
        """The folder of style and script."""
        return "/static/"

    def section(self, name: str, **query: str) -> str:
        """A page of the navigation, with what it filters by."""
        words = {key: value for key, value in query.items() if value}
        path = "/" if name == "now" else f"/{name}"
        return f"{path}?{urlencode(words)}" if words else path

    def thread(self, name: str) -> str:
        """The page of a thread, by file name, ``peer/topic`` or path; empty: it has none."""
        return f"/thread/{quote(name.removesuffix('.md'))}"

    def why(self, name: str) -> str:
        """The page that explains one action; empty: it has none."""
        return f"/why/{quote(name.removesuffix('.md'))}"


@dataclass(frozen=True)
class FileLinks(Links):
    """The same for an export: relative, and every page that is named is asked for.

    ``ask`` takes the name of a page, as :func:`file_of` has it, and says whether it will be there.
    """

    ask: Callable[[str], bool] = field(default=lambda _: True)

    @property
    def _up(self) -> str:
        return "../" * file_of(self.here).count("/")

    @property
    def static(self) -> str:
        """The folder of style and script."""
        return f"{self._up}static/"

    def section(self, name: str, **query: str) -> str:
        """A page of the navigation; of what it filters by only the number of the page."""
        number = query.get("page", "")
        return self._to(f"{name}?page={number}" if number not in ("", "1") else name)

    def thread(self, name: str) -> str:
        """The page of a thread."""
        return self._to(f"thread/{name.removesuffix('.md')}")

    def why(self, name: str) -> str:
        """The page that explains one action."""
        return self._to(f"why/{name.removesuffix('.md')}")

    def _to(self, page: str) -> str:
        return f"{self._up}{quote(file_of(page))}" if self.ask(page) else ""


def file_of(page: str) -> str:
    """The file of an export that holds a page: ``now``, ``log?page=2``, ``thread/NAME``, ``why/NAME``."""
    if page == "now":
        return "index.html"
    kind, slash, name = page.replace("?page=", "-").partition("/")
    if not slash:
        return f"{kind}.html"
    plain = name if _PLAIN.fullmatch(name) else _made_plain(name)
    return f"{kind}/{plain}.html"


def _made_plain(name: str) -> str:
    """A file name for a name with slashes or others; a digest keeps two of them apart."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:80]
    return f"{words or 'page'}-{sha256(name.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"
