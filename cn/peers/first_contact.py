"""Is what peers have at origin fetched as it is listed? People wait for each connection, and that saves one.

Of a whole list there is more to tell: what is there of nobody. So there is one each hour, where the peers are others
than at the last, and wherever such a fetch went wrong: branches are fetched one by one then, and it is told which of
them keeps itself out.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from cn.git.environment import find_local_git_dir
from cn.git.list_and_fetch import Fetched
from cn.git.remote import Listing
from cn.git.repository import Hub
from cn.peers.observe import INVALID
from cn.run.memory import Memory
from cn.run.settings import MAILBOX_KEY, Settings
from cn.values.timestamps import format_second, stamp_or_none

_WHOLE, _PEERS, _FAILED = "whole", "peers", "failed"
_AGAIN = timedelta(hours=1)
_FEW = 500
"""Branches of which git writes a ref for each while it looks."""


def to_fetch(hub: Hub, settings: Settings, memory: Memory) -> Fetched | None:
    """What is fetched as it is listed: all of peers at an origin elsewhere. None: its branches are only listed."""
    if settings.mailbox != "origin" or (hub.git.direct and find_local_git_dir(hub.origin_url)):
        return None
    if _within(memory, _WHOLE) is None or _within(memory, _FAILED) or memory.unfetched.entries or memory.silent.entries:
        return None
    if _section(memory).get(_PEERS) != _names(settings):
        return None
    if memory.not_taken.entries or memory.conditions.names(INVALID):  # nothing keeps these here: they would come again
        return None
    return Fetched(MAILBOX_KEY, hub.main, sorted(settings.peers), settings.config.limits.fetch_bytes)


def whole_until(memory: Memory) -> datetime | None:
    """Up to when a whole list counts; None: there is none."""
    at = _within(memory, _WHOLE)
    return at + _AGAIN if at else None


def _within(memory: Memory, what: str) -> datetime | None:
    at = stamp_or_none(str(_section(memory).get(what, "")))
    return at if at is not None and at <= memory.at < at + _AGAIN else None


def _section(memory: Memory) -> dict[str, str]:
    return memory.section("origin")


def _names(settings: Settings) -> str:
    return " ".join(sorted(settings.peers))


def note_origin(memory: Memory, settings: Settings, listing: Listing | None) -> None:
    """Remember how origin was listed; None: it is on this machine, or did not answer."""
    noted, now = _section(memory), format_second(memory.at)
    if listing is None:
        return
    if listing.not_fetched:
        noted[_FAILED] = now
    if len(listing) > _FEW:
        noted.pop(_WHOLE, None)
    elif listing.whole:
        noted[_WHOLE], noted[_PEERS] = now, _names(settings)
