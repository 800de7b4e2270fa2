"""What could not be fetched together is tried again apart: by peer, then by branch, over all remotes at once.

One bad branch keeps no other out. A host that lists, and then says nothing, or has no answer for any of them, is left
after a few branches: what it does is none of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from cn.git.process import TIMED_OUT
from cn.git.remote import WIDTH, is_of_host
from cn.values.names import Branch, Oid, ThreadKey

Pair = tuple[Branch, Oid, ThreadKey, str]
"""A branch, the tip that was listed, whose it is, and the side."""
Wanted = Mapping[str, tuple[str, Sequence[Pair]]]
"""Per key the URL of a remote, and branches to fetch there with the tips that were listed."""
Fetch = Callable[[Wanted], dict[str, str]]
"""Fetches, and says why for each key for which it failed."""

_ALONE = 48
"""How many branches of a peer are fetched one by one in a run."""
_WAVE = 4
"""How many of them at once: where all of these hang, the others would."""
_SLOW = 2
"""How many rounds may take all the time: a run has an end."""


class Failed(NamedTuple):
    """What could not be fetched: ``branches`` with the reason, and whose branches are not sent at all.

    ``silent`` are pairs of remote and peer, ``hung`` the branches that were tried there. ``untried`` are those for
    which there was no time or room: of these nothing is known.
    """

    branches: list[tuple[Pair, str]]
    silent: dict[tuple[str, str], str]
    hung: list[Pair]
    untried: list[Pair]


def fetch_apart(fetch: Fetch, wanted: Wanted, failed: Mapping[str, str]) -> Failed:
    """Try again what ``failed``, remote → reason, of what was wanted; of each peer's the first ones first."""
    parts: dict[tuple[str, str], tuple[str, list[Pair]]] = {}
    for remote in failed:
        url, pairs = wanted[remote]
        for pair in pairs:
            parts.setdefault((remote, pair[2][0]), (url, []))[1].append(pair)
    whys = _by_peer(fetch, parts, failed)
    found = Failed([], {}, [], [])
    left: dict[tuple[str, str], list[Pair]] = {}
    for part, why in whys.items():
        pairs = parts[part][1]
        theirs = [whys.get(other) for other in parts if other[0] == part[0]]
        if all(one and is_of_host(one) for one in theirs) and (len(theirs) > 1 or len(pairs) == 1):
            found.silent[part] = why
        elif len(pairs) == 1:
            found.branches.append((pairs[0], why))
        else:
            left[part] = list(pairs[:_ALONE])
            found.untried.extend(pairs[_ALONE:])
    _by_branch(fetch, {part: parts[part][0] for part in left}, left, found)
    return found


def _by_peer(
    fetch: Fetch, parts: Mapping[tuple[str, str], tuple[str, Sequence[Pair]]], failed: Mapping[str, str]
) -> dict[tuple[str, str], str]:
    """Why each part fails alone; where a remote has branches of one peer only, that is known."""
    shared = {part for part in parts if any(part[0] == other[0] and part != other for other in parts)}
    keys = {"\t".join(part): part for part in shared}
    again = fetch({key: parts[part] for key, part in keys.items()}) if keys else {}
    alone = {part: failed[part[0]] for part in parts if part not in shared}
    return alone | {keys[key]: why for key, why in again.items()}


def _by_branch(
    fetch: Fetch, urls: Mapping[tuple[str, str], str], left: dict[tuple[str, str], list[Pair]], found: Failed
) -> None:
    """One by one, a few of each part at once, until all are tried or it took too long. Adds to ``found``."""
    slow, first = 0, set(left)
    while left and slow < _SLOW:
        size = max(1, min(_WAVE, WIDTH // len(left)))
        wave = {part: [pairs.pop(0) for _ in range(min(size, len(pairs)))] for part, pairs in left.items()}
        keys = {
            f"{number}\t{part[0]}\t{part[1]}": (part, pair) for part in wave for number, pair in enumerate(wave[part])
        }
        whys = fetch({key: (urls[part], [pair]) for key, (part, pair) in keys.items()})
        slow += TIMED_OUT in whys.values()
        for part, pairs in wave.items():
            told = [(pair, whys[key]) for key, (_, pair) in keys.items() if key in whys and pair in pairs]
            if part in first and len(told) == len(pairs) and all(is_of_host(why) for _, why in told):
                found.silent[part] = told[0][1]
                found.hung.extend(pair for pair, why in told if why == TIMED_OUT)
                left[part] = []
            else:
                found.branches.extend(told)
        first = set()
        left = {part: pairs for part, pairs in left.items() if pairs}
    found.untried.extend(pair for pairs in left.values() for pair in pairs)
