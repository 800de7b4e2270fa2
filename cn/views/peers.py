"""The peers: route, pinned key, and whether they answered."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from cn.protocol.peers_file import Peer
from cn.run.settings import MAILBOX_KEY
from cn.run.view import View
from cn.values.timestamps import stamp_or_none


class Unreachable(NamedTuple):
    """A peer, or the mailbox, that did not answer, as this clone remembers it."""

    name: str
    reason: str
    since: datetime | None
    next: datetime | None
    attempts: int


class PeerView(NamedTuple):
    """A peer with the fingerprint of its pinned key (empty: none) and what is known of its reachability."""

    peer: Peer
    fingerprint: str
    unreachable: Unreachable | None


def list_peers(view: View) -> list[PeerView]:
    """The peers of main's ``state/peers.md``."""
    failing, peers = unreachable(view), view.settings.peers.values()
    return [PeerView(peer, fingerprint(peer.key) if peer.key else "", failing.get(peer.name)) for peer in peers]


def fingerprint(key: str) -> str:
    """``SHA256:…`` of an SSH public key, as ssh-keygen(1) ``-l`` shows it."""
    import base64
    import binascii
    import hashlib

    try:
        data = base64.b64decode(key.split()[1], validate=True)
    except (IndexError, binascii.Error):
        return "(unreadable)"
    return "SHA256:" + base64.b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def unreachable(view: View) -> dict[str, Unreachable]:
    """Failing peers and mailbox by key; peers that were removed are left out."""
    known = {*view.settings.peers, MAILBOX_KEY}
    return {
        key: Unreachable(
            name=f"the mailbox ({view.settings.mailbox})" if key == MAILBOX_KEY else key,
            reason=str(entry.get("reason", "")),
            since=stamp_or_none(entry.get("since")),
            next=stamp_or_none(entry.get("next")),
            attempts=count if isinstance(count := entry.get("count", 0), int) else 0,
        )
        for key, entry in sorted(view.memory.unreachable.entries.items())
        if key in known
    }
