"""Peers, the history of the hub, the explanation of one action, and what is said where there is no page."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from cn.views.history import Week
from cn.views.outbox import PeerView
from cn.views.why import Why
from cn.web.charts import Chart, Series, beside, line
from cn.web.page import Page, Part


def peers_page(peers: Sequence[PeerView], counts: dict[str, tuple[int, int]], waiting: dict[str, int] | None) -> Page:
    """The peers; ``counts``: pending and done by peer, ``waiting``: ours that are with them.

    Where that is None, nothing is said of how this hub and they reach each other.
    """
    return Page("Peers", "peers", (Part("peers", "peers", {"peers": peers, "counts": counts, "waiting": waiting}),))


def history_page(weeks: Sequence[Week], ends: Sequence[tuple[str, int]], peers: Sequence[tuple[str, int]]) -> Page:
    """What happened week by week; ``ends``: how threads ended, ``peers``: whose they were."""
    given = {"weeks": weeks, "flow": flow_chart(weeks), "speed": speed_chart(weeks), "ends": ends, "peers": peers}
    return Page("History", "history", (Part("history", "history", given),))


def flow_chart(weeks: Sequence[Week]) -> Markup:
    """What arrived and what was decided."""
    told = f"{sum(week.received for week in weeks)} arrived, {sum(week.decided for week in weeks)} decided"
    chart = Chart("flow", "Arrived and decided, by week", told, [week.name[5:] for week in weeks])
    arrived = Series("arrived", "one", [week.received for week in weeks])
    return beside(chart, (arrived, Series("decided", "two", [week.decided for week in weeks])))


def speed_chart(weeks: Sequence[Week]) -> Markup:
    """How long a decision took."""
    chart = Chart(
        "speed", "Hours to a decision, by week", "the median", [w.name[5:] for w in weeks], lambda v: f"{v:.3g} h"
    )
    return line(chart, Series("hours", "one", [week.hours for week in weeks]))


def why_page(why: Why) -> Page:
    """One action, end to end."""
    parts = [Part("item", "why-item", {"why": why})]
    if why.decided is not None or why.merge is not None:
        parts.append(Part("decided", "why-decided", {"why": why}))
    if why.attempts:
        parts.append(Part("attempts", "why-attempts", {"why": why}))
    parts.append(Part("log", "why-rows", {"why": why}))
    return Page(f"Why {why.name}", "log", tuple(parts))


def nothing_page(text: str, hint: str, status: int = 404) -> Page:
    """There is nothing of that name, or nobody may look."""
    return Page(
        "Not here" if status == 404 else "Not shown",
        "",
        (Part("nothing", "nothing", {"text": text, "hint": hint}, live=False),),
        status=status,
    )
