"""What a remote may hear of: a fetch names commits that are here, so that they are not sent once more
(gitprotocol-v2(5), "have").

Whoever hears of a commit can list it as a branch of its own, and a git that has it asks for nothing (git-fetch(1),
"SECURITY"). So a remote hears of those alone that it has, or that are published.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from cn.values.names import Name


class Told(NamedTuple):
    """The refs whose commits a remote may hear of: these, and all below them. Is it ``ours``, so that what it lists is
    there?
    """

    refs: tuple[str, ...] = ()
    ours: bool = False


NOTHING = Told()
ORIGIN = Told(("refs/cn/origin", "refs/cn/pins", "refs/cn/keep", "refs/remotes/origin"), ours=True)
"""Main of this clone is none of them: what was not pushed yet is no business of its host either."""
OWN_CLONE = Told(("refs",), ours=True)
"""A clone of the same person, on the same machine."""


MAINS = "refs/cn/mains/"
"""Below it a ref for each peer: its main, as it came last."""


def mains_ref(peer: Name) -> str:
    """The ref of a peer's main."""
    return f"{MAINS}{peer}"


def mailbox_ref(mailbox: str) -> str:
    """The ref of the main that was published at a mailbox that is a remote of its own."""
    return f"refs/cn/mailbox/{mailbox}"


def of_peers(published: str, peers: Iterable[Name]) -> Told:
    """What a host of these peers may hear of; ``published`` is the ref of what all peers may read."""
    refs = [ref for peer in sorted(set(peers)) for ref in (f"refs/cn/pins/{peer}", mains_ref(peer))]
    return Told((published, *refs))


_NAMES, _HUB = "CN_TOLD", "CN_TOLD_HUB"
_LISTS = 'git --git-dir="$1" for-each-ref --format="%(objectname)"'
SETTINGS = {"core.alternateRefsCommand": f'[ "$1" != "${_HUB}" ] || {_LISTS} ${{{_NAMES}:-refs/cn/none}} #'}
"""By what a fetch that borrows the hub's objects asks what of them it may name (git-config(1)). No ref's name holds
what a shell would take apart (git-check-ref-format(1)). Where the hub borrows from another repository itself, that is
another's to tell of.
"""


def environment(told: Told, hub: Path) -> dict[str, str]:
    """What goes with these :data:`SETTINGS`; ``hub`` is the git directory whose refs they are."""
    return {_NAMES: " ".join(told.refs), _HUB: os.path.realpath(hub)}
