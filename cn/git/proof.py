"""Does a host have what it lists? Whoever knows the id of a commit can list it, and build upon what he cannot read.

What is taken from a host is made of objects that came from it, or that it is known to have (:mod:`cn.git.told`): none
of its commits stands on others, and none of its deltas is upon others. Whatever this clone has besides, a fetch asks
for the same; so a host cannot learn of it by what it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cn.git.process import Git, as_lines
from cn.git.received import read_received
from cn.git.told import Told
from cn.values.names import Oid
from cn.values.text import one_line

WHATEVER_IS_HERE = f"--depth={2**31 - 1}"
"""A fetch without it asks for nothing where its tips are here with all that they need: this is a history without an
end, and a fetch with a depth always asks (git-fetch(1), ``--unshallow``).
"""
LACKS = "its host lists it, and does not have what it stands on"


class Claim(NamedTuple):
    """What a fetch brought into this folder of ``objects``, of the ``tips`` that a host lists."""

    objects: Path
    tips: Sequence[Oid]
    told: Told


def why_unproven(git: Git, claim: Claim) -> str:
    """Why what was brought is not to be taken in; empty: it is.

    An object that a delta is upon is no proof, though it be in the pack: git puts it there. Hosts send no such delta
    upon what they send, but by its place in the pack (gitformat-pack(5), "OBJ_OFS_DELTA").
    """
    borrowing = git.with_env(GIT_OBJECT_DIRECTORY=claim.objects)
    known = git.run("for-each-ref", "--format=%(objectname)", *claim.told.refs).lines if claim.told.refs else []
    asked = as_lines([*claim.tips, *(f"^{one}" for one in known)])
    done = borrowing.run("rev-list", "--objects", "--boundary", "--ignore-missing", "--stdin", stdin=asked, check=False)
    if not done.ok:
        return done.reason
    needed = [line.partition(" ")[0] for line in done.lines]
    received = read_received(git, claim.objects)
    strange = dict.fromkeys(_are_here(git, sorted(received.bases)))
    strange |= dict.fromkeys(one for one in needed if one[0] != _BOUNDARY and one not in received.objects)
    boundary = [one[1:] for one in needed if one[0] == _BOUNDARY]
    for words, commits in ((("--no-walk",), boundary), ((), known)):  # the first is nearly always enough
        if strange and commits:
            has = git.run("rev-list", "--objects", *words, "--stdin", stdin=as_lines(commits), check=False)
            strange = _without(strange, (line.partition(" ")[0] for line in has.lines))
    return f"{LACKS}: {_named(git, next(iter(strange)))}" if strange else ""


_BOUNDARY = "-"


def _without(some: Mapping[str, None], others: Iterable[str]) -> dict[str, None]:
    gone = frozenset(others)
    return {one: None for one in some if one not in gone}


def _are_here(git: Git, objects: Sequence[str]) -> list[str]:
    if not objects:
        return []
    rows = git.run("cat-file", "--batch-check=%(objectname)", stdin=as_lines(objects)).lines
    return [one for one, row in zip(objects, rows, strict=True) if row == one]


def _named(git: Git, object_id: str) -> str:
    """An object, with a ref of this clone that has it if it is a commit."""
    words = ("for-each-ref", f"--contains={object_id}", "--count=1", "--format=%(refname)")
    refs = git.run(*words, "refs/heads", "refs/stash", "refs/tags", check=False).lines
    return f"{object_id[:8]}, which this clone has" + (f" ({one_line(refs[0], 100)})" if refs else "")
