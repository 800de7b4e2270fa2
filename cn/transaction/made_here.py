"""Which commits were made in this clone, by its reflogs (git-reflog(1)), or signed by a key that it lists.

git notes that a commit was made here, and not of what: a rebase, a cherry-pick or a revert may bring in what others
changed.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from cn.git.objects import read_raw
from cn.git.repository import RESCUE, Hub
from cn.git.signatures import read_signatures
from cn.values.names import Oid, is_oid

CN, ACT, AGAIN, _AMEND = "cn", "act", "again", "amend"
"""How a commit was made here: by a run, by a person's ``git commit``, or by git, of what other commits hold."""
_MADE_HERE = re.compile(
    rf"(?:(?P<{CN}>cn)|(?P<{ACT}>commit(?: \((?:merge|initial)\))?)|(?P<{_AMEND}>commit \(amend\))"
    rf"|(?P<{AGAIN}>commit \((?:cherry-pick|rebase)\)|cherry-pick|revert))"
    r": (?!fast[- ]?forward\s*$)",
    re.IGNORECASE,
)
_REBASE = re.compile(r"(?:rebase[^:(]*|pull .*?)\((?P<step>[a-z-]+)\): ", re.IGNORECASE)
"""Of a rebase the first word in brackets is git's; a later one may stand in the subject of a commit."""
_PICKS = ("pick", "reword", "edit", "squash", "fixup", "continue")
_ENDS = ("finish", "abort")
_MOVES = "checkout: moving "
_WHO = (b"author ", b"committer ")
KNOWN = ("--exclude=refs/cn/*", "--all", "--glob=refs/cn/origin/*", f"--glob={RESCUE}*", "--reflog", "--ignore-missing")
"""Words of git-rev-list(1): what this clone has of its own hub. What a peer sent, and nobody merged, comes into no
history but by its name.
"""

DOUBT = "refs/cn/doubt/"
"""Below it the commits made here that a run asked for: they stay in doubt, though what shows why may be gone."""

Made = Mapping[Oid, str]
"""The commits that the reflogs show as made here, and how."""


def read_made(hub: Hub) -> Made:
    """What the reflogs of HEAD and of main hold."""
    found: dict[Oid, str] = {}
    doubted = frozenset(hub.git.run("for-each-ref", "--format=%(objectname)", DOUBT).lines)
    for ref in ("HEAD", hub.main_ref):
        done = hub.git.run("log", "-g", "-z", "--format=%H %gs", "--end-of-options", ref, "--", check=False)
        for oid, how in parse_reflog(done.fields[::-1], doubted) if done.ok else ():
            if found.get(oid, AGAIN) == AGAIN:
                found[oid] = how
    return found


def parse_reflog(fields: Iterable[str], doubted: Container[str] = ()) -> Iterator[tuple[Oid, str]]:
    """Of entries ``ID ACTION``, the oldest first, the ids of what was made here, and how.

    An amend is made as what it amends was. What is committed or amended while a rebase has stopped, git had prepared.
    What is ``doubted`` is taken for what git made of other commits.
    """
    known: dict[str, str] = {}
    before, rebasing = "", False
    for line in fields:
        oid, _, action = line.partition(" ")
        if not is_oid(oid):
            continue
        step = rebase["step"].lower() if (rebase := _REBASE.match(action)) else ""
        if step == "start":
            rebasing = True
        elif step in _ENDS or (action.startswith(_MOVES) and oid != before):
            rebasing = False
        how = ""
        if step in _PICKS:
            rebasing, how = True, AGAIN  # git forgets old entries, as of its start
        elif not step and (made := _MADE_HERE.match(action)):
            how = str(made.lastgroup)
            if how == _AMEND:
                how = ACT if known.get(before) in (CN, ACT) else AGAIN
            how = AGAIN if rebasing and how == ACT else how
        if how:
            how = AGAIN if oid in doubted else how
            known.setdefault(oid, how)
            yield Oid(oid), how
        before = oid


def signed(hub: Hub, commits: Iterable[Oid], by: Sequence[str] | None = None) -> set[Oid]:
    """Those signed by a key of ``cn.trustedKey`` in this clone's git config, or of these (public key lines), and made
    in one go: what git makes again (git-rebase(1), ``git commit --amend``) it signs, whosever it was, with another date
    than its author's.
    """
    wanted = sorted(commits)
    texts = hub.config.all("cn.trustedkey") if by is None else by
    keys = {f"trusted{i}": key for i, text in enumerate(texts) if (key := _key(text))}
    if not wanted or not keys:
        return set()
    good = [s.commit for s in read_signatures(hub.git, wanted, keys) if s.good]
    return {c for c, one in zip(good, read_raw(hub.git, good), strict=True) if one and _is_made_in_one_go(one.data)}


def _is_made_in_one_go(commit: bytes) -> bool:
    lines = commit.partition(b"\n\n")[0].split(b"\n")
    who = {role: [line.removeprefix(role) for line in lines if line.startswith(role)] for role in _WHO}
    return who[b"author "] == who[b"committer "]


def _key(text: str) -> str:
    """``TYPE BASE64`` of a public key line, without its comment."""
    words = text.split()
    plain = len(words) >= 2 and all(re.fullmatch(r"[A-Za-z0-9@.+/=-]+", w) for w in words[:2])
    return " ".join(words[:2]) if plain else ""
