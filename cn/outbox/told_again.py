"""Answers of ours that a peer refused for their signature go again, once a key signs that had not signed them.

A notice is the one word by which a creator learns what became of its branch, and no command says it; a reply that is
said anew by hand would answer no question. So what a clone without that key told (``cn sign`` was forgotten there, or
the key was replaced while it waited) is told by the next one that has it. ``docs/protocol/signatures.md``
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cn.git.signatures import own_key, read_signatures
from cn.outbox.deliver import write_messages
from cn.outbox.plan.told_again import (
    find_refused,
    is_answer,
    is_notice,
    is_signed_by_us,
    plan_told_again,
    same_words,
    signed_alike,
)
from cn.peers.observe import Observation
from cn.peers.their_records import read_theirs
from cn.protocol.layout import SENT, SIGNATURE_POLICY
from cn.protocol.ledger import IN, OUT, Item
from cn.protocol.message import Message, MessageRefused, parse_message
from cn.protocol.outbox_entry import Deliver, file_names, is_about, parse_entry
from cn.protocol.peers_file import fingerprint
from cn.run.executor import Executor
from cn.run.memory import Condition
from cn.run.snapshot import Snapshot
from cn.values.names import Branch, Name, Oid, topic_of
from cn.values.record_header import RecordRefused

UNTOLD = "untold"
"""The kind of condition that a creator does not know what became of its branch: the notice was refused."""


def tell_again(executor: Executor, seen: Observation) -> None:
    """Queue what was refused and can be signed otherwise here; the rest is shown until it is told, or over."""
    found = dict[str, Condition]()
    for peer in dict.fromkeys(peer for peer, _ in executor.snapshot.outbound()):
        ours = executor.open(peer, OUT)
        if peer not in executor.settings.peers:
            continue
        refused = [one for one in find_refused(ours) if _is_waited_for(seen, peer, one) or peer not in seen.saw[IN]]
        unheard = _read_unheard(executor, seen, peer, ours) if executor.hub.signs else []
        if refused or unheard:
            found |= _tell(executor, seen, peer, refused, unheard)
    executor.memory.conditions.tell(UNTOLD, found, executor.notes)


def _is_waited_for(seen: Observation, peer: Name, item: Item) -> bool:
    """Is it to be told still? A notice whose creator does not wait for it any more is taken back; a reply holds words
    of its own, whatever became of its question.
    """
    return not is_notice(item) or _is_there(seen, peer, item)


def _is_there(seen: Observation, peer: Name, item: Item) -> bool:
    """Does what it is about stand where its creator pushed it?"""
    _, tip = seen.listed[IN].get((peer, topic_of(Branch(item.get("about")))), (None, None))
    return tip == item.get("about_head")


def _read_unheard(executor: Executor, seen: Observation, peer: Name, ours: Sequence[Item]) -> list[Item]:
    """What tells that a branch was not let in, and did not come in itself: of a notice about its own notice a peer
    tells nothing, but its main says it. One look at each where that moved.
    """
    found = list[Item]()
    for item in ours:
        about = topic_of(Branch(item.get("about"))) if is_notice(item) else ""
        if not about or item.state != "delivered" or item.get("about_status") != "refused":
            continue
        if executor.item(peer, IN, about) is not None or peer not in seen.mains or not _is_there(seen, peer, item):
            continue
        looked = ("unheard", peer, item.topic, item.head, seen.mains[peer][1], own_key(executor.hub.config))
        if executor.memory.told_before(*looked):
            continue
        theirs = read_theirs(executor, seen, executor.settings.peers[peer], IN, item.topic, item.head)
        if theirs and all(event.fields.get("rule") == SIGNATURE_POLICY for event in theirs):
            found.append(item)
        elif seen.fetched_mains.get(peer):
            executor.memory.told(*looked)
    return found


def _tell(
    executor: Executor, seen: Observation, peer: Name, refused: Sequence[Item], unheard: Sequence[Item]
) -> dict[str, Condition]:
    ours = executor.open(peer, OUT)
    sent = read_sent(executor.snapshot, peer, [item for item in ours if is_answer(item)])
    signers = _read_signers(executor, sent.values())
    key = own_key(executor.hub.config) if executor.hub.signs else ""
    untold = dict[str, Condition]()
    for item in (*refused, *unheard, *signed_alike(refused, ours, signers)):
        heads = [one.head for one in same_words(item, ours)]
        told = _message_of(sent.get(item.head)) if executor.hub.signs and _is_waited_for(seen, peer, item) else None
        source = f"{peer}/{topic_of(Branch(item.get('about')))}"
        what = f"{peer} refused {item.get('branch')} for its signature"
        says = f"{item.get('about')} is {item.get('about_status')}"
        if told is not None and not is_signed_by_us(heads, signers, fingerprint(key) if key else ""):
            with executor.apart(source):
                executor.perform(plan_told_again(executor.settings.us, peer, item, told, executor.now))
                executor.notes.info(f"{what}: that {says} goes again, signed as this clone signs", source=source)
        elif item in refused and is_notice(item):  # status shows replies among what was refused
            text = f"{what}, so it does not know that {says}"
            remedy = "'cn sign KEY', with the key that it has pinned for us, and the next 'cn sync' tells it again; "
            remedy += "where ours is the right one, it comes in as soon as that is pinned there"
            untold[f"{source} {item.topic} {item.head}"] = Condition(text, remedy, source)
    return untold


def read_sent(snapshot: Snapshot, peer: Name, items: Sequence[Item]) -> dict[Oid, Deliver]:
    """What was delivered, by its head, as main keeps it: another clone may have made it."""
    found = dict[Oid, Deliver]()
    for item in items:
        name, _ = file_names(peer, item.topic, item.head, item.since)
        data = snapshot.read(f"{SENT}/{name}") or snapshot.read(f"{SENT}/{name[:4]}/{name}")
        try:
            entry = parse_entry(data or b"", snapshot.algorithm)
        except RecordRefused:
            continue
        if isinstance(entry, Deliver) and is_about(entry, peer, item.topic, item.head):
            found[item.head] = entry
    return found


def _message_of(entry: Deliver | None) -> Message | None:
    try:
        return parse_message(entry.content) if entry is not None else None
    except MessageRefused:
        return None


def _read_signers(executor: Executor, sent: Iterable[Deliver]) -> Mapping[Oid, str]:
    """Head → the fingerprint of the key that signed it; empty: it is not signed, or git names none."""
    git, entries = executor.hub.git, list(sent)
    write_messages(git, executor.snapshot.algorithm, entries)
    found = read_signatures(git, [entry.id for entry in entries], {})
    return {sign.commit: sign.fingerprint if sign.present else "" for sign in found}
