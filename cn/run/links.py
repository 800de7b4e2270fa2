"""What is open tells by which route, and under which name of this hub, it was made: there it goes on to its end.

A route or a name that changed in the configuration means other places and other prefixes. By these alone the branches
of one side would be read as the other's, and what lies where it always lay as gone.
"""

from __future__ import annotations

from typing import NamedTuple

from cn.protocol.ledger import IN, Item, Open
from cn.protocol.peers_file import MAILBOX, PICKUP, Peer
from cn.run.settings import Settings
from cn.run.snapshot import Snapshot
from cn.values.names import Name


class Link(NamedTuple):
    """The route in use with a peer; ``held`` are the branches for which it is not the one in ``peers.md``, ``former``
    the names that this hub had where it made, or was sent, what is open.
    """

    deliver: str
    held: tuple[str, ...] = ()
    former: frozenset[Name] = frozenset()


def read_link(us: Name, peer: Peer, items: Open) -> Link:
    """The link to a peer by what is open: another route than the one in ``peers.md`` where all of it was made by that.

    What is only queued holds no route: it goes by the new one, since the old one may be what did not work.
    """
    made: dict[str, list[str]] = {MAILBOX: [], PICKUP: []}
    former = set[Name]()
    for item in items.values():
        prefix, slash, _ = item.get("branch").partition("/")
        if not slash or not _is_there(item):
            continue
        made[MAILBOX if (prefix == peer.name) == (item.side == IN) else PICKUP].append(item.get("branch"))
        if prefix not in (us, peer.name):
            former.add(Name(prefix))
    other = PICKUP if peer.deliver == MAILBOX else MAILBOX
    if made[other] and not made[peer.deliver]:
        return Link(other, tuple(sorted(made[other])), frozenset(former))
    return Link(peer.deliver, (), frozenset(former))


def _is_there(item: Item) -> bool:
    """Does its branch lie somewhere, as far as we know?"""
    return bool(item.get("thread") and not item.get("gone")) if item.side == IN else item.state != "queued"


def by_links(settings: Settings, snapshot: Snapshot) -> Settings:
    """The settings by which a run works: those of the files, and of what is open the route and the names it has."""
    links = {n: read_link(settings.us, p, snapshot.open_items.get(n, {})) for n, p in settings.peers.items()}
    held = {name: link.held for name, link in links.items() if link.held}
    former = {name: link.former for name, link in links.items() if link.former}
    if not held and not former:
        return settings
    peers = {name: peer._replace(deliver=links[name].deliver) for name, peer in settings.peers.items()}
    return settings._replace(peers=peers, held=held, former=former, files=None)  # it is not what the files say
