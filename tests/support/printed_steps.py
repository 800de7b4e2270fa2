"""What cn prints for people to type, looked at in every output of every test."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

_STEP = re.compile(r"'git (?:-C \S+ )?([a-z-]+\b[^']*)'")
_WITH_REMOTE = ("push", "fetch", "pull")
_WHOLE = re.compile(r"(?:refs/\S+|[0-9a-f]{40,64}~0|HEAD|FETCH_HEAD|[A-Z]+|\s*)$")
"""A ref by its whole name, a commit that can be none, or a word that stands for one."""
_SHORT_ID = re.compile(r"(?=.*[0-9])[0-9a-f]{7,39}$")


def short_refs(text: str) -> Iterator[str]:
    """The steps of git in which a ref of a remote stands by its short name, or a commit by a part of its id.

    A tag, or a branch called ``refs/heads/main``, of whoever may push there is taken for it (gitrevisions(7),
    "SPECIFYING REVISIONS"; git-push(1), "<refspec>").
    """
    for found in _STEP.finditer(" ".join(text.split())):
        try:
            words = shlex.split(found[1])
        except ValueError:
            continue
        if any(map(_SHORT_ID.match, words)):
            yield found[0]
        first_of_all = words[1:2] == ["-u"]  # of a new hub, to a repository without a ref
        if words[0] not in _WITH_REMOTE or first_of_all:
            continue
        _, *specs = [word for word in words[1:] if not word.startswith("-")] or [""]
        leases = [word.partition("=")[2].rpartition(":")[0] for word in words if word.startswith("--force-with-lease=")]
        sides = [side for spec in specs for side in spec.removeprefix("+").split(":")]
        if not all(map(_WHOLE.match, [*sides, *leases])):
            yield found[0]
