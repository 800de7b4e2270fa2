"""Notices: what a peer says became of a branch of ours, checked before it is believed."""

from __future__ import annotations

from collections.abc import Sequence

from cn.git.diff_many import contained
from cn.git.objects import read_object
from cn.outbox.plan.receipts import plan_notice
from cn.peers.fetch_changed import fetch_mains
from cn.peers.observe import Observation
from cn.peers.plan.arrival import Arrival
from cn.protocol import rules
from cn.protocol.effects import Record
from cn.protocol.ledger import OUT
from cn.protocol.message import About, Message
from cn.protocol.peers_file import Peer
from cn.run.executor import Executor
from cn.transaction.base import is_ancestor
from cn.values.errors import Refusal
from cn.values.names import Name, Oid, Topic, join_branch, topic_of


def apply_notice(executor: Executor, seen: Observation, arrival: Arrival, message: Message, about: About) -> None:
    """Perform what a message says became of a branch of ours, as far as it is authentic and proven."""
    peer = executor.settings.peers[arrival.peer]
    topic = topic_of(about.branch)
    ours = executor.item(peer.name, OUT, topic)
    expected = join_branch(executor.settings.outbound_prefix(peer), Topic(topic))
    listed = seen.ours.get((peer.name, topic))
    proof = check_merge_claim(executor, seen, peer, about, arrival.signature) if about.status == "merged" else None
    past = executor.snapshot.events_of_topic(peer.name, OUT, topic) if ours is None else []
    deleted = about.branch == expected and any(e.head == about.head for e in past)
    tip = listed[1] if listed else None
    plan = plan_notice(arrival, ours, expected, tip, proof, deleted=deleted)
    executor.perform(plan)
    source = f"{peer.name}/{topic}"
    reason = f": {about.reason}" if about.reason else ""
    text = f"{peer.name} says {about.branch} is {about.status}"
    taken = any(isinstance(e, Record) and e.event.kind == "answered" for e in plan.effects)
    if taken and proof is None:
        executor.notes.done(f"{text}{reason}", source=source)
    elif taken and proof is not None:
        executor.notes.info(f"{text} (claimed, unproven: {proof.reason}){reason}", source=source)
    elif deleted or (about.branch == expected and ours and (ours.state, ours.head) == ("deleting", about.head)):
        executor.notes.info(f"{text}{reason}; it is cleaned up, or about to be", source=source)
    else:
        executor.notes.info(f"{text}{reason}; but it names no branch and head of ours: nothing follows", source=source)


def find_merges(executor: Executor, seen: Observation, arrivals: Sequence[Arrival]) -> None:
    """Look up all merges that these messages claim, with one question for each peer."""
    claimed: dict[Name, list[Oid]] = {}
    for arrival in arrivals:
        about = arrival.message.about if arrival.message is not None else None
        if about is not None and about.status == "merged" and about.merge is not None:
            claimed.setdefault(arrival.peer, []).append(about.merge)
    mains = fetch_mains(executor, seen, claimed) if claimed else set()
    for peer in claimed.keys() & mains:
        held = contained(executor.hub.git, seen.mains[peer][1], claimed[peer])
        seen.merges.update(((peer, merge), merge in held) for merge in claimed[peer])


def check_merge_claim(
    executor: Executor, seen: Observation, peer: Peer, about: About, signature: str
) -> Refusal | None:
    """*merged* is believed when the peer's main holds that merge with our head as a parent.

    Where the peer's main cannot be read, a signature of the pinned key is enough.
    """

    def no(reason: str) -> Refusal:
        return Refusal(rules.CREATOR_ONLY_DELETE, reason, "look at the peer's main; the branch stays")

    if about.merge is None:
        return no("it names no merge commit")
    if peer.name not in fetch_mains(executor, seen, [peer.name]):
        return None if signature.startswith("verified") else no(f"{peer.name}'s main cannot be read")
    main = seen.mains[peer.name][1]
    commit = read_object(executor.hub.git, about.merge)
    if commit is None:
        return no(f"{peer.name}'s main does not hold {about.merge[:8]}")
    head = commit.partition(b"\n\n")[0].decode("ascii", "replace").split("\n")
    parents = [line.split(" ")[1] for line in head if line.startswith("parent ")]
    if (peer.name, about.merge) not in seen.merges:
        seen.merges[(peer.name, about.merge)] = is_ancestor(executor.hub.git, about.merge, main)
    if not seen.merges[(peer.name, about.merge)]:
        return no(f"{peer.name}'s main does not hold {about.merge[:8]}")
    if about.head not in parents[1:]:
        return no(f"{about.merge[:8]} does not merge {about.head[:8]}")
    return None
