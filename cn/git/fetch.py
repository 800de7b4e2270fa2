"""Fetch from remotes. Each hears of no commit but those that it may hear of (:mod:`cn.git.told`).

So a fetch works in an empty repository beside the hub, whose objects it borrows: of the hub's refs git sees there what
it is to name. What it brings is taken in once it is known to have come from there (:mod:`cn.git.proof`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from cn.git.damage import refuse_damage
from cn.git.process import TIMED_OUT, Git, Job, as_lines
from cn.git.proof import WHATEVER_IS_HERE, Claim, why_unproven
from cn.git.remote import (
    FETCH,
    HEADS,
    WIDTH,
    common_dir,
    make_empty,
    move_into_hub,
    quarantine,
    quarantine_environment,
    why_not_taken,
)
from cn.git.told import NOTHING, SETTINGS, Told
from cn.values.names import Oid

BORROWING = {"fetch.unpackLimit": "1", "fetch.negotiationAlgorithm": "skipping", **SETTINGS}
"""Settings of a fetch. Whatever comes is one pack, so that taking it in is moving a few files. Where a host says that
it has a commit of which it was not told, this algorithm ends; another one looks here, and goes on by what it found.
"""
_BY_NAME = 500
"""More branches than this are fetched by their tips."""
_WRITES = re.compile(r"^[+^]|[:*\x00-\x20]")
_NONE: Mapping[str, Told] = MappingProxyType({})


def fetch_tips(
    git: Git,
    wanted: Mapping[str, tuple[str, Sequence[tuple[str, Oid]]]],
    seconds: float,
    on_done: Callable[[str], None] | None = None,
    told: Mapping[str, Told] = _NONE,
) -> dict[str, str]:
    """Bring the objects of (url, branches with their tips) per key; no ref is written. Key → reason of failure.

    A remote hears of what is ``told`` by its key. git looks for each name among all names of the remote: 10,000 of
    10,000 took 50 s, by tip 0.7. So many are asked for by tip. A remote that does not give them so, or moved one
    meanwhile, is asked by name.
    """
    many = {key: (url, [tip for _, tip in pairs]) for key, (url, pairs) in wanted.items() if len(pairs) > _BY_NAME}
    tips = {key: [tip for _, tip in pairs] for key, (_, pairs) in wanted.items()}
    failed = _fetch(git, many, tips, seconds, on_done, told)
    again = {
        key: (url, [HEADS + branch for branch, _ in pairs])
        for key, (url, pairs) in wanted.items()
        if key not in many or (key in failed and failed[key] != TIMED_OUT)
    }
    hung = {key: why for key, why in failed.items() if why == TIMED_OUT}
    return hung | _fetch(git, again, tips, seconds, on_done, told)


def fetch_commits(git: Git, url: str, commits: Sequence[Oid], seconds: float, told: Told) -> str:
    """Bring commits by their ids, with all that they need; why it failed, or nothing. No ref is written."""
    return _fetch(git, {"": (url, commits)}, {"": commits}, seconds, None, {"": told}).get("", "")


def _fetch(
    git: Git,
    wanted: Mapping[str, tuple[str, Sequence[str]]],
    tips: Mapping[str, Sequence[Oid]],
    seconds: float,
    on_done: Callable[[str], None] | None,
    told: Mapping[str, Told],
    *,
    once: bool = False,
) -> dict[str, str]:
    """Key → reason of failure. One that somebody killed said nothing of its remote: it is tried once more."""
    # A colon would make git write a ref of ours.
    assert not any(_WRITES.search(spec) for _, specs in wanted.values() for spec in specs)
    asked = [(key, url, specs) for key, (url, specs) in wanted.items() if specs]
    if not asked:
        return {}
    with quarantine(git) as folder:
        places = [folder / str(number) for number in range(len(asked))]
        for place in places:
            make_empty(git, place)
        jobs = []
        for place, (key, url, specs) in zip(places, asked, strict=True):
            may_hear = told.get(key, NOTHING)
            words = (*FETCH, *(() if may_hear.ours else (WHATEVER_IS_HERE,)), "--", url)
            env = quarantine_environment(git, place / "objects", may_hear)
            jobs.append(Job(key, words, as_lines(specs), seconds, env=env, git_dir=place))
        tell = (lambda job, _: on_done(job.key)) if on_done else None
        answers = git.with_settings(BORROWING).run_many(jobs, width=WIDTH, on_done=tell)
        refuse_damage(git, common_dir(git), *(done for done in answers if not done.ok))
        whys = [why_not_taken(place / "objects", done) for place, done in zip(places, answers, strict=True)]
        for number, (place, (key, _, _)) in enumerate(zip(places, asked, strict=True)):
            may_hear = told.get(key, NOTHING)
            if not whys[number] and not may_hear.ours:
                whys[number] = why_unproven(git, Claim(place / "objects", tips[key], may_hear))
        for number, done in enumerate(answers):
            whys[number] = whys[number] or move_into_hub(git, places[number] / "objects", done)
    failed = {job.key: why for job, why in zip(jobs, whys, strict=True) if why}
    killed = {job.key: wanted[job.key] for job, done in zip(jobs, answers, strict=True) if done.killed}
    if once or not killed:
        return failed
    others = {key: why for key, why in failed.items() if key not in killed}
    return others | _fetch(git, killed, tips, seconds, None, told, once=True)
