"""Whose a branch is where the route to a peer was changed: what lies where it lay before is still its creator's."""

from __future__ import annotations

from contextlib import suppress

from cn.peers.observe import ROUTES, Observation, fetch_mains, has_two_places, head_name
from cn.peers.their_records import is_sent_by, route_told
from cn.protocol.ledger import IN, OUT
from cn.run.run import Run
from cn.transaction.push import encode
from cn.values.errors import Refused
from cn.values.names import Name, ThreadKey

THEIRS = "theirs"
"""The kind of condition that a peer's own branch lies where ours would, since it goes by another route than we do."""


def place_by_records(run: Run, seen: Observation) -> None:
    """What lies where ours would lie is the peer's where our ledger has that head of it as the peer's; or where both
    hubs have the same route, and the peer's main, which nobody else writes, records that it made it: it was on its way
    when they changed theirs. What is open has its place already (:func:`~cn.peers.observe.observe`).
    """
    found = {Name(name) for name in run.settings.held} | _place_theirs(run, seen)
    noted = run.memory.section(ROUTES)
    for peer in run.settings.peers.values():
        if peer.name not in found and all(peer.name in saw for saw in seen.saw.values()):
            noted[peer.name] = peer.deliver
        noted.setdefault(peer.name, peer.deliver if peer.name not in run.settings.held else "")


def _place_theirs(run: Run, seen: Observation) -> set[Name]:
    """Returns whose branches lie by another route than the one that is written."""
    listed, found = seen.listed[OUT], set[Name]()
    asked: dict[Name, list[str]] = {}
    for peer, topic in listed:
        if run.snapshot.item(peer, OUT, topic) is None and _is_unknown(run, seen, (peer, topic)):
            asked.setdefault(peer, []).append(topic)
    for peer, some in asked.items():
        with suppress(Refused):  # a damaged ledger is told of elsewhere
            came, sent = (run.snapshot.events_of_topics(peer, side, some) for side in (IN, OUT))
            for topic in some:
                branch, tip = listed[peer, topic]
                if any(e.kind == "queued" and e.head == tip for e in sent[topic]):
                    continue
                known = any((e.head, e.fields.get("branch")) == (tip, branch) for e in came[topic])
                if known or _was_on_its_way(run, seen, (peer, topic)):
                    found.add(peer)
                    # Where a confirmation was lost, the very same may lie in both places.
                    if seen.listed[IN].setdefault((peer, topic), (branch, tip))[1] == tip:
                        del listed[peer, topic]
                elif not _is_left(run, seen, (peer, topic)) and not _could_tell(run, seen, peer):
                    found.add(peer)
                    del listed[peer, topic]  # it waits
    return found


def _is_unknown(run: Run, seen: Observation, key: ThreadKey) -> bool:
    """Is it not ours by what was seen before? What was left alone is looked at again."""
    (peer, topic), (_, tip) = key, seen.listed[OUT][key]
    return _is_left(run, seen, key) or seen.pins.get((peer, OUT, encode(topic))) != tip


def _is_left(run: Run, seen: Observation, key: ThreadKey) -> bool:
    return run.memory.conditions.get(THEIRS, head_name(key, seen.listed[OUT][key][1])) is not None


def _could_tell(run: Run, seen: Observation, peer: Name) -> bool:
    """Did the peer's hub answer, and its main come where that may record it? Else its own would be taken for ours."""
    if peer not in seen.listings:
        return False
    asked = peer in seen.mains and has_two_places(run, run.settings.peers[peer])
    return not asked or peer in fetch_mains(run, seen, [peer])


def _was_on_its_way(run: Run, seen: Observation, key: ThreadKey) -> bool:
    peer, (branch, tip) = run.settings.peers[key[0]], seen.listed[OUT][key]
    return is_sent_by(run, seen, peer, branch, tip) and route_told(run, seen, peer) == peer.deliver
