"""Which commits were made in this clone, by its reflogs (git-reflog(1)), or signed by a key that it lists.

git notes that a commit was made here, and not of what. What a person wrote is an act. What git made again (an amend, a
rebase), took back or picked may be what others changed: it counts where nothing that others changed in the same file,
and that is not accepted, was checked out here. Nor does a file count that is just as others made it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from cn.git.entries import Entry, read_tree
from cn.git.objects import is_ancestor
from cn.git.process import as_lines
from cn.git.repository import Hub
from cn.git.signatures import read_signatures
from cn.transaction.accepted_history import Changes, read_changes_of
from cn.values.names import Oid, is_oid

_BY_CN, _AGAIN = "cn", "again"
_MADE_HERE = re.compile(
    r"(?:(?P<cn>cn)|(?P<act>commit(?: \((?:merge|initial)\))?)|(?P<again>cherry-pick|revert|commit \(amend\)"
    r"|(?:rebase|pull)\b[^:]*\((?:pick|reword|edit|squash|fixup|continue)\))): (?!fast[- ]?forward\s*$)",
    re.IGNORECASE,
)
_NAMED = 500
"""Paths on one command line."""
_MOST = 2000
"""Of more commits by others nobody tells what they changed."""


class Made(NamedTuple):
    """The commits that the reflogs show as made here, and how: by ``cn``, ``again``, or by an ``act``."""

    how: Mapping[Oid, str]

    @classmethod
    def read(cls, hub: Hub) -> Made:
        """What the reflogs of HEAD and of main hold."""
        how: dict[Oid, str] = {}
        for ref in ("HEAD", hub.main_ref):
            done = hub.git.run("log", "-g", "-z", "--format=%H %gs", "--end-of-options", ref, "--", check=False)
            for oid, kind in parse_reflog(done.fields) if done.ok else ():
                how[oid] = kind if how.get(oid, _AGAIN) == _AGAIN else how[oid]
        return cls(how)

    @property
    def by_cn(self) -> frozenset[Oid]:
        """Those that runs made."""
        return frozenset(oid for oid, kind in self.how.items() if kind == _BY_CN)


def parse_reflog(fields: Iterable[str]) -> Iterator[tuple[Oid, str]]:
    """Of entries ``ID ACTION``, the ids that an act in this clone made, and how (:class:`Made`)."""
    for line in fields:
        oid, _, action = line.partition(" ")
        if is_oid(oid) and (found := _MADE_HERE.match(action)):
            yield Oid(oid), str(found.lastgroup)


def not_made_here(hub: Hub, made: Made, changes: Mapping[str, Changes], at: Oid, accepted: Oid | None) -> set[Oid]:
    """Those of the commits of these changes that were not made here. ``at`` is a commit whose history is looked at too,
    ``accepted`` what is as it shall be (None: nothing is).
    """
    commits = {commit for found in changes.values() for commit in found}
    elsewhere = commits - made.how.keys()
    doubtful = {commit for commit in commits - elsewhere if made.how[commit] != _BY_CN}
    if not doubtful:
        return elsewhere
    others = _of_others(hub, made, [p for p, found in changes.items() if not doubtful.isdisjoint(found)], at, accepted)
    if others is None:
        return elsewhere | doubtful
    for path, found in changes.items():
        theirs = others.get(path, {})
        for commit in doubtful.intersection(found) if theirs else ():
            news = {new for _, new in found[commit].values()}
            like = [other for other, new in theirs.items() if made.how[commit] == _AGAIN or new in news]
            if not all(is_ancestor(hub.git, commit, other) for other in like):  # what came later was no model of it
                elsewhere.add(commit)
    return elsewhere


def _of_others(
    hub: Hub, made: Made, paths: list[str], at: Oid, accepted: Oid | None
) -> dict[str, dict[Oid, Entry | None]] | None:
    """What commits of others made of these files that were checked out here once, or are in ``at``, and are not
    accepted: path → commit → entry. None: nobody can tell.
    """
    git = hub.git
    been = git.run("rev-list", "--walk-reflogs", "--ignore-missing", "--branches", "HEAD", "--", check=False)
    if not been.ok or len(paths) > _NAMED:
        return None
    asked = as_lines([*dict.fromkeys(been.lines), at, *([f"^{accepted}"] if accepted else [])])
    words = ("rev-list", "--full-history", "--ignore-missing", f"--max-count={_MOST + 1}", "--stdin", "--", *paths)
    listed = git.run(*words, stdin=asked, check=False)
    theirs = [Oid(line) for line in listed.lines if line not in made.how]
    if not listed.ok or len(listed.lines) > _MOST:
        return None
    theirs = sorted(set(theirs) - signed(hub, theirs))
    if not theirs:
        return {}
    rows = git.run("rev-list", "--no-walk", "--parents", "--stdin", stdin=as_lines(theirs)).lines
    parents = {Oid(commit): [Oid(one) for one in above] for commit, *above in (row.split(" ") for row in rows)}
    now = read_tree(git, accepted, paths) if accepted else {}
    found: dict[str, dict[Oid, Entry | None]] = {}
    for path, of in read_changes_of(git, parents).items():
        for commit, above in of.items() if path in paths else ():
            new = next(iter(above.values()))[1]
            # A merge that took a side made nothing, nor did who brought back what is accepted.
            if len(above) >= len(parents[commit]) and not (accepted and new == now.get(path)):
                found.setdefault(path, {})[commit] = new
    return found


def signed(hub: Hub, commits: Iterable[Oid]) -> set[Oid]:
    """Those signed by a key of ``cn.trustedKey`` in this clone's git config."""
    wanted = sorted(commits)
    texts = hub.config.all("cn.trustedkey")
    keys = {f"trusted{i}": key for i, text in enumerate(texts) if (key := _key(text))}
    if not wanted or not keys:
        return set()
    return {s.commit for s in read_signatures(hub.git, wanted, keys) if s.good}


def _key(text: str) -> str:
    """``TYPE BASE64`` of a public key line, without its comment."""
    words = text.split()
    plain = len(words) >= 2 and all(re.fullmatch(r"[A-Za-z0-9@.+/=-]+", w) for w in words[:2])
    return " ".join(words[:2]) if plain else ""
