"""What helps where something that we sent was refused at a peer, or where what the peer says of it is not proven."""

from __future__ import annotations

from collections.abc import Iterable

from cn.protocol.ledger import Item
from cn.protocol.sent_mend import mend_text
from cn.protocol.twins import is_refused_as_twin, twin_of
from cn.run.memory import NAMELESS
from cn.run.view import View
from cn.values.names import Name
from cn.values.shell_words import command


def mend_of(view: View, peer: Name, item: Item, outbound: Iterable[tuple[Name, Item]]) -> str:
    """The next step; ``outbound`` are all of ours. Empty: there is none."""
    known = view.settings.peers.get(peer)
    if item.get("unproven") and item.state == "answered" and known is not None:
        ends = f"{command('cn withdraw {}', f'{peer}:{item.topic}')} ends it here"
        if item.get("status") == "merged":  # a signature proves no merge that the peer's main does not show
            if view.memory.conditions.get(NAMELESS, peer) is not None:
                accept = command("cn peer accept {}", peer)
                return f"{accept} looks for {peer}'s main anew; where that holds the work already, {ends}"
            return f"it is looked at again when {peer}'s main moves; where that holds the work already, {ends}"
        later = "('cn sign KEY' there, for what it says from then on)"  # what was sent unsigned stays so
        if known.key:
            return f"only what {peer} signs with the key that is pinned here is proven {later}; {ends}"
        pins = command("cn peer key {} KEY", peer)
        return f"{pins} pins the key that {peer} signs with, which proves what it signed {later}; {ends}"
    twin = ""
    if is_refused_as_twin(item):
        twin = twin_of(item.topic, item.head, (other for name, other in outbound if name == peer))
    return mend_text(item, peer, twin)
