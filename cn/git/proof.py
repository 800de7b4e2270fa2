"""Does a host have what it lists? A commit that is here already is not asked for, so whoever knows its id can list it.

What is taken from a host is made of objects that came from it, or that it is known to have (:mod:`cn.git.told`). Where
others are here already the host sends them once more, into a repository that borrows nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cn.git.process import Git, Job
from cn.git.remote import FETCH, WIDTH, for_filter, is_of_host, make_empty, why_not
from cn.git.told import Told
from cn.values.names import Oid
from cn.values.text import one_line

_COMMITS = "--filter=tree:0"
"""A host that knows no filters sends the files too."""
LACKS = "its host lists it, and does not have what it stands on"


class Claim(NamedTuple):
    """What a fetch by these ``specs`` brought into the repository at ``place``, of the ``tips`` that ``url`` lists."""

    place: Path
    url: str
    specs: Sequence[str]
    tips: Sequence[Oid]
    told: Told


def why_unproven(git: Git, claims: Sequence[Claim], seconds: float) -> list[str]:
    """Why what was brought is not to be taken in, for each; empty: it is. All are asked at once.

    What the hub has before any of it is taken in is no proof, also where it comes again: git completes a pack that
    builds on objects that are here with these objects (git-index-pack(1), ``--fix-thin``).
    """
    whys = [""] * len(claims)
    doubts: dict[int, list[Oid]] = {}
    jobs: list[Job] = []
    for number, claim in enumerate(claims):
        known = git.run("for-each-ref", "--format=^%(objectname)", *claim.told.refs).lines if claim.told.refs else []
        asked = git.with_env(GIT_OBJECT_DIRECTORY=claim.place / "objects")
        lines = _lines([*claim.tips, *known])
        done = asked.run("rev-list", "--objects", "--ignore-missing", "--stdin", stdin=lines, check=False)
        if not done.ok:
            whys[number] = done.reason
            continue
        objects = [line.partition(" ")[0] for line in done.lines]
        if strange := [Oid(one) for one, there in zip(objects, _are_there(git, objects), strict=True) if there]:
            doubts[number] = strange
            commits = [line for line in done.lines if " " not in line]  # all others have a path, empty at the top
            filters = (_COMMITS,) if {*strange} <= {*commits} else ()
            jobs.append(_ask_again(git, str(number), claim, (f"--depth={len(commits)}", *filters), seconds))
    for job, sent in zip(jobs, git.run_many(jobs, width=WIDTH) if jobs else (), strict=True):
        claim, strange = claims[int(job.key)], doubts[int(job.key)]
        if sent.timed_out or (not sent.ok and is_of_host(sent.reason)):
            whys[int(job.key)] = why_not(git, claim.url, sent, seconds)
            continue
        alone = git.with_env(GIT_OBJECT_DIRECTORY=_again(claim) / "objects", GIT_ALTERNATE_OBJECT_DIRECTORIES="")
        lacking = [one for one, there in zip(strange, _are_there(alone, strange), strict=True) if not there]
        whys[int(job.key)] = f"{LACKS}: {_named(git, lacking[0])}" if lacking else ""
    return whys


def _again(claim: Claim) -> Path:
    return claim.place / "again"


def _ask_again(git: Git, key: str, claim: Claim, options: Sequence[str], seconds: float) -> Job:
    place = _again(claim)
    make_empty(git, place)
    words = (*FETCH, *options, "--", for_filter(claim.url))
    env = {"GIT_OBJECT_DIRECTORY": str(place / "objects"), "GIT_ALTERNATE_OBJECT_DIRECTORIES": ""}
    return Job(key, words, _lines(claim.specs), seconds, env=env, git_dir=place)


def _are_there(git: Git, objects: Sequence[str]) -> list[bool]:
    if not objects:
        return []
    rows = git.run("cat-file", "--batch-check=%(objectname)", stdin=_lines(objects)).lines
    return [row == one for one, row in zip(objects, rows, strict=True)]


def _named(git: Git, commit: Oid) -> str:
    """A commit, with a ref of this clone that has it."""
    words = ("for-each-ref", f"--contains={commit}", "--count=1", "--format=%(refname)")
    refs = git.run(*words, "refs/heads", "refs/stash", "refs/tags", check=False).lines
    return f"{commit[:8]}, which this clone has" + (f" ({one_line(refs[0], 100)})" if refs else "")


def _lines(words: Sequence[str]) -> bytes:
    return b"".join(f"{word}\n".encode("utf-8", "surrogateescape") for word in words)
