"""What is open tells by which route, and under which name of this hub, it was made: there it goes on to its end.

A route or a name that changed in the configuration means other places and other prefixes. By these alone the branches
of one side would be read as the other's, and what lies where it always lay as gone. All that is new goes by what is
written: were it held up by what is open, a route that does not work any more could never be left, and two hubs, of
which one knows already that something is over, would wait for each other.
"""

from __future__ import annotations

from typing import NamedTuple

from cn.protocol.layout import PROPOSAL
from cn.protocol.ledger import IN, Item, Open
from cn.protocol.peers_file import MAILBOX, PICKUP, Peer
from cn.run.settings import Settings
from cn.run.snapshot import Snapshot
from cn.values.names import Name


class Link(NamedTuple):
    """What is open with a peer: ``held`` are the branches, with their side, whose route is not the one in ``peers.md``,
    ``former`` the names that this hub had where it made, or was sent, what is open.
    """

    held: frozenset[tuple[str, str]] = frozenset()
    former: frozenset[Name] = frozenset()


def read_link(us: Name, peer: Peer, items: Open) -> Link:
    """The link to a peer by what is open.

    What is only queued is bound to no route: it goes by the new one, since the old one may be what did not work.
    """
    held, former = set[tuple[str, str]](), set[Name]()
    for item in items.values():
        prefix, slash, _ = item.get("branch").partition("/")
        if not slash or not _is_there(item):
            continue
        if (MAILBOX if (prefix == peer.name) == (item.side == IN) else PICKUP) != peer.deliver:
            held.add((item.side, item.get("branch")))
        if prefix not in (us, peer.name):
            former.add(Name(prefix))
    return Link(frozenset(held), frozenset(former))


def _is_there(item: Item) -> bool:
    """Does its branch lie somewhere, as far as we know? A proposal that waits may have moved, from where it lies."""
    if item.side == IN:
        return bool(item.get("thread") and not item.get("gone"))
    return item.state != "queued" or item.get("kind") in ("", PROPOSAL)


def by_links(settings: Settings, snapshot: Snapshot) -> Settings:
    """The settings by which a run works: those of the files, and of what is open the route and the names it has."""
    links = {n: read_link(settings.us, p, snapshot.open_items.get(n, {})) for n, p in settings.peers.items()}
    held = {name: link.held for name, link in links.items() if link.held}
    former = {name: link.former for name, link in links.items() if link.former}
    if not held and not former:
        return settings
    return settings._replace(held=held, former=former, files=None)  # it is not what the files say
