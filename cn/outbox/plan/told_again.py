"""Which of our answers were refused for their signature, and telling once more what they say."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from cn.outbox.plan.receipts import notice_topic
from cn.protocol.effects import Plan, Post, Record
from cn.protocol.layout import COMMENTED, FINAL, NOTICE, REPLIED, SIGNATURE_POLICY
from cn.protocol.ledger import AGAIN, OUT, Event, Item
from cn.protocol.message import Message
from cn.values.names import Branch, Name, Oid, topic_of
from cn.values.timestamps import format_second


def find_refused(items: Iterable[Item]) -> list[Item]:
    """The answers of ours at a peer that it refused for their signature, and that nothing took the place of since:
    neither the same, told again, nor another word about that head. ``items`` are all of ours there.

    What only claims to be that peer's says nothing: whoever can write there would have what we said go twice.
    """
    ours = list(items)
    refused = [item for item in ours if is_answer(item) and item.state == "answered" and not item.get(AGAIN)]
    refused = [item for item in refused if item.get("status") == "refused" and not item.get("unproven")]
    refused = [item for item in refused if item.get("reason").startswith(f"{SIGNATURE_POLICY}:")]
    return [item for item in refused if not any(_is_behind(one, item) for one in ours)]


def is_notice(item: Item) -> bool:
    """Does a branch of ours tell its creator what became of one of the peer's?"""
    return item.get("kind") == NOTICE and bool(item.get("about"))


def is_answer(item: Item) -> bool:
    """Does it say what became of a branch of the peer's, be it by words?"""
    return is_notice(item) or (bool(item.get("about")) and item.get("about_status") == REPLIED)


def same_words(item: Item, items: Iterable[Item]) -> list[Item]:
    """All of ours, this one too, that tell the same of that head."""
    return [one for one in items if is_answer(one) and _tells(one) == _tells(item)]


def _tells(item: Item) -> tuple[str, str, str]:
    return item.get("about"), item.get("about_head"), item.get("about_status")


def _is_behind(one: Item, item: Item) -> bool:
    """Does ``one`` say later what became of the same head? An end is behind all else, whatever the clocks say."""
    if one.topic == item.topic or _tells(one)[:2] != _tells(item)[:2] or one.get("about_status") == COMMENTED:
        return False
    return _place(one) > _place(item)


def _place(item: Item) -> tuple[bool, datetime]:
    return item.get("about_status") in FINAL, item.since


def signed_alike(refused: Iterable[Item], items: Iterable[Item], signers: Mapping[Oid, str]) -> list[Item]:
    """The ends that were told of without an answer so far, and are signed as one that was refused: they are refused
    too, and a peer does not tell that of each of a flood. ``signers``: head → the fingerprint of its signature (empty:
    it has none).
    """
    how = {signers[item.head] for item in refused if item.head in signers}
    found = [item for item in items if is_notice(item) and item.state == "delivered"]
    return [item for item in found if item.get("about_status") in FINAL and signers.get(item.head) in how]


def plan_told_again(us: Name, peer: Name, item: Item, told: Message, at: datetime) -> Plan:
    """What an answer ``told`` goes once more, signed as it is here now, under a name of its own.

    The first one stays where it is until what it is about is gone: where its key is accepted after all, it comes in.
    """
    topic = topic_of(Branch(item.get("about")))
    source = f"{peer}/{topic}"
    wish = notice_topic(topic) if is_notice(item) else item.topic
    again = Record(peer, Event(at, OUT, "answered", item.topic, item.head, {AGAIN: format_second(at)}))
    return Plan(source, (again, Post(told._replace(sender=us), wish, item.get("thread"), source)))


def is_signed_by_us(heads: Collection[Oid], signers: Mapping[Oid, str], ours: str) -> bool:
    """Is one of these signed with the key of the fingerprint ``ours``? Not known (empty): of any."""
    return any(signers.get(head, "") == ours if ours else bool(signers.get(head)) for head in heads)
