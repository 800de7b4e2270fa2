"""What a file should be, after what this clone accepted: as those made it who may, whatever others did beside.

Whoever can push to ``origin`` can write commits and merges of any shape. So no commit is believed by its place. What
one makes of a file counts where one who may made it; else the file should be what it was before, and where histories
come together what the side made of it that has all the changes which count. Where each has some that the other has
not, git's merge of three decides, of whole files (git-merge(1), "three-way merge"). What others changed and took back
is nothing; what one who may changed, and others took back, is a change of theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from typing import NamedTuple

from cn.git.entries import Entry, read_tree
from cn.git.process import Git, as_lines
from cn.values.names import Oid, is_protected

_MOST = 200
"""Merges that are looked at with git in one range: it takes a process each, and whoever pushes can make thousands."""
_MOST_NAMED = 200
"""Commits of others that are named of a file: each commit holds them, and whoever pushes can make thousands."""
MOST_CHANGES = 32 << 20
"""Some 200,000 changes of files."""
_UNKNOWN = Oid("")
"""No commit: there is no telling what a file should be."""
_ABSENT = "000000"

Pair = tuple[Entry | None, Entry | None]
Changes = Mapping[Oid, Mapping[Oid, Pair]]
"""Of one path: the commits that change it, each with the parents against which it does, and the entries there and here
(None: no such file). A root has the parent "".
"""


Parents = Mapping[Oid, Sequence[Oid]]
"""Commits, each with its parents, and its parents before it."""


def read_parents(git: Git, *words: str, stdin: bytes = b"") -> Parents:
    """The commits that git-rev-list(1) lists for these words, and these lines with ``--stdin``."""
    lines = git.run("rev-list", "--topo-order", "--reverse", "--parents", *words, stdin=stdin).lines
    rows = ([Oid(word) for word in line.split(" ")] for line in lines)
    return {commit: parents for commit, *parents in rows}


def later(some: Collection[Oid], parents: Parents) -> set[Oid]:
    """Some commits, and those that stand on them."""
    found = set(some)
    for one, above in parents.items():
        if not found.isdisjoint(above):
            found.add(one)
    return found


def read_changes_of(git: Git, parents: Parents, where: Collection[str] = ()) -> dict[str, dict[Oid, dict[Oid, Pair]]]:
    """Path → :data:`Changes` of these commits; only there, where anything is given, as git takes it.

    Raises :class:`GitError` beyond :data:`MOST_CHANGES` bytes of that: whoever pushes can make gigabytes of it.
    """
    flags = ("-r", "-m", "--root", "--raw", "-z", "--no-renames", "--no-abbrev", "--pretty=oneline")
    asked = ("diff-tree", *flags, "--stdin", "--", *sorted(where))
    fields = git.run(*asked, stdin=as_lines(parents), max_out=MOST_CHANGES).fields
    found: dict[str, dict[Oid, dict[Oid, Pair]]] = {}
    commit = parent = Oid("")
    at = 0
    while at < len(fields):
        if fields[at].startswith(":"):
            before, after, old, new, _ = fields[at][1:].split(" ")
            pair = (_entry(before, old), _entry(after, new))
            found.setdefault(fields[at + 1], {}).setdefault(commit, {})[parent] = pair
            at += 2
            continue
        words = fields[at].split(" ", 3)  # COMMIT [(from PARENT)] SUBJECT
        commit = Oid(words[0])
        above = parents[commit]
        parent = Oid(words[2].removesuffix(")")) if len(above) > 1 else Oid("".join(above))
        at += 1
    return found


def _entry(mode: str, oid: str) -> Entry | None:
    return None if mode == _ABSENT else Entry(mode, Oid(oid))


class Judged(NamedTuple):
    """Of a file at a commit: what it should be (None: no such file), where that ``is_told``, what it is, and the
    commits of others by which that is another; none where it is not.
    """

    should: Entry | None
    is_told: bool
    is_now: Entry | None
    by: frozenset[Oid]


class State(NamedTuple):
    """Of a file at a commit: ``at`` which commit it is what it should be, ``by`` whose commits it is another here, and
    the bits of the changes that are ``known`` here and count. The first bit is what was accepted.
    """

    at: Oid
    by: frozenset[Oid] = frozenset()
    known: int = 0


class AcceptedHistory:
    """The commits that came after ``accepted``, with their ``parents``; those in ``foreign`` are by others, those in
    ``runs`` were made by cn: where both sides changed a protected file, no person has decided between them;
    ``unsure``: path and commit of what may hold more of others than it shows. The last one descends from what was
    accepted.
    """

    def __init__(
        self,
        git: Git,
        accepted: Oid,
        parents: Parents,
        foreign: Container[Oid],
        unsure: Container[tuple[str, Oid]] = frozenset(),
        runs: Container[Oid] = frozenset(),
    ) -> None:
        self.git, self.accepted, self.parents = git, accepted, parents
        self.foreign, self.unsure, self.runs = foreign, unsure, runs
        self._bases: dict[tuple[Oid, ...], list[Oid]] = {}

    def judge(self, path: str, changes: Changes) -> Judged:
        """The file ``path`` at the last commit."""
        file, last = self.follow(path, changes), list(self.parents)[-1]
        state = file.states[last]
        return Judged(file.entry(state.at) if state.at else None, bool(state.at), file.entry(last), state.by)

    def follow(self, path: str, changes: Changes) -> FileHistory:
        """The file ``path`` at each commit."""
        file = FileHistory(self, path, changes)
        for commit in self.parents:
            if commit != self.accepted:  # git goes by dates, which anybody writes, and may list what came before too
                file.states[commit] = file.after(commit)
        return file

    def bases(self, one: Oid, others: Sequence[Oid]) -> list[Oid]:
        """The best common ancestors of a commit and a merge of the others (git-merge-base(1)); none beyond so many."""
        asked = (one, *others)
        if asked not in self._bases and len(self._bases) < _MOST:
            lines = self.git.run("merge-base", "--all", *asked, check=False).lines
            self._bases[asked] = [Oid(line) for line in lines]
        return self._bases.get(asked, [])


class FileHistory:
    """One path through the history; ``states`` are those of the commits so far."""

    def __init__(self, history: AcceptedHistory, path: str, changes: Changes) -> None:
        self._history, self._path, self._changes = history, path, changes
        self.states: dict[Oid, State] = {}
        self._same: dict[Oid, Oid] = {}
        """The commit that has the same file, of one whose first parent does."""
        self._entries: dict[Oid, Entry | None] = {}
        for commit, above in changes.items():
            for parent, (old, new) in above.items():
                self._entries[commit] = new
                self._entries[parent] = old
        self._bit = 1

    def entry(self, commit: Oid) -> Entry | None:
        """What a commit has there."""
        commit = self._same.get(commit, commit)
        if commit not in self._entries:
            self._entries[commit] = read_tree(self._history.git, commit, [self._path]).get(self._path)
        return self._entries[commit]

    def _state(self, commit: Oid) -> State:
        """What is not after what was accepted, was before it, or is that."""
        return self.states.get(commit) or State(commit, known=int(commit == self._history.accepted))

    def after(self, commit: Oid) -> State:
        """The state at a commit, by those of its parents."""
        parents, differs = self._history.parents[commit], self._changes.get(commit, {})
        if not differs:
            if not parents:
                return State(commit)
            self._same[commit] = self._same.get(parents[0], parents[0])
        above = [self._state(parent) for parent in parents]
        same = [state for parent, state in zip(parents, above, strict=True) if parent not in differs]
        if len(parents) == 1 and same:
            return same[0]
        known = 0
        for state in above:
            known |= state.known
        foreign = commit in self._history.foreign
        if not foreign and len(parents) > 1:
            # By a file of another name git brings in what was changed under the other one; it may sign that.
            foreign = bool(self._merged(parents, above))
        joins = len(parents) > 1 and commit in self._history.runs and is_protected(self._path)
        sure = (self._path, commit) not in self._history.unsure and not (joins and not foreign)
        # Who may write it changes what is as it should be. A merge that has the file of one side need not be a choice:
        # git takes it where the other side is as before, also by a commit that took something back there.
        if differs and not foreign and sure and all(not state.by for state in above):
            self._bit <<= 1
            return State(commit, known=known | self._bit)
        should = self._merged(parents, above)
        if should and self.entry(commit) == self.entry(should):
            return State(should, known=known)
        by = frozenset[Oid]().union(*(state.by for state in (same if same and foreign else above)))
        if differs and not foreign:  # it counts, and whoever takes it back makes a change; what it stands on does not
            self._bit <<= 1
            return State(_UNKNOWN, by or frozenset({commit}), known | self._bit)
        more = not by or (differs and not same and len(by) < _MOST_NAMED)
        return State(should, by | {commit} if more else by, known)

    def _merged(self, parents: Sequence[Oid], above: Sequence[State]) -> Oid:
        """At which commit it is what it should be where these come together, one after the other."""
        so_far = above[0] if above else State(_UNKNOWN)
        for number in range(1, len(above)):
            one, known = above[number], so_far.known | above[number].known
            if self._are_alike(so_far.at, one.at) or known == so_far.known != one.known:
                at = so_far.at
            elif known == one.known != so_far.known:
                at = one.at
            else:
                bases = self._history.bases(parents[number], parents[:number])
                at = self._of_three(so_far.at, one.at, [self._state(base).at for base in bases])
            so_far = State(at, known=known)
        return so_far.at

    def _of_three(self, one: Oid, other: Oid, before: Sequence[Oid]) -> Oid:
        """What only one of two has changed; all that stood before must agree on it."""
        found = {
            one if self._are_alike(base, other) else other if self._are_alike(base, one) else "" for base in before
        }
        return Oid(found.pop()) if len(found) == 1 else _UNKNOWN

    def _are_alike(self, one: Oid, other: Oid) -> bool:
        return one == other or (bool(one and other) and self.entry(one) == self.entry(other))
