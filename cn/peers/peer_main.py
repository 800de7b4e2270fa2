"""Which branch is a peer's main? What HEAD of its repository names, where the hub file there says that this is its
main; else ``main``, ``master``, or what HEAD names (a host may make a HEAD that names nothing, or something else).

Its name is learnt once for each URL and stands: whoever may push a branch there makes no other main of it. Only that
main itself says that another branch is main now, once that one is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from cn.git.far_file import read_far
from cn.git.process import Git
from cn.git.remote import Listing, ask_heads
from cn.protocol.hub_config import PATH, main_named_in
from cn.run.memory import Memory
from cn.run.run import Run
from cn.values.names import Oid, is_branch

GUESSES = ("main", "master")
NO_MAIN = "it has no main branch"
_NAMED, _NEXT = "named", "next main"


class Found(NamedTuple):
    """The branch that is main there, with its tip. ``sure``: it stays so; else it is a guess that may change."""

    main: tuple[str, Oid] | None
    sure: bool


def named_main(memory: Memory, url: str) -> str:
    """The name of the main at a URL, as it was learnt; empty: it was not yet."""
    name = str(memory.section(_NAMED).get(url, ""))
    return name if is_branch(name) else ""


def note_name(memory: Memory, url: str, name: str) -> None:
    """From now on this is the main there; empty: it is learnt anew."""
    memory.section(_NAMED).pop(url, None)
    if name:
        memory.section(_NAMED)[url] = name


def note_read(memory: Memory, url: str, name: str, data: bytes) -> None:
    """``data`` is the hub file of the main of this name there."""
    section, says = memory.section(_NEXT), main_named_in(data)
    section.pop(url, None)
    if says != name and is_branch(says) and named_main(memory, url) == name:
        section[url] = says


def _follow(memory: Memory, listings: Mapping[str, Listing]) -> None:
    for url, name in [(url, str(name)) for url, name in memory.section(_NEXT).items() if url in listings]:
        if name in listings[url] and is_branch(name):
            note_name(memory, url, name)
            memory.section(_NEXT).pop(url)


def main_parts(memory: Memory, url: str) -> tuple[str, ...]:
    """The branches that are looked for, of a listing that is too long."""
    name, following = named_main(memory, url), str(memory.section(_NEXT).get(url, ""))
    return tuple(filter(is_branch, (name, following))) if name else GUESSES


def mains_in(run: Run, listings: Mapping[str, Listing], *, anew: bool = False) -> dict[str, tuple[str, Oid] | str]:
    """The mains at these URLs by what is listed there, or why nobody knows.

    Where no name is known yet, or it is learnt ``anew``, the host is asked.
    """
    _follow(run.memory, listings)
    known = {} if anew else {url: name for url in listings if (name := named_main(run.memory, url))}
    new = {url: listing for url, listing in listings.items() if listing and url not in known}
    mains: dict[str, tuple[str, Oid] | str] = dict.fromkeys(listings, NO_MAIN)
    mains |= {url: (name, listings[url][name]) for url, name in known.items() if name in listings[url]}
    for url, found in learn_mains(run.hub.git, new, run.settings.config.limits.peer_seconds).items():
        mains[url] = found if isinstance(found, str) else found.main or NO_MAIN
        if isinstance(found, Found) and found.main is not None and found.sure:
            note_name(run.memory, url, found.main[0])
    return mains


def learn_mains(git: Git, listings: Mapping[str, Listing], seconds: float) -> dict[str, Found | str]:
    """What the mains at these URLs are, or why a host gave no answer: what may be wrong then is not guessed."""
    heads = ask_heads(git, list(listings), seconds)
    told: dict[str, Found | str] = {}
    unclear: dict[str, tuple[str, Oid]] = {}
    guesses = {url: _guess(listing) for url, listing in listings.items()}
    for url, head in heads.items():
        guess = guesses[url]
        if isinstance(head, str):
            told[url] = head
        elif head is None:
            told[url] = Found(guess, guess is not None)
        elif guess is not None and guess[0] == head[0]:
            told[url] = Found(guess, sure=True)
        else:
            unclear[url] = head
    said = _say_main(git, unclear, seconds)
    left = {url: guess for url in unclear if said[url] is False and (guess := guesses[url]) is not None}
    besides = _say_main(git, left, seconds)
    for url, head in unclear.items():
        by_head, by_name = said[url], besides.get(url, False)
        if isinstance(by_head, str):
            told[url] = by_head
        else:
            told[url] = Found(head, sure=True) if by_head else Found(guesses[url] or head, by_name is True)
    return told


def _guess(listing: Listing) -> tuple[str, Oid] | None:
    return next(((name, listing[name]) for name in GUESSES if name in listing), None)


def _say_main(git: Git, branches: Mapping[str, tuple[str, Oid]], seconds: float) -> dict[str, bool | str]:
    """Is the hub file of these branches, by URL, that of a hub whose main they are? Or why there was no answer."""
    if not branches:
        return {}
    files = read_far(git, {url: (url, branch) for url, (branch, _) in branches.items()}, PATH, seconds)
    return {
        url: text if isinstance(text, str) else bool(text) and main_named_in(text) == branches[url][0]
        for url, text in files.items()
    }
