"""Two branches of one creator at one commit (``docs/protocol/branches.md``): they give one thread, and its name is the
creator's to choose.
"""

from __future__ import annotations

from collections.abc import Iterable

from cn.protocol.layout import FINAL, SEEN_BEFORE
from cn.protocol.ledger import Item
from cn.values.shell_words import command

THERE = ("delivered", "adopted", "answered")
"""The states of a branch of ours that lies at its peer."""


def rename_to(first: str, other: str, peer: str = "") -> str:
    """What its creator does to have the thread of the branch ``first`` go on as ``other``, which is there too.

    ``peer``: where both are, as the creator's own cn takes one back there, and tells how the other is taken away where
    somebody else pushed that; without it git does, and the creator knows the URL.
    """
    goes_on = f"deletes {first}, and its thread goes on as {other}, if nothing else refuses that"
    if not peer:
        return f"{command('git push {} :{}', 'URL', f'refs/heads/{first}')}, with the URL where it lies, {goes_on}"
    take, away = (command("cn withdraw {}", f"{peer}:{branch.partition('/')[2]}") for branch in (first, other))
    return f"if somebody here renamed it, {take} {goes_on}; if not, {away} deletes {other}, and {first} stays"


def is_refused_as_twin(item: Item) -> bool:
    """Was a branch of ours refused at a peer because its commit was there before?"""
    return item.get("status") == "refused" and item.get("reason").startswith(f"{SEEN_BEFORE}:")


def twin_of(topic: str, head: str, items: Iterable[Item]) -> str:
    """The branch of ours at the same peer whose thread this commit has already; empty: there is none that waits.

    ``items`` are ours at that peer.
    """
    there = (one for one in items if one.topic != topic and one.head == head and one.state in THERE)
    waits = (one for one in there if one.get("status") not in FINAL and not is_refused_as_twin(one))
    return next((one.get("branch") for one in waits), "")
