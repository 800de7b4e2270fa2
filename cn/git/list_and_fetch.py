"""List a remote by fetching from it: a fetch lists too, and what is new comes by the same connection.

git names what it lists only by the refs that it writes (git-fetch(1), "refspec": a pattern needs a destination). So it
works in an empty repository beside the hub, as every fetch does, and the refs there are the list.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cn.git.fetch import BORROWING
from cn.git.process import Git, Job, as_lines
from cn.git.remote import (
    FETCH,
    HEADS,
    WIDTH,
    Listing,
    list_remotes,
    listing_jobs,
    make_outgoing,
    move_into_hub,
    quarantine,
    quarantine_environment,
    read_listings,
)
from cn.git.told import ORIGIN, SETTINGS
from cn.system.removal import remove_tree
from cn.values.names import Oid

_NAME = "listed"
_SECONDS = 20.0
"""How long such a fetch may take: more than that, it is by one branch or another, and each is fetched for itself."""
_NEWS = "cn: something is new there"
_BESIDE = {"core.fsync": "objects", **{key: f"echo '{_NEWS}' >&2; {command}" for key, command in SETTINGS.items()}}
"""The refs are read at once, and then removed (git-config(1)). git asks what else it may name once the host has listed
what is not here, long before that has come.
"""


class Fetched(NamedTuple):
    """What is fetched: of the remote with this ``key``, which is origin, a ``branch``, and all below these
    ``prefixes``, at most so many bytes (``most``).
    """

    key: str
    branch: str
    prefixes: Sequence[str]
    most: int

    def of(self, listing: Listing) -> Listing:
        """What a listing has of it."""
        return listing.below({self.branch}, self.prefixes)


def list_and_fetch(
    git: Git, urls: Mapping[str, str], seconds: float, what: Fetched, on_news: Callable[[], None] | None = None
) -> dict[str, Listing | str]:
    """As :func:`list_remotes`, all at once, and one of them by a fetch: its listing is of these branches alone.

    Where the fetch fails, by whatever one branch has, that remote is listed whole, as the others are. ``on_news`` is
    called once something is known to be new there, and has yet to come; nothing else is heard until it returns.
    """
    waits = [on_news] if on_news is not None else []

    def hear(said: bytes) -> None:
        if waits and _NEWS.encode() in said:
            waits.pop()()

    url = urls[what.key]
    others = {key: one for key, one in urls.items() if key != what.key}
    jobs = listing_jobs(git, others, seconds)
    folder = make_outgoing(git, _NAME)
    try:
        with quarantine(git) as incoming:
            place = incoming / "0"
            env = quarantine_environment(git, place, ORIGIN)
            limit = min(seconds, _SECONDS)
            fetch = Job(what.key, (*FETCH, "--", url), _refspecs(what), limit, env=env, git_dir=folder, on_said=hear)
            limited = git.with_settings({**BORROWING, **_BESIDE})._replace(max_bytes=what.most)
            done, *answers = limited.run_many([fetch, *jobs], width=WIDTH)
            came = not move_into_hub(git, place, done)
        brought = _read(folder / HEADS, what) if came else Listing()
    finally:
        remove_tree(folder)
        for left in (folder.parent, incoming.parent):  # a sync that finds a new name there is an ordinary one
            with suppress(OSError):
                left.rmdir()
    told = read_listings(git, others, seconds, jobs, answers)
    if brought and not git.is_foreign(brought.values()):
        return {**told, what.key: brought}
    listing = list_remotes(git, {what.key: url}, seconds, parts={what.key: [what.branch, *what.prefixes]})[what.key]
    if isinstance(listing, Listing):
        listing.not_fetched = True
    return {**told, what.key: listing}


def _refspecs(what: Fetched) -> bytes:
    refs = [HEADS + what.branch, *(f"{HEADS}{prefix}/*" for prefix in what.prefixes)]
    return as_lines(f"+{ref}:{ref}" for ref in refs)


def _read(folder: Path, what: Fetched) -> Listing:
    """The refs that git wrote, one file each (gitrepository-layout(5))."""
    found = Listing()
    for here, _, names in os.walk(folder):
        for name in names:
            path = Path(here, name)
            found[os.fspath(path.relative_to(folder))] = Oid(path.read_text("ascii").strip())
    found.whole, found.fetched = False, frozenset(what.prefixes)
    return found
