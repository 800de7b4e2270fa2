"""Which rights a host has to give, in the words of ``docs/hosts.md`` and the letters of gitolite.

A host says that one is missing and not which others will be; so whoever is told of the one hears of all.
"""

from __future__ import annotations

import re

from cn.values.text import visible

READ = "read (R) all of it"
"""What is fetched from, and not pushed to."""
_EVERY = "write, create, force, delete (W, C, +, D)"
PINS = f"{_EVERY} refs/cn/*"
"""What keeps reviewed commits alive at origin."""
_WORDS = {"R": "read (R)", "W": "write (W)", "C": "create (C)", "+": "force (+)", "D": "delete (D)"}
_GITOLITE = re.compile(r"FATAL: ([RWCD+]) (\S+) (?:\S+ ){0,2}DENIED\b")
"""The right, the ref (or "any"), the repository and the account."""
_DENIED = ("DENIED", "error: 403")
"""What gitolite and the hooks of ``docs/hosts.md`` say, and a web server."""


def of_hub(main: str) -> str:
    """What the account of a hub needs at its own origin."""
    return f"{READ}, write and create (W, C) refs/heads/{visible(main)}, and {PINS}"


def of_branches(prefix: str) -> str:
    """What the account of a hub needs where its branches ``prefix/*`` for a peer go."""
    return f"{READ}, and {_EVERY} refs/heads/{visible(prefix)}/*"


def never_began(reason: str) -> bool:
    """Did gitolite turn the account away before git was started, so that nothing was changed?"""
    found = _GITOLITE.search(reason)
    return found is not None and found[2] == "any"


def remedy_of_denied(reason: str, needed: str) -> str:
    """What helps where a host knows the account, and said no for this reason; empty: that is not what it said.

    ``needed`` are all rights that are needed there; empty: it is no hub, or nobody knows.
    """
    if not any(said in reason for said in _DENIED):
        return ""
    lacks = "no such right"
    if found := _GITOLITE.search(reason):
        right, ref = _WORDS[found[1]], "" if found[2] == "any" else f" {visible(found[2])}"
        lacks = f"no right to {right}{ref}"
    there = f"; needed there: {needed}" if needed else ""
    return f"the host knows who you are, and gives you {lacks}{there}; ask who keeps it to allow that"
