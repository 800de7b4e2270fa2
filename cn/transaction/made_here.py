"""Which commits were made in this clone, by its reflogs (git-reflog(1)), or signed by a key that it lists.

git notes that a commit was made here, and not of what: a revert, a rebase or an amend may bring in what others changed,
and so may what a person commits after a conflict. So it counts where no change of others in the same file, that does
not count, was there before.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from cn.git.process import as_lines
from cn.git.repository import Hub
from cn.git.signatures import read_signatures
from cn.transaction.accepted_history import AcceptedHistory, Changes, Parents, read_changes_of
from cn.values.names import Oid, is_oid

_BY_CN, _AGAIN = "cn", "again"
_MADE_HERE = re.compile(
    r"(?:(?P<cn>cn)|(?P<act>commit(?: \((?:merge|initial)\))?)|(?P<again>cherry-pick|revert|commit \(amend\)"
    r"|(?:rebase|pull)\b[^:]*\((?:pick|reword|edit|squash|fixup|continue)\))): (?!fast[- ]?forward\s*$)",
    re.IGNORECASE,
)
_MOST = 20_000
"""Of more commits nobody tells what they made of a file."""


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
                if how.get(oid, _AGAIN) == _AGAIN:
                    how[oid] = kind
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


def misled(
    hub: Hub, made: Made, start: Oid, at: Oid, changes: Mapping[str, Changes], counted: Collection[Oid]
) -> set[Oid]:
    """Those of the commits of these changes of ``start..at`` that were made here, and not by cn, where a change of
    others in that file, that does not count, was before: of what git made again in all that main was, of what a person
    committed below it, or the same beside it.

    ``counted`` are commits that count besides those that were made here or are signed.
    """
    doubtful = {c for found in changes.values() for c in found if made.how.get(c, _BY_CN) != _BY_CN}
    if not doubtful:
        return set()
    been = hub.git.run("rev-list", "--walk-reflogs", "--ignore-missing", hub.main_ref, "--", check=False)
    tips = as_lines([at, *dict.fromkeys(been.lines), f"^{start}"])
    words = ("rev-list", "--topo-order", "--reverse", "--parents", "--ignore-missing", f"--max-count={_MOST + 1}")
    listed = hub.git.run(*words, "--stdin", stdin=tips, check=False)
    rows = [[Oid(word) for word in line.split(" ")] for line in listed.lines]
    if not (been.ok and listed.ok) or len(rows) > _MOST:
        return doubtful  # nobody can tell
    parents = {commit: above for commit, *above in rows}
    paths = {path: found for path, found in changes.items() if not doubtful.isdisjoint(found)}
    of = {path: found for path, found in read_changes_of(hub.git, parents).items() if path in paths}
    theirs = {c for found in of.values() for c in found if c not in made.how and c not in counted}
    theirs -= signed(hub, theirs)
    history = AcceptedHistory(hub.git, start, parents, theirs, made.by_cn)
    found, here = set[Oid](), _earlier(at, parents)
    for path, own in paths.items():
        states = history.follow(path, of.get(path, {}))
        bad = frozenset[Oid]().union(*(state.by for state in states.states.values()))
        # What counts, and is not in this history, git may have made again for it: each once.
        left = Counter(states.entry(c) for c in of.get(path, {}) if c not in here | theirs and not _is_again(made, c))
        for commit in [c for c in parents if c in doubtful and c in own] if bad else ():
            if any(states.states[one].by for one in parents[commit] if one in states.states):
                continue  # what it stands on is told
            entry = states.entry(commit)
            if _is_again(made, commit) and left[entry]:
                left[entry] -= 1
                continue
            before = set(bad - _later(commit, parents))  # what came later was no model of it
            if not _is_again(made, commit):  # a person may take a file from a line beside
                earlier = _earlier(commit, parents)
                before = {one for one in before if one in earlier or states.entry(one) == entry}
            if before:
                found.add(commit)
    return found


def _is_again(made: Made, commit: Oid) -> bool:
    return made.how.get(commit) == _AGAIN


def _earlier(commit: Oid, parents: Parents) -> set[Oid]:
    """A commit and those on which it stands."""
    found, left = set[Oid](), [commit]
    while left:
        one = left.pop()
        if one in parents and one not in found:
            found.add(one)
            left += parents[one]
    return found


def _later(commit: Oid, parents: Parents) -> set[Oid]:
    """A commit and those that stand on it; parents come first."""
    found = {commit}
    for one, above in parents.items():
        if not found.isdisjoint(above):
            found.add(one)
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
