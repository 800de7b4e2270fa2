"""Is a peer's repository shown as it is now? By a mirror that lags, or a backup, nothing is gone.

A main that lacks what it had gives them away. A repository without a main, and one of which only branches are
older, are not recognised: what nobody can take back, such as the deletion of an answer, needs more than an absence.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from cn.git.objects import is_ancestor
from cn.peers.observe import Observation, fetch_mains, has_two_places
from cn.protocol.ledger import IN, OUT
from cn.protocol.peers_file import MAILBOX, Peer
from cn.run.memory import NAMELESS
from cn.run.run import Run
from cn.values.names import Oid
from cn.values.timestamps import format_second, stamp_or_none

A_DAY = timedelta(days=1)
"""After so long what is shown counts as what its owner wants, and not as a fault that passes."""
_LOOKS = 3
"""So often a branch is not listed before it counts as gone where nothing else shows it."""
OLDER = "older"
"""The kind of condition that a peer's main lacks what it had."""


def hold_back_older(run: Run, seen: Observation) -> None:
    """Where a peer's main lacks what it had, what is not listed beside it is not gone: ``seen.saw`` loses that peer.

    The mains are remembered by URL; only where a branch is missing is a main that moved fetched and looked at.
    """
    mains = run.memory.section("mains")
    short = {peer for side in (IN, OUT) for peer, _, _ in seen.vanished(side)}
    for peer in (one for name, one in run.settings.peers.items() if name in seen.listings and name not in seen.strange):
        tip = seen.mains[peer.name][1] if peer.name in seen.mains else None
        known = mains.get(peer.hub)
        lacks = tip != known and peer.name in short and _lacks(run, seen, peer, known)
        if lacks and _is_new(run, peer):
            _hold_back(run, seen, peer, str(known))
            continue
        run.memory.conditions.clear(OLDER, peer.name)
        run.memory.section("older").pop(peer.hub, None)
        if tip is not None:
            mains[peer.hub] = tip
        else:
            mains.pop(peer.hub, None)


def is_missed_for_a_day(looks: dict[str, Any], name: str, noted: str, now: datetime) -> bool:
    """Was a branch not listed for a day, in some looks, this one included? Else this one is added to what is ``noted``
    of them, in ``looks``. The clock may have gone back.
    """
    count, _, stamp = noted.partition(" ")
    since, times = stamp_or_none(stamp), 1
    if since and since <= now and count.isdigit():
        times += int(count)
    else:
        since = now
    if times >= _LOOKS and now - since >= A_DAY:
        return True
    looks[name] = f"{times} {format_second(since)}"
    return False


def forget_older(run: Run, peer: Peer, main: tuple[str, Oid] | None) -> None:
    """What a person takes for the peer's, with this main, is no older state of what was there."""
    run.memory.section("mains").pop(peer.hub, None)
    if main is not None:
        run.memory.section("mains")[peer.hub] = main[1]
    run.memory.section("older").pop(peer.hub, None)
    run.memory.conditions.clear(OLDER, peer.name)


def _lacks(run: Run, seen: Observation, peer: Peer, known: Any) -> bool:
    """Is what its main was not in it any more? One that cannot be fetched is believed."""
    if known is None or peer.name not in seen.mains:
        return known is not None
    here = peer.name in fetch_mains(run, seen, [peer.name])
    return here and not is_ancestor(run.hub.git, Oid(str(known)), seen.mains[peer.name][1])


def _is_new(run: Run, peer: Peer) -> bool:
    """Has it been so for less than a day? The clock may have gone back."""
    noted = run.memory.section("older")
    since = stamp_or_none(noted.get(peer.hub))
    if since is None or since > run.now:
        noted[peer.hub], since = format_second(run.now), run.now
    return run.now - since < A_DAY


def _hold_back(run: Run, seen: Observation, peer: Peer, known: str) -> None:
    for side in (IN, OUT):
        if has_two_places(run, peer) or side == (OUT if peer.deliver == MAILBOX else IN):
            seen.saw[side].discard(peer.name)
    if run.memory.conditions.get(NAMELESS, peer.name) is not None:  # main may have another name: that is told
        run.memory.conditions.clear(OLDER, peer.name)
        return
    text = f"{peer.name}'s main lacks {known[:12]}, which it had: what is not listed beside it is not taken as gone"
    remedy = f"a mirror catches up by itself; if {peer.name}'s host lost something, tell {peer.name}"
    told_before = peer.name in run.memory.conditions.names(OLDER)
    run.report.info(f"{text} for a day; {remedy}", source=peer.name, told_before=told_before)
    run.memory.conditions.set(OLDER, text, remedy, name=peer.name)
