"""What helps where something that we sent was refused at a peer."""

from __future__ import annotations

from collections.abc import Iterable

from cn.protocol.ledger import Item
from cn.protocol.sent_mend import mend_text
from cn.protocol.twins import is_refused_as_twin, twin_of
from cn.run.view import View
from cn.values.names import Name


def mend_of(view: View, peer: Name, item: Item, outbound: Iterable[tuple[Name, Item]]) -> str:
    """The next step with the URL where it lies; ``outbound`` are all of ours. Empty: there is none."""
    known = view.settings.peers.get(peer)
    place = view.settings.delivery_url(view.hub, known) if known is not None else "URL"
    twin = ""
    if is_refused_as_twin(item):
        twin = twin_of(item.topic, item.head, (other for name, other in outbound if name == peer))
    return mend_text(item, peer, place, twin)
