"""Whether the beginning of an id says which commit somebody means.

Eight digits are no name: who makes commits finds in a minute two that begin so, and may show the one and push the
other.
"""

from __future__ import annotations

from cn.protocol.ledger import IN
from cn.run.snapshot import Snapshot
from cn.values.names import Name, Oid, is_oid, short_ids


def others_like(snapshot: Snapshot, peer: Name, topic: str, head: Oid, said: str) -> list[str]:
    """What else begins as ``said`` does, which begins as ``head``: heads that the branch had, objects of this clone.

    Each in as many digits as tell it from ``head``; nothing where ``said`` is the whole id.
    """
    if is_oid(said):
        return []
    had = {event.head for event in snapshot.events_of_topic(peer, IN, topic)}
    here = snapshot.git.run("rev-parse", f"--disambiguate={said}", check=False).lines
    others = sorted(one for one in {*had, *here} - {head} if one.startswith(said))
    return short_ids([head, *others])[1:]
