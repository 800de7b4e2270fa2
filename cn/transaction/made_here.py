"""Which commits were made in this clone, by its reflogs (git-reflog(1)), or signed by a key that it lists.

git notes that a commit was made here, and not of what: a rebase, an amend or a revert may bring in what others changed.
So what git made again counts where it is known of what: an amend where the commit that was amended counts, by the
reflog; a revert that takes back a commit which counts; what a rebase picked where it makes the very change of a commit
that counts and is not in this history any more, each such commit once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from cn.git.entries import Entry
from cn.git.process import GitError, as_lines
from cn.git.repository import Hub
from cn.git.signatures import read_signatures
from cn.transaction.accepted_history import Changes, Pair, Parents, read_changes_of, read_parents
from cn.values.names import Oid, is_oid

_CN, _ACT, _AMEND, _PICK, _REVERT = "cn", "act", "amend", "pick", "revert"
_MADE_HERE = re.compile(
    rf"(?:(?P<{_CN}>cn)|(?P<{_ACT}>commit(?: \((?:merge|initial)\))?|cherry-pick)|(?P<{_AMEND}>commit \(amend\))"
    rf"|(?P<{_REVERT}>revert)|(?P<{_PICK}>(?:rebase|pull)\b[^:]*\((?:pick|reword|edit|squash|fixup|continue)\)))"
    r": (?!fast[- ]?forward\s*$)",
    re.IGNORECASE,
)
_REBASE = re.compile(r"(?:rebase|pull)\b[^:]*\((?P<at>start|finish|abort)\): |checkout: moving ", re.IGNORECASE)
_TAKEN_BACK = re.compile(r"^This reverts commit ([0-9a-f]{40,64})\b", re.MULTILINE)
"""What git-revert(1) writes below the subject; also where a person ends one that stopped at a conflict."""
_MOST = 20_000
"""Newest commits that are looked for."""
_PATHS = 500
"""Paths on one command line."""
_TRIED = 20
"""Commits of which it is tried whether git made this one of theirs upon another file."""


class MadeHere(NamedTuple):
    """A commit that an act in this clone made: how, and which was checked out before it (None: nobody knows)."""

    how: str
    before: Oid | None


class Made(NamedTuple):
    """The commits that the reflogs show as made here, the oldest first."""

    how: Mapping[Oid, MadeHere]

    @classmethod
    def read(cls, hub: Hub) -> Made:
        """What the reflogs of HEAD and of main hold."""
        found: dict[Oid, MadeHere] = {}
        for ref in ("HEAD", hub.main_ref):
            done = hub.git.run("log", "-g", "-z", "--format=%H %gs", "--end-of-options", ref, "--", check=False)
            for oid, made in parse_reflog(done.fields[::-1]) if done.ok else ():
                if oid not in found or found[oid].how not in (_CN, _ACT):
                    found[oid] = made
        return cls(found)

    @property
    def by_cn(self) -> frozenset[Oid]:
        """Those that runs made."""
        return frozenset(oid for oid, made in self.how.items() if made.how == _CN)


def parse_reflog(fields: Iterable[str]) -> Iterator[tuple[Oid, MadeHere]]:
    """Of entries ``ID ACTION``, the oldest first, the ids that an act in this clone made, and how.

    What is committed while a rebase has stopped, git had prepared.
    """
    before: Oid | None = None
    rebasing = False
    for line in fields:
        oid, _, action = line.partition(" ")
        if not is_oid(oid):
            continue
        if at := _REBASE.match(action):
            rebasing = at["at"] == "start"
        if found := _MADE_HERE.match(action):
            how = str(found.lastgroup)
            yield Oid(oid), MadeHere(_PICK if rebasing and how == _ACT else how, before)
        before = Oid(oid)


class Again(NamedTuple):
    """Of the commits made here: those that git made again of others', or nobody knows of what, which are ``uncounted``;
    and those that it made again, the ``remade`` ones: what they changed is still there.
    """

    uncounted: frozenset[Oid] = frozenset()
    remade: frozenset[Oid] = frozenset()


def judge_again(hub: Hub, made: Made, at: Oid, paths: Collection[str], asked: Iterable[Oid]) -> Again:
    """Those of the commits ``asked``, which change some of these paths in the history of ``at``."""
    wanted = [commit for commit in asked if commit in made.how]
    said = _messages(hub, [commit for commit in wanted if made.how[commit].how == _ACT])
    doubtful = [c for c in wanted if made.how[c].how not in (_CN, _ACT) or _TAKEN_BACK.search(said.get(c, ""))]
    if not doubtful:
        return Again()
    own = list(made.how)[-_MOST:]
    try:
        been = hub.git.run("rev-list", "--walk-reflogs", "--ignore-missing", "HEAD", hub.main_ref, "--").lines
        tips = as_lines([*dict.fromkeys([*own, *been]), f"^{at}"])
        gone = hub.git.run("rev-list", f"--max-count={_MOST}", "--ignore-missing", "--stdin", stdin=tips).lines
        listed = as_lines(dict.fromkeys([*own, *gone]))
        parents = read_parents(hub.git, "--no-walk", "--ignore-missing", "--stdin", stdin=listed)
        found = read_changes_of(hub.git, parents, paths if len(paths) <= _PATHS else ())
        changes = {path: found.get(path, {}) for path in paths}
        told = {c for path in changes.values() for c in path if c in made.how and made.how[c].how in (_ACT, _REVERT)}
        judge = _Judge(hub, made, parents, changes, {Oid(line) for line in gone}, _messages(hub, told))
        # One that is below what was accepted has its model, too.
        uncounted = {c for c in own if c in parents and c not in judge.gone and not judge.counts(c)}
    except GitError:  # objects are missing, and nobody can tell
        return Again(frozenset(doubtful))
    return Again(frozenset(uncounted.intersection(wanted)), frozenset(judge.remade))


class _Judge:
    """``changes``: what the commits made here changed in each path that is asked for; ``gone``: those that are in the
    judged history no more.
    """

    def __init__(
        self,
        hub: Hub,
        made: Made,
        parents: Parents,
        changes: Mapping[str, Changes],
        gone: Collection[Oid],
        messages: Mapping[Oid, str],
    ) -> None:
        self._hub, self._made, self._parents, self._changes, self.gone = hub, made, parents, changes, gone
        self._messages = messages
        theirs = {c for path in changes.values() for c in path if c in gone and c not in made.how}
        self._known = dict.fromkeys(theirs, False) | dict.fromkeys(signed(hub, theirs), True)
        self._used: set[tuple[str, Oid]] = set()
        self.remade: set[Oid] = set()

    def counts(self, commit: Oid) -> bool:
        """Does it count, of whatever git made it?"""
        if commit not in self._known:
            self._known[commit] = False  # nothing is made of itself
            self._known[commit] = self._find(commit)
        return self._known[commit]

    def _find(self, commit: Oid) -> bool:
        made = self._made.how.get(commit)
        if made is None:
            return commit in signed(self._hub, [commit])
        if made.how == _AMEND:
            return made.before is not None and self.counts(made.before) and self._use(made.before)
        if made.how in (_ACT, _REVERT) and (back := self._taken_back(commit)):
            return self.counts(back) and self._is_change(commit, [back], reverse=True)
        if made.how == _PICK:
            return self._is_change(commit, None, reverse=False)
        return made.how != _REVERT

    def _taken_back(self, commit: Oid) -> Oid | None:
        found = _TAKEN_BACK.search(self._messages.get(commit, ""))
        return Oid(found[1]) if found else None

    def _use(self, commit: Oid) -> bool:
        self._used |= {(path, commit) for path in self._changes}
        self.remade.add(commit)
        return True

    def _is_change(self, commit: Oid, of: Collection[Oid] | None, *, reverse: bool) -> bool:
        """Does it change each path as one of these does; None: of those that count and are gone, each once?"""
        models = set[Oid]()
        for path, found in self._changes.items():
            if commit not in found:
                continue
            pair = self._pair(found, commit)
            asked = [o for o in found if o in self.gone and (path, o) not in self._used] if of is None else of
            model = next(self._same(found, pair, asked, reverse=reverse), None) if pair else None
            if model is None:
                return False
            if of is None:
                self._used.add((path, model))
                models.add(model)
        self.remade |= models
        return True

    def _pair(self, found: Changes, commit: Oid) -> Pair | None:
        """What a commit with one parent changes."""
        above = found.get(commit, {})
        return next(iter(above.values())) if len(self._parents.get(commit, ())) <= 1 and len(above) == 1 else None

    def _same(self, found: Changes, pair: Pair, asked: Iterable[Oid], *, reverse: bool) -> Iterator[Oid]:
        pairs = {model: known for model in asked if (known := self._pair(found, model))}
        if reverse:
            pairs = {model: (new, old) for model, (old, new) in pairs.items()}
        for model, known in pairs.items():
            if known == pair and self._is_model(model):
                yield model
        for model, known in list(pairs.items())[:_TRIED]:
            if self._is_model(model) and _is_upon(self._hub, known, pair):
                yield model

    def _is_model(self, commit: Oid) -> bool:
        """Was it made by somebody, and not by a rebase, whose own model is there too?"""
        made = self._made.how.get(commit)
        return (made is None or made.how != _PICK) and self.counts(commit)


def _is_upon(hub: Hub, change: Pair, pair: Pair) -> bool:
    """Is ``pair`` what git makes of this change in another version of the file (git-merge-file(1))?"""
    blobs = (pair[0], change[0], change[1], pair[1])
    if not all(blobs) or len({entry.mode for entry in blobs if entry}) != 1 or _is_link(blobs[0]):
        return False
    with TemporaryDirectory(prefix="cn-") as folder:
        names = [Path(folder, name) for name in ("ours", "before", "theirs")]
        for name, entry in zip(names, blobs, strict=False):
            if entry:
                name.write_bytes(hub.git.run("cat-file", "blob", entry.oid).out)
        merged = hub.git.run("merge-file", "-p", "--quiet", *map(str, names), check=False)
    if not merged.ok or not pair[1]:
        return False
    return hub.git.run("hash-object", "--stdin", stdin=merged.out).text == pair[1].oid


def _is_link(entry: Entry | None) -> bool:
    return entry is not None and not entry.mode.startswith("100")


def _messages(hub: Hub, commits: Iterable[Oid]) -> dict[Oid, str]:
    if not (asked := as_lines(commits)):
        return {}
    fields = hub.git.run("log", "--no-walk", "-z", "--format=%H %B", "--stdin", stdin=asked).fields
    return {Oid(oid): message for oid, _, message in (field.partition(" ") for field in fields)}


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
