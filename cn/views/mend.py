"""What helps where something that we sent was refused at a peer, or where what the peer says of it is not proven."""

from __future__ import annotations

from collections.abc import Iterable

from cn.protocol.ledger import Item
from cn.protocol.sent_mend import mend_text
from cn.protocol.twins import is_refused_as_twin, twin_of
from cn.run.view import View
from cn.values.names import Name
from cn.values.shell_words import command


def mend_of(view: View, peer: Name, item: Item, outbound: Iterable[tuple[Name, Item]]) -> str:
    """The next step; ``outbound`` are all of ours. Empty: there is none."""
    known = view.settings.peers.get(peer)
    if item.get("unproven") and item.get("status") != "merged" and known is not None and not known.key:
        pins, ends = command("cn peer key {} KEY", peer), command("cn withdraw {}", f"{peer}:{item.topic}")
        return f"{pins} pins the key that {peer} signs with, which proves what it says; {ends} ends it here"
    twin = ""
    if is_refused_as_twin(item):
        twin = twin_of(item.topic, item.head, (other for name, other in outbound if name == peer))
    return mend_text(item, peer, twin)
