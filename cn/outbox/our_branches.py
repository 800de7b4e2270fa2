"""Follow our own branches at peers: adopted, moved, gone, merged, too old."""

from __future__ import annotations

from collections.abc import Sequence

from cn.git.branch_content import contained
from cn.git.objects import is_ancestor, read_object
from cn.outbox.plan.receipts import plan_adopted, plan_notice, plan_ours_gone, plan_proven
from cn.peers.observe import Observation, fetch_mains, find_main
from cn.peers.plan.arrival import Arrival
from cn.protocol import rules
from cn.protocol.effects import Pin, Plan, Record
from cn.protocol.ledger import OUT
from cn.protocol.message import About
from cn.protocol.peers_file import Peer
from cn.run.executor import Executor
from cn.transaction.pins import decode, encode
from cn.values.errors import Refusal
from cn.values.names import Branch, Name, Oid, Topic, join_branch, parse_oid, topic_of
from cn.values.text import one_line


def record_ours(executor: Executor, seen: Observation) -> None:
    """Compare our branches at the remotes with our records."""
    for peer, topic in seen.changed_ours():
        if (peer, topic) in seen.missing_ours:
            continue
        branch, tip = seen.ours[(peer, topic)]
        item = executor.item(peer, OUT, topic)
        other = _other_name(executor, peer, topic, tip) if item is None else ""
        if item is None and other:  # not ours to clean up: whoever writes the mailbox may have put it there
            executor.notes.info(
                f"{branch} at {peer} is the very commit of our {peer}/{one_line(other, 80)}, pushed under "
                "another name; cn did not do that, and leaves it there",
                source=f"{peer}/{topic}",
            )
        elif item is None:
            executor.perform(plan_adopted(peer, branch, tip, executor.now))
            executor.notes.done(f"adopted {branch} at {peer}: pushed by hand", source=f"{peer}/{topic}")
        elif item.head != tip:
            text = f"our {branch} at {peer} is at {tip[:8]}, recorded at {item.head[:8]}"
            executor.notes.info(text, told_before=not executor.memory.tell_once("moved", peer, topic, tip))
        executor.perform(Plan(f"{peer}/{topic}", (Pin(peer, OUT, topic, tip),)))
    for peer, component, _ in seen.vanished(OUT):
        items = executor.snapshot.open_items.get(peer, {})
        item = next((i for (s, t), i in items.items() if s == OUT and encode(t) == component), None)
        if item is None:
            name = decode(component)
            if name is not None:
                executor.perform(Plan(f"{peer}/{name}", (Pin(peer, OUT, name, None),)))
        elif item.state in ("queued", "deleting"):
            continue  # what the outbox holds is on its way: its delivery sets or drops the pin
        else:
            executor.perform(plan_ours_gone(peer, item, executor.now))
            executor.notes.info(f"our {item.get('branch')} is gone at {peer}", source=f"{peer}/{item.topic}")


def _other_name(executor: Executor, peer: Name, topic: str, tip: Oid) -> str:
    """Under which topic our records know this commit, where they do not under this one."""
    known = [e.topic for e in executor.snapshot.events_at_heads(peer, OUT, [tip]).get(tip, [])]
    return known[0] if known and topic not in known else ""


def record_proven(executor: Executor, seen: Observation) -> None:
    """Merges that were only claimed: look again when the peer's main has changed."""
    for peer_name, known in executor.snapshot.outbound():
        peer = executor.settings.peers.get(peer_name)
        item = executor.item(peer_name, OUT, known.topic)  # this very run may have ended it
        if peer is None or item is None or not item.get("unproven") or item.state != "answered":
            continue
        if not find_main(executor, seen, peer_name):
            continue
        main = seen.mains[peer_name][1]
        if not executor.memory.tell_once("claim", peer_name, item.topic, item.head, main):
            executor.notes.info(
                f"{peer_name} claims {item.get('branch')} is merged; unproven: {item.get('unproven')}", told_before=True
            )
            continue
        merge = item.get("merge")
        if not merge:
            continue
        about = About(Branch(item.get("branch")), item.head, "merged", parse_oid(merge))
        if check_merge_claim(executor, seen, peer, about, "unverified") is None:
            executor.perform(plan_proven(peer_name, item, executor.now))
            executor.notes.done(
                f"{item.get('branch')} is merged in {peer_name}'s main", source=f"{peer_name}/{item.topic}"
            )


def apply_notice(executor: Executor, seen: Observation, arrival: Arrival, about: About) -> None:
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
    said = [(arrival.peer, arrival.message.about) for arrival in arrivals if arrival.message is not None]
    claimed = [(peer, about.merge) for peer, about in said if about and about.status == "merged" and about.merge]
    for peer in fetch_mains(executor, seen, [peer for peer, _ in claimed]):
        merges = [merge for p, merge in claimed if p == peer]
        held = contained(executor.hub.git, seen.mains[peer][1], merges)
        seen.merges.update(((peer, merge), merge in held) for merge in merges)


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
