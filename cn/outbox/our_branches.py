"""Follow our own branches at peers: adopted, moved, gone, merged, too old."""

from __future__ import annotations

from cn.outbox.plan.receipts import plan_adopted, plan_ours_gone, plan_proven
from cn.outbox.receipts import check_merge_claim
from cn.peers.fetch_changed import find_main
from cn.peers.observe import Observation
from cn.protocol.effects import Pin, Plan
from cn.protocol.ledger import OUT, Item
from cn.protocol.message import About
from cn.run.executor import Executor
from cn.transaction.pins import decode, encode
from cn.values.names import Branch, Name, Oid, parse_oid
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
        item = ours_topic(executor, peer, component)
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


def ours_topic(executor: Executor, peer: Name, component: str) -> Item | None:
    """The open item of one of our branches, by its pin."""
    items = executor.snapshot.open_items.get(peer, {})
    return next((i for (s, t), i in items.items() if s == OUT and encode(t) == component), None)
