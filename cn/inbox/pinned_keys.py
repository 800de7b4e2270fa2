"""Threads whose signature was checked by another key than that pinned now (``docs/protocol/signatures.md``)."""

from __future__ import annotations

from collections.abc import Mapping

from cn.git.objects import read_kinds
from cn.git.signatures import read_signatures
from cn.inbox.arrivals import mask_thread, read_mains, use_working_text
from cn.inbox.parts import came_elsewhere
from cn.inbox.plan.arrivals import plan_checked_anew
from cn.inbox.working_copies import has_triage, own_text
from cn.outbox.plan.receipts import Arrival
from cn.protocol import rules
from cn.protocol.layout import PROPOSAL, inbox_path
from cn.protocol.ledger import IN, Item
from cn.protocol.peers_file import VERIFIED, Peer, fingerprint, signature_now
from cn.run.executor import Executor
from cn.values.names import Branch, Name, Oid, ThreadName

_NOTICES = 10
"""How many threads a peer is told of in one run: who stole its key may have pushed any number."""


def check_pinned(executor: Executor, peers: Mapping[Name, Peer] | None = None) -> None:
    """Check pending threads anew whose peer has another key now, or one for the first time, or none any more.

    ``peers`` are those that this run is about to pin; else those that main has. One look at the keys where nothing
    changed.
    """
    peers = executor.settings.peers if peers is None else peers
    stale: dict[Name, list[Item]] = {}
    for peer, known in executor.snapshot.pending():
        item = executor.item(peer, IN, known.topic)
        if item is None or peer not in peers or not item.get("thread") or inbox_path(_thread(item)) in executor.changed:
            continue
        if _checked_by(item) != _mark(peers[peer].key):
            stale.setdefault(peer, []).append(item)
    for peer, items in stale.items():
        words = _words(executor, peers[peer], [item.head for item in items])
        for number, item in enumerate(items):
            word = words.get(item.head) or signature_now(item.get("signature") or "unverified", peers[peer].key)
            arrival = Arrival(peer, item.topic, Branch(item.get("branch")), item.head, executor.now, word, item=item)
            arrival = arrival._replace(signed=item.get("signed"))
            if word.startswith(VERIFIED) and item.get("kind") in ("", PROPOSAL):
                arrival = arrival._replace(part=came_elsewhere(executor, [arrival]).get(arrival.key, ""))
            with executor.apart(arrival.source):
                _show(executor, arrival, item, peers[peer], tell=number < _NOTICES)


def _thread(item: Item) -> ThreadName:
    return ThreadName(item.get("thread"))


def _checked_by(item: Item) -> str:
    """The fingerprint of the key by which it was checked; empty: none was pinned."""
    word, _, print_ = item.get("signature").partition(" ")
    return print_ if word == VERIFIED else item.get("pinned")


def _mark(key: str) -> str:
    return fingerprint(key) if key else ""


def _words(executor: Executor, peer: Peer, heads: list[Oid]) -> dict[Oid, str]:
    """What the signatures of those heads that are here are by the key that is pinned."""
    if not peer.key:
        return {}
    git = executor.hub.git
    there = [head for head, kind in zip(heads, read_kinds(git, heads), strict=True) if kind == "commit"]
    found = dict.fromkeys(heads, "unverified")
    return found | {sign.commit: sign.word for sign in read_signatures(git, there, {str(peer.name): peer.key})}


def _show(executor: Executor, arrival: Arrival, item: Item, peer: Peer, *, tell: bool) -> None:
    name, us = _thread(item), executor.settings.us
    void = has_triage(executor.hub, name)
    fresh, known = own_text(executor.snapshot, us, arrival.peer, item)
    working = use_working_text(executor, name)
    text = fresh if working is None else mask_thread(executor, name, working, read_mains(executor, inbox_path(name)))
    executor.perform(plan_checked_anew(arrival, us, item, _mark(peer.key), text, fresh, known, tell=tell))
    ends = "; what was decided is void" if void else ""
    if refusal := rules.signed_by_its_key(arrival.signature, peer, arrival.source):
        text = f"{arrival.source}: {refusal.rule}: {refusal.reason}{ends}"
        executor.notes.refused(text, refusal.remedy, source=arrival.source, theirs=refusal.notify)
    else:
        executor.notes.info(f"{arrival.source}: its signature is {arrival.signature} now{ends}", source=arrival.source)
