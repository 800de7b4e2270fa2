"""Now: what waits for whom and since when, the agent's turn, the peers, the last hours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cn.protocol.layout import BRANCH_LEFT
from cn.views.activity import Hour
from cn.views.outbox import PeerView
from cn.views.status import Status
from cn.views.threads import ThreadView, to_review
from cn.web.charts import NARROW, Chart, Series, stacked
from cn.web.page import Page, Part

MOST = 30
"""Threads that one list of the page shows."""
_SAME = {"claimed": "queued"}
"""States that wait for the same."""


class Waits(NamedTuple):
    """Threads that wait for the same: ``who`` it is, at most so many of them, and how many there are (``total``)."""

    who: str
    note: str
    threads: Sequence[ThreadView]
    total: int
    state: str


def now_page(status: Status, peers: Sequence[PeerView], hours: Sequence[Hour], actor: str) -> Page:
    """The page; ``actor`` is who looks, empty: whoever gets the page as a file."""
    own, *others = _group(status, actor)
    waiting = f"{own.total} {'thread waits' if own.total == 1 else 'threads wait'}" if own.total else "Nothing waits"
    titles = {one.thread.removesuffix(".md"): one.subject for one in status.inbox.threads}
    parts = (
        Part("trouble", "now-trouble", {"status": status}),
        Part("waiting", "now-waiting", {"own": own, "others": others}),
        Part("agent", "now-agent", {"queue": status.queue, "titles": titles, "most": MOST}, wide=False),
        Part("abroad", "now-abroad", {"status": status, "most": MOST}, wide=False),
        Part("peers", "now-peers", {"peers": peers, "status": status}, wide=False),
        Part("hours", "now-hours", {"chart": hours_chart(hours), "hours": hours}, wide=False),
    )
    return Page(f"{waiting} for {own.who}", "now", parts)


def _group(status: Status, actor: str) -> list[Waits]:
    threads = status.inbox.threads
    mine = to_review(status.inbox, actor)
    # What the agent is given is not yours as well, unless it was refused or given up.
    if status.queue is not None or not actor:
        mine = [one for one in mine if one.state != "queued"]
    names = {one.thread for one in mine}
    rest = [one for one in threads if one.thread not in names]
    found = [_waits("you" if actor else "a person", "", mine, "waiting")]
    for state, who, note in (
        ("decided", "the next run", "decided; 'cn inbox process' executes it"),
        ("queued", "the agent", ""),
        ("answered", "its creator", "a comment waits there"),
        ("withdrawn", "an end", BRANCH_LEFT),
        ("assigned", "a reviewer", ""),
        ("deferred", "its time", "put off"),
    ):
        some = [one for one in rest if _SAME.get(one.state, one.state) == state]
        if some:
            found.append(_waits(who, note, some, state))
    return found


def _waits(who: str, note: str, threads: Sequence[ThreadView], state: str) -> Waits:
    return Waits(who, note, threads[:MOST], len(threads), state)


def hours_chart(hours: Sequence[Hour]) -> str:
    """The last hours as a strip."""
    told = f"{_sum(hours, 'arrived')} arrived, {_sum(hours, 'done')} done, {_sum(hours, 'failed')} refused or failed"
    chart = Chart("hours", "The last 24 hours", told, [f"{hour.start:%H:%M}" for hour in hours], width=NARROW)
    return stacked(
        chart,
        (
            Series("arrived", "one", [hour.arrived for hour in hours]),
            Series("done", "two", [hour.done for hour in hours]),
            Series("refused or failed", "bad", [hour.failed for hour in hours]),
        ),
    )


def _sum(hours: Sequence[Hour], kind: str) -> int:
    return sum(getattr(hour, kind) for hour in hours)
