"""Which commits were made in this clone, by its reflogs (git-reflog(1)), or signed by a key that it lists.

git notes that a commit was made here, and not of what: a rebase, an amend or a revert may bring in what others changed.
So what git made again counts where it is known of what: an amend where the commit that was amended counts, by the
reflog; a revert that takes back a commit which counts; what a rebase picked where it makes the very change of a commit
of the same author and date, which counts, in what was checked out before that rebase.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from cn.git.entries import Entry
from cn.git.process import GitError, as_lines
from cn.git.repository import ORIGIN_REF, RESCUE, Hub
from cn.git.signatures import read_signatures
from cn.transaction.accepted_history import Pair, read_changes_of, read_parents
from cn.values.names import Oid, is_oid

_CN, _ACT, _NAMED, _AMEND, _PICK, _REVERT = "cn", "act", "named", "amend", "pick", "revert"
_ACTS = (_ACT, _NAMED)
_MADE_HERE = re.compile(
    rf"(?:(?P<{_CN}>cn)|(?P<{_ACT}>commit(?: \((?:merge|initial)\))?)|(?P<{_REVERT}>revert)"
    rf"|(?P<{_NAMED}>commit \(cherry-pick\)|cherry-pick)"
    rf"|(?P<{_AMEND}>commit \(amend\))|(?P<{_PICK}>commit \(rebase\)))"
    r": (?!fast[- ]?forward\s*$)",
    re.IGNORECASE,
)
_REBASE = re.compile(r"(?:rebase[^:(]*|pull .*?)\((?P<step>[a-z-]+)\): ", re.IGNORECASE)
"""Of a rebase the first word in brackets is git's; a later one may stand in the subject of a commit."""
_PICKS = ("pick", "reword", "edit", "squash", "fixup", "continue")
_ENDS = ("finish", "abort")
_MOVES = "checkout: moving "
_TAKEN_BACK = re.compile(r"^This reverts commit ([0-9a-f]{40,64})\b", re.MULTILINE)
"""What git-revert(1) writes below the subject; also where a person ends one that stopped at a conflict."""
_MOST = 20_000
"""Commits before a rebase that are looked for."""
_TRIED = 50
"""Commits of one author and date of which it is tried whether git made this one of theirs upon another file."""


class MadeHere(NamedTuple):
    """A commit that an act in this clone made: how, and which was checked out before it, or before the rebase that made
    it (None: nobody knows).
    """

    how: str
    before: Oid | None


class Made(NamedTuple):
    """The commits that the reflogs show as made here."""

    how: Mapping[Oid, MadeHere]

    @classmethod
    def read(cls, hub: Hub) -> Made:
        """What the reflogs of HEAD and of main hold."""
        found: dict[Oid, MadeHere] = {}
        for ref in ("HEAD", hub.main_ref):
            done = hub.git.run("log", "-g", "-z", "--format=%H %gs", "--end-of-options", ref, "--", check=False)
            for oid, made in parse_reflog(done.fields[::-1]) if done.ok else ():
                if oid not in found or found[oid].how not in (_CN, *_ACTS):
                    found[oid] = made
        return cls(found)

    @property
    def by_cn(self) -> frozenset[Oid]:
        """Those that runs made."""
        return frozenset(oid for oid, made in self.how.items() if made.how == _CN)

    @property
    def picked_by_name(self) -> frozenset[Oid]:
        """Those that ``git cherry-pick`` made of a commit that somebody named."""
        return frozenset(oid for oid, made in self.how.items() if made.how == _NAMED)

    def amended(self, commit: Oid) -> list[Oid]:
        """A commit, and those of which it was amended, one of the other."""
        found = [commit]
        while (made := self.how.get(found[-1])) and made.how == _AMEND and made.before and made.before not in found:
            found.append(made.before)
        return found


def parse_reflog(fields: Iterable[str]) -> Iterator[tuple[Oid, MadeHere]]:
    """Of entries ``ID ACTION``, the oldest first, the ids that an act in this clone made, and how.

    What is committed or amended while a rebase has stopped, git had prepared.
    """
    before: Oid | None = None
    rebased: Oid | None = None
    rebasing = False
    for line in fields:
        oid, _, action = line.partition(" ")
        if not is_oid(oid):
            continue
        step = rebase["step"].lower() if (rebase := _REBASE.match(action)) else ""
        if step == "start":
            rebased, rebasing = before, True
        elif step in _ENDS or (action.startswith(_MOVES) and oid != before):
            rebased, rebasing = None, False
        if step in _PICKS:
            rebasing = True  # git forgets old entries, as of its start
            yield Oid(oid), MadeHere(_PICK, rebased)
        elif not step and (found := _MADE_HERE.match(action)):
            how = _PICK if rebasing and found.lastgroup in (*_ACTS, _AMEND) else str(found.lastgroup)
            yield Oid(oid), MadeHere(how, rebased if how == _PICK else before)
        before = Oid(oid)


class Again(NamedTuple):
    """What is known of the commits made here.

    ``uncounted``: git made them again of what others changed, or nobody knows of what. ``unsure``, with the path: of an
    own one, or of another's. ``remade``: what counts, and what git made it of. ``versions``: what a file was in the
    commits that were amended.
    """

    uncounted: frozenset[Oid] = frozenset()
    unsure: frozenset[tuple[str, Oid]] = frozenset()
    remade: frozenset[tuple[str, Oid]] = frozenset()
    versions: Mapping[tuple[str, Oid], Collection[Entry | None]] = {}


def judge_again(
    hub: Hub, made: Made, asked: Mapping[str, Collection[Oid]], accepted: Oid, is_asked: Callable[[str], bool]
) -> Again:
    """Of each path, the commits asked for, which change it. ``accepted`` is what this clone accepted of the paths of
    which ``is_asked`` holds.
    """
    wanted = {path: [c for c in commits if c in made.how and made.how[c].how != _CN] for path, commits in asked.items()}
    judge = _Judge(
        hub, made, accepted, is_asked, {c for commits in wanted.values() for c in commits if made.how[c].how in _ACTS}
    )
    uncounted, unsure, remade = set[Oid](), set[tuple[str, Oid]](), set[tuple[str, Oid]]()
    versions: dict[tuple[str, Oid], Collection[Entry | None]] = {}
    for path, commits in wanted.items():
        for commit in commits:
            amended = made.amended(commit)
            try:
                model = judge.model(path, commit)
                if len(amended) > 1:
                    versions[path, commit] = judge.versions(path, amended)
            except (GitError, RecursionError):  # objects are missing, or too many, and nobody can tell
                model = None
            if model is None and not judge.mixed.isdisjoint(amended):
                unsure.add((path, commit))
            elif model is None:
                uncounted.add(commit)
            else:
                remade |= {(path, one) for one in (*amended, *made.amended(model))}
    return Again(frozenset(uncounted), frozenset(unsure), frozenset(remade), versions)


class _Judge:
    """``acts``: of which the messages are looked at. ``mixed`` are the picks seen so far of a rebase that may have made
    others' commits again.
    """

    def __init__(
        self, hub: Hub, made: Made, accepted: Oid, is_asked: Callable[[str], bool], acts: Iterable[Oid]
    ) -> None:
        self._hub, self._made, self._accepted, self._is_asked = hub, made, accepted, is_asked
        self.mixed: set[Oid] = set()
        self._messages = _messages(hub, acts)
        self._changes: dict[Oid, dict[str, Pair]] = {}
        self._signed: dict[Oid, bool] = {}
        self._alike: dict[Oid, list[Oid]] = {}
        self._models: dict[tuple[str, Oid], Oid | None] = {}

    def model(self, path: str, commit: Oid) -> Oid | None:
        """What counts, and has made this change of a file: the commit itself, or the one of which git made it again."""
        if (path, commit) not in self._models:
            self._models[path, commit] = self._model(path, commit)
        return self._models[path, commit]

    def _model(self, path: str, commit: Oid) -> Oid | None:
        first = self._made.amended(commit)[-1]
        made = self._made.how.get(first)
        if made is None:
            return commit if self._is_signed(first) else None
        if made.how in (_CN, *_ACTS) and not self._taken_back(first):
            return commit
        if first != commit and self._pair(path, first) is None:
            return commit  # all that it makes of this file was put into it by the amend
        if made.how == _PICK:
            asked = [one for one in self._picked(first, made.before) if one not in self._published]
            return self._find(path, first, asked, reverse=False)
        back = self._taken_back(first)
        asked = [back] if back and (back in self._made.how or self._is_signed(back)) else []
        return commit if self._find(path, first, asked, reverse=True) else None

    def versions(self, path: str, commits: Iterable[Oid]) -> list[Entry | None]:
        """What those of these commits that change a file made of it."""
        return [pair[1] for one in commits if (pair := self._pair(path, one))]

    def _find(self, path: str, commit: Oid, asked: Collection[Oid], *, reverse: bool) -> Oid | None:
        """Which of these made this change; None where one that changes the file does not count."""
        if (pair := self._pair(path, commit)) is None:
            return None
        pairs = {one: known for one in asked if one != commit and (known := self._pair(path, one))}
        if reverse:
            pairs = {one: (new, old) for one, (old, new) in pairs.items()}
        same = [one for one, known in pairs.items() if known == pair]
        same = same or [one for one, known in list(pairs.items())[:_TRIED] if _is_upon(self._hub, known, pair)]
        return same[0] if same and all(self.model(path, one) for one in pairs) else None

    def _picked(self, commit: Oid, before: Oid | None) -> list[Oid]:
        """The commits of the same author and date that were made here; none where the rebase began on changes of others
        to such files which nobody has accepted: anybody may write an author and a date.
        """
        if commit not in self._alike:
            found = self._alike[commit] = list[Oid]()
            if before is not None:
                ((_, author),) = self._read_authors([commit], "--no-walk")
                there = self._read_authors([before, f"^{commit}"], f"--max-count={_MOST}")
                others = {one: by for one, by in there if one not in self._made.how}
                alike = [one for one, by in there if by == author and (one not in others or self._is_signed(one))]
                # git lays a commit upon renamed files too, and may clean the author's name, but not the date.
                when = _date(author)
                dated = (one for one, by in others.items() if _date(by) in ("", when))
                mixed = len(there) == _MOST or any(not self._is_signed(one) for one in dated)
                if mixed or self._hold_others(before, commit, others):
                    self.mixed.add(commit)
                else:
                    found += alike or [one for one, by in self._authors.items() if by == author]
        return self._alike[commit]

    @cached_property
    def _published(self) -> frozenset[Oid]:
        """What origin's main has, or had: a rebase of what is to go there makes none of that again, and anybody who
        reads it may write the same change, the author and the date.
        """
        refs = [ORIGIN_REF, self._hub.tracking or ORIGIN_REF]
        form = "--format=%(objectname)"
        rows = self._hub.git.run("for-each-ref", form, *dict.fromkeys(refs), RESCUE).lines
        acts = [one for one, made in self._made.how.items() if made.how != _CN]
        if not rows or not acts:
            return frozenset()
        # Of the acts those that are left once what these refs have is taken away were never there.
        asked = as_lines([*acts, *(f"^{row}" for row in dict.fromkeys(rows))])
        words = ("rev-list", "--ignore-missing", "--stdin")
        return frozenset(acts) - {Oid(line) for line in self._hub.git.run(*words, stdin=asked).lines}

    def _hold_others(self, before: Oid, commit: Oid, others: Collection[Oid]) -> bool:
        """Do any of these commits, which lie between, change such a file, and are neither accepted nor signed?"""
        if not others:
            return False
        parents = read_parents(self._hub.git, before, f"^{commit}", f"^{self._accepted}")
        theirs = {one: above for one, above in parents.items() if one in others and len(above) <= 1}
        changing = {
            c
            for path, changes in read_changes_of(self._hub.git, theirs).items()
            for c in changes
            if self._is_asked(path)
        }
        return any(not self._is_signed(one) for one in changing)

    @cached_property
    def _authors(self) -> dict[Oid, str]:
        """Author and date of what acts made, and amends of that, the newest first: a rebase may have left the branch
        that it was made on.
        """
        made = dict[Oid, bool]()
        for one, (how, before) in self._made.how.items():
            if how in _ACTS or (how == _AMEND and before in made):
                made[one] = True
        made = dict(reversed(made.items()))
        return dict(self._read_authors(made, "--no-walk=unsorted", "--ignore-missing")) if made else {}

    def _read_authors(self, asked: Iterable[Oid | str], *how: str) -> list[tuple[Oid, str]]:
        """Empty for a commit in an encoding of its own: git-rebase(1) may read another author in it than git-log(1)."""
        words = ("log", "-z", "--date=raw", "--format=%H %e%x09%an <%ae> %ad", *how, "--stdin")
        rows = (field.partition("\t") for field in self._hub.git.run(*words, stdin=as_lines(asked)).fields)
        return [
            (Oid(oid), "" if own else author) for (oid, _, own), author in ((a.partition(" "), c) for a, _, c in rows)
        ]

    def _taken_back(self, commit: Oid) -> Oid | None:
        if commit not in self._messages:
            self._messages |= _messages(self._hub, [commit])
        found = _TAKEN_BACK.search(self._messages[commit])
        return Oid(found[1]) if found else None

    def _is_signed(self, commit: Oid) -> bool:
        if commit not in self._signed:
            self._signed[commit] = commit in signed(self._hub, [commit])
        return self._signed[commit]

    def _pair(self, path: str, commit: Oid) -> Pair | None:
        """What a commit with one parent, or none, changes of a file."""
        if commit not in self._changes:
            parents = read_parents(self._hub.git, "--no-walk", commit)
            one = {path: changes[commit] for path, changes in read_changes_of(self._hub.git, parents).items()}
            alone = len(parents[commit]) <= 1
            self._changes[commit] = {path: next(iter(above.values())) for path, above in one.items() if alone}
        return self._changes[commit].get(path)


def _date(author: str) -> str:
    """The seconds; empty where git cannot read them, though it may write others as it makes the commit again."""
    seconds = author.rpartition("> ")[2].partition(" ")[0]
    return seconds if seconds.isdecimal() else ""


def _is_upon(hub: Hub, change: Pair, pair: Pair) -> bool:
    """Is ``pair`` what git makes of this change in another version of the file (git-merge-file(1))?"""
    (ours, made), (before, theirs) = pair, change
    blobs = [entry for entry in (ours, before, theirs, made) if entry is not None and entry.mode.startswith("100")]
    if len(blobs) < 4 or len({entry.mode for entry in blobs}) > 1:
        return False
    with TemporaryDirectory(prefix="cn-") as folder:
        names = [Path(folder, name) for name in ("ours", "before", "theirs")]
        for name, entry in zip(names, blobs, strict=False):
            name.write_bytes(hub.git.run("cat-file", "blob", entry.oid).out)
        merged = hub.git.run("merge-file", "-p", "--quiet", *map(str, names), check=False)
    return merged.ok and hub.git.run("hash-object", "--stdin", stdin=merged.out).text == blobs[3].oid


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
