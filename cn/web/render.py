"""Draw pages with Jinja2. The engine is the one place where foreign text becomes HTML.

Every value that a template shows goes through :func:`_shown` and is escaped then (Jinja2, "Autoescaping" and
``finalize``); no template says ``safe``. What comes as :class:`markupsafe.Markup` is ours: parts that the engine drew,
and the pictures of ``cn/web/charts.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from cn import __version__
from cn.values.text import redact, visible
from cn.values.timestamps import format_age, format_stamp
from cn.views.conversation import read_commit
from cn.views.words import sent_text, state_text
from cn.web.links import SECTIONS, Links
from cn.web.page import Drawn, Page, Part

FOLDER = Path(__file__).parent
STATIC = FOLDER / "static"
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::\d\d)?(?:Z|\+00:00)")


class Frame(NamedTuple):
    """What stands around every page. ``csrf`` is the token of its forms, empty where nothing is decided.

    ``here`` is the page's own address, ``live`` that of the stream that tells of changes; empty: there is none.
    ``used`` is how many browsers came in by a link.
    """

    hub: str
    now: datetime
    links: Links
    live: str = ""
    here: str = ""
    csrf: str = ""
    actor: str = ""
    said: str = ""
    sections: tuple[str, ...] = SECTIONS
    used: int = 0


class Whole(str):
    """A text of which nothing is taken out: what is decided is what was read."""

    __slots__ = ()


def _shown(value: Any) -> Any:
    """A value as it may be shown: nothing hidden in it, no credentials of a URL; escaped by the engine."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, Whole):
        return visible(str(value))
    return "" if value is None else visible(redact(str(value)))


def _engine() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"stamp": _stamp, "iso": _iso, "day": _day, "words": _words, "money": _money, "short": _short}
    made.filters |= {"times": _times, "commit": read_commit, "whole": Whole}
    made.globals |= {"state_text": state_text, "sent_text": sent_text}
    made.globals |= {"version": __version__, "tone": tone}
    return made


def _stamp(at: datetime | None) -> str:
    return format_stamp(at).replace("T", " ").removesuffix("Z") if at else "—"


def _times(text: str) -> str:
    """A text of cn's own with its times as pages say them; all of them are UTC."""
    return _TIME.sub(r"\1 \2", text)


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()


def _day(at: datetime) -> str:
    return f"{at.astimezone(UTC):%-d %b %Y}"


def _words(text: str) -> str:
    return text.replace("_", " ").replace("-", " ")


def _short(oid: str) -> str:
    return oid[:10]


def _money(dollars: float | None) -> str:
    return "—" if dollars is None else f"${dollars:,.4f}" if dollars < 1 else f"${dollars:,.2f}"


_TONES = {
    **dict.fromkeys(("pending", "queued", "claimed", "decided"), "wait"),
    **dict.fromkeys(("refused", "dead", "rejected", "no answer", "damaged"), "bad"),
    **dict.fromkeys(("answered", "withdrawn", "deferred", "assigned", "in flight"), "later"),
    **dict.fromkeys(("merged", "done", "replied", "executed", "acked"), "good"),
}


def tone(word: str) -> str:
    """How a state is coloured: it waits, is bad, comes later, went well, or none of it."""
    return _TONES.get(word, "plain")


class Renderer:
    """Draws pages; templates are read once."""

    def __init__(self) -> None:
        self._engine = _engine()

    def draw(self, page: Page, frame: Frame) -> Drawn:
        """The page, and a digest of each live part."""
        given = {"frame": frame, "link": frame.links, "now": frame.now, "age": lambda at: format_age(frame.now - at)}
        parts = [(part, self._part(part, given)) for part in page.parts]
        digests = {part.name: sha256(text.encode()).hexdigest()[:16] for part, text in parts if part.live}
        seen = " ".join(f"{name}.{digest}" for name, digest in digests.items())
        html = self._engine.get_template("page.html").render(page=page, parts=parts, seen=seen, **given)
        return Drawn(html, digests, page.status)

    def _part(self, part: Part, given: Mapping[str, Any]) -> Markup:
        template = self._engine.get_template(f"{part.template}.html")
        return Markup(template.render(**{**given, **part.given}))  # noqa: S704  drawn by the engine, which escaped it
