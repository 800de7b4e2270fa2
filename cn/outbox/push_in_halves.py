"""What a host refuses together is pushed again in halves, so that one bad message keeps no other back.

A hook of the host's (githooks(5), "pre-receive") and a limit of bytes judge a push as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cn.git.remote import REFUSED, Push, RefResult, Result, is_refused_by_host

Pushes = Mapping[str, tuple[str, Sequence[Push]]]
"""Per key the URL of a remote and what is pushed there together."""
Results = dict[str, dict[str, RefResult]]
"""Key → branch → outcome."""


def push_in_halves(push: Callable[[Pushes], Results], wanted: Pushes) -> Results:
    """Push all of each remote together, then what it refused together in halves, down to one by one.

    A branch of which nobody knows whether it was taken can go again: it may not be there yet.
    """
    results: Results = {}
    groups = dict(wanted)
    while groups:
        halves: dict[str, tuple[str, Sequence[Push]]] = {}
        for key, told in push(groups).items():
            url, refs = groups[key]
            results.setdefault(url, {}).update(told)
            if len(refs) > 1 and _is_refused_as_a_whole(told):
                middle = len(refs) // 2
                for half in (refs[:middle], refs[middle:]):
                    halves[f"{url} {len(halves)}"] = (url, half)
        groups = halves
    return results


def _is_refused_as_a_whole(told: Mapping[str, RefResult]) -> bool:
    """Was nothing of it taken, by a host that answered? What git itself does not send is no answer of the host's."""
    said = [one for one in told.values() if one.result is not Result.REJECTED or REFUSED in one.reason]
    return bool(said) and all(is_refused_by_host(one.reason) for one in said)
