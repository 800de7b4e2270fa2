"""What was said about our branches and left, or only claimed, and counts once a person has changed what it wanted.

``docs/protocol/branches.md``
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cn.git.read_branches import read_commits
from cn.inbox.arrivals import check_read
from cn.outbox.our_branches import apply_notice, check_claim
from cn.outbox.plan.receipts import LEFT, Arrival
from cn.peers.observe import Observation
from cn.protocol.ledger import IN, OUT, Event, Item
from cn.protocol.message import About
from cn.protocol.states import Step
from cn.run.executor import Executor
from cn.values.names import Branch, Name, Oid, ThreadKey, is_oid, topic_of


def look_again(executor: Executor, seen: Observation, keys: Sequence[ThreadKey]) -> None:
    """Let count what was said about these branches of ours where they stand, and was left since that was not ours.

    It is as if it came now, by the keys that are pinned now. One look at the ledger of each peer.
    """
    there = [key for key in keys if key in seen.listed[OUT] and executor.item(key[0], OUT, key[1]) is not None]
    for peer in dict.fromkeys(peer for peer, _ in there):
        heads = {seen.listed[OUT][key][1] for key in there if key[0] == peer}
        events = executor.snapshot.events_with(peer, IN, [f" {LEFT}={head}" for head in heads])
        for arrival in _read_anew(executor, peer, events):
            about = arrival.message.about if arrival.message is not None else None
            if about is not None and (peer, topic_of(about.branch)) in there:
                _apply(executor, seen, arrival, about)


def believe_signed(executor: Executor, seen: Observation) -> None:
    """Believe what was only claimed where its sender is proven now: their key was pinned later, or the mailbox trusted.

    One look at each claim after such a change. Where the peer's main may show it, ``record_proven`` looks there.
    """
    trusted = "trusted" * executor.settings.config.mailbox_trusted
    claims: dict[Name, list[Item]] = {}
    for peer, known in executor.snapshot.outbound():
        item = executor.item(peer, OUT, known.topic)
        claimed = item is not None and item.state == "answered" and item.get("unproven") and is_oid(item.get("answer"))
        if item is None or not claimed or peer not in executor.settings.peers or peer not in seen.urls:
            continue
        looked = ("claim by", peer, item.get("answer"), executor.settings.peers[peer].key, trusted)
        if not executor.memory.told(*looked):
            claims.setdefault(peer, []).append(item)
    for peer, items in claims.items():
        said = {Oid(item.get("answer")): item for item in items}
        events = executor.snapshot.events_at_heads(peer, IN, list(said))
        for arrival in _read_anew(executor, peer, [event for found in events.values() for event in found]):
            about = arrival.message.about if arrival.message is not None else None
            item = said[arrival.head]
            if about is None or (about.branch, about.head) != (item.get("branch"), item.head):
                continue
            same, words = about.status == item.get("status"), (arrival.topic, arrival.head)
            sender = executor.settings.peers[peer]
            if same and check_claim(executor, seen, sender, about, arrival.signature, words) is None:
                _apply(executor, seen, arrival, about)


def _apply(executor: Executor, seen: Observation, arrival: Arrival, about: About) -> None:
    past = executor.snapshot.events_of_topic(arrival.peer, OUT, topic_of(about.branch))
    with executor.apart(arrival.source):
        apply_notice(executor, seen, arrival, about, past)


def _read_anew(executor: Executor, peer: Name, events: Collection[Event]) -> list[Arrival]:
    """The messages of these events, in their order; none that would be refused now."""
    commits = read_commits(executor.hub.git, list(dict.fromkeys(event.head for event in events)))
    found = {
        e.head: Arrival(peer, e.topic, Branch(e.fields["branch"]), e.head, executor.now, step=Step.KNOWN)
        for e in events
        if e.head in commits and e.kind != "refused" and e.fields.get("branch")
    }
    return [arrival for arrival, refusal in check_read(executor, list(found.values()), commits) if refusal is None]
