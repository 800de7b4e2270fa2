"""Does a peer's own hub answer at its URL? Else nothing of ours goes there, and nothing that is not there is gone.

Its repository is known by its main (:mod:`cn.peers.known_mains`). That is known of a URL; whoever writes another one
into ``peers.md`` by mistake names a hub that is somebody's, too. So a run that looks there reads the hub file in main,
which has its name. One that was called as the peer at that URL, and is called otherwise later, is still its hub.
"""

from __future__ import annotations

from cn.peers.known_mains import is_known_there, judged, known_main, look, note_called, tell_lost_name
from cn.peers.links import name_told, read_names
from cn.peers.observe import Observation, fetch_mains, has_two_places
from cn.protocol.ledger import IN, OUT
from cn.protocol.peers_file import MAILBOX, Peer
from cn.run.executor import Executor
from cn.run.memory import Condition
from cn.run.run import Run
from cn.run.settings import lies_at_mailbox
from cn.values.errors import Refused
from cn.values.names import Name, Oid


def tell_other_name(run: Run | Executor, peer: Peer, main: Oid) -> Condition | None:
    """Is the hub with this main, which is here, called otherwise than the peer? Else that is noted."""
    told = name_told(run.settings, peer, read_names(run.hub.git, {peer.name: main})[peer.name])
    if told is None:
        note_called(run.memory, peer)
    return told


def refuse_stranger(run: Run, peer: Peer, main: Oid) -> None:
    """Raise :class:`Refused` where the hub with this main, which is here, is another one than the peer's."""
    told = tell_other_name(run, peer, main)
    if told is not None and not is_known_there(run.settings, run.memory, peer):
        raise Refused(told.text, told.remedy)


def hold_back_strangers(run: Run, seen: Observation) -> None:
    """Where another hub, or another repository, answers at a peer's URL, nothing of that peer's is gone or ours.

    It is looked at only where it matters: the URL is another one than before, something is missing there, or is at
    another commit than it was, or a step is shown that names the URL.
    """
    doubtful = {peer for side in (IN, OUT) for peer, _, _ in seen.vanished(side) if _lies_there(run, peer, side)}
    doubtful |= {k[0] for k in seen.changed(OUT) if not lies_at_mailbox(k[0], seen.listed[OUT][k][0])}
    doubtful |= {Name(name) for name in run.memory.conditions.bound}
    doubtful |= {name for name, one in run.settings.peers.items() if not is_known_there(run.settings, run.memory, one)}
    for name, peer in run.settings.peers.items():
        if name not in doubtful or name not in seen.listings:
            continue
        if _is_another(run, peer) or _is_misnamed(run, seen, peer):
            seen.strange.add(name)
            for side in (IN, OUT):
                if _lies_there(run, name, side):
                    seen.saw[side].discard(name)
            ours = [k for k, (b, _) in seen.listed[OUT].items() if k[0] == name and not lies_at_mailbox(name, b)]
            for key in ours:
                del seen.listed[OUT][key]
    for name, peer in run.settings.peers.items():
        if name in seen.listings:
            tell_lost_name(run, peer, seen.mains.get(name))


def _lies_there(run: Run, name: Name, side: str) -> bool:
    """May what is on this side lie in the peer's hub?"""
    peer = run.settings.peers.get(name)
    return peer is not None and (has_two_places(run, peer) or side == (OUT if peer.deliver == MAILBOX else IN))


def _is_another(run: Run, peer: Peer) -> bool:
    """Has the repository there, as this run listed it, nothing in common with what was known? It is told."""
    known, heads = known_main(run, peer.hub), run.heads.get(peer.hub)
    if known is None or heads is None or heads.get(known.branch) == known.tip:
        return False
    names = [name for name, one in run.settings.peers.items() if one.hub == peer.hub]
    if heads.whole and known.branch not in heads:  # it may have another name now; else nothing there is the peer's
        return peer.hub in look(run, {peer.hub: names})
    if judged(run, names, heads.get(known.branch)):
        return True
    return isinstance(look(run, {peer.hub: names}).get(peer.hub), Condition)


def _is_misnamed(run: Run, seen: Observation, peer: Peer) -> bool:
    if is_known_there(run.settings, run.memory, peer) or peer.name not in fetch_mains(run, seen, [peer.name]):
        return False
    return tell_other_name(run, peer, seen.mains[peer.name][1]) is not None
