"""What a file should be, after what this clone accepted: as those made it who may, whatever others did beside.

Whoever can push to ``origin`` can write commits and merges of any shape. So no commit is believed by its place: what it
makes of a file counts where one who may made it, and else only as far as it is what came before, or what git's own
merge of three makes of its parents (git-merge(1), "three-way merge"). What others changed and took back is nothing;
what one who may changed, and others took back, is a change of theirs.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

from cn.git.objects import read_info
from cn.git.process import Git
from cn.values.names import Oid

_MOST = 200
"""Merges that are looked at so in one range: it takes a process each, and whoever pushes can make thousands."""
_UNKNOWN = Oid("unknown")
"""No blob: there is no telling what a file should be."""


class Judged(NamedTuple):
    """Of a file at a commit: the blob that it should be (None: no such file, or there is no telling), which it is, and
    the commits of others by which that is another; none where it is not.
    """

    should: Oid | None
    is_now: Oid | None
    by: frozenset[Oid]


class _State(NamedTuple):
    """As :class:`Judged`."""

    should: Oid | None
    by: frozenset[Oid] = frozenset()


class AcceptedHistory:
    """The commits of ``old..new``, of which those in ``foreign`` are by others; ``old`` is what was accepted."""

    def __init__(self, git: Git, old: Oid, new: Oid, foreign: Container[Oid]) -> None:
        self._git, self._range, self._new, self._foreign = git, f"{old}..{new}", new, foreign
        self._parents: dict[Oid, list[Oid]] | None = None
        self._bases: dict[Oid, list[Oid]] = {}

    def judge(self, path: str, modes: Container[Oid] = ()) -> Judged:
        """The file ``path`` at ``new``. ``modes`` are the commits that change its mode."""
        if self._parents is None:
            rows = self._git.run("rev-list", "--topo-order", "--reverse", "--parents", "--end-of-options", self._range)
            split = (line.split(" ") for line in rows.lines)
            self._parents = {Oid(row[0]): [Oid(word) for word in row[1:]] for row in split}
        file = _File(self, path, self._parents, modes)
        for commit in self._parents:
            file.states[commit] = file.after(commit, foreign=commit in self._foreign)
        should, by = file.states[self._new]
        return Judged(None if should == _UNKNOWN else should, file.held[self._new], by)

    def bases(self, commit: Oid, parents: Sequence[Oid]) -> list[Oid] | None:
        """The best common ancestors of a merge's parents (git-merge-base(1)); None beyond so many merges."""
        if commit not in self._bases:
            if len(self._bases) >= _MOST:
                return None
            words = ("merge-base", "--octopus", "--all", *parents)
            self._bases[commit] = [Oid(line) for line in self._git.run(*words, check=False).lines]
        return self._bases[commit]

    def held(self, commits: Sequence[Oid], path: str) -> dict[Oid, Oid | None]:
        """What each of these commits has at ``path``."""
        infos = read_info(self._git, [f"{commit}:{path}" for commit in commits])
        return {commit: info.oid if info else None for commit, info in zip(commits, infos, strict=True)}


class _File:
    """One path through the history; ``states`` are those of the commits so far, parents first."""

    def __init__(
        self, history: AcceptedHistory, path: str, parents: dict[Oid, list[Oid]], modes: Container[Oid]
    ) -> None:
        self._history, self._path, self._parents, self._modes = history, path, parents, modes
        names = dict.fromkeys(oid for commit, above in parents.items() for oid in (commit, *above))
        self.held = history.held(list(names), path)
        self.states: dict[Oid, _State] = {}

    def _state(self, commit: Oid) -> _State:
        """What came before the range was accepted, or replaced by what was."""
        if commit in self.states:
            return self.states[commit]
        if commit not in self.held:
            self.held |= self._history.held([commit], self._path)
        return _State(self.held[commit])

    def after(self, commit: Oid, *, foreign: bool) -> _State:
        """The state at a commit, by those of its parents."""
        parents, value = self._parents[commit], self.held[commit]
        if foreign and commit in self._modes:
            return _State(_UNKNOWN, frozenset([commit]))
        above = [self._state(parent) for parent in parents] or [_State(None)]
        same = [state for parent, state in zip(parents, above, strict=False) if self.held[parent] == value]
        changed = len(same) < len(above)
        # Who may write it takes what is as it should be, and changes that; not what others made beside.
        taken, enough = (same, any) if same else (above, all)
        if changed and not foreign and enough(not state.by for state in taken):
            return _State(value)
        should = self._merged(commit, parents, above)
        if value == should:
            return _State(value)
        by = frozenset[Oid]().union(*(state.by for state in taken))
        return _State(should, by | {commit} if changed and foreign and not (same and by) else by)

    def _merged(self, commit: Oid, parents: Sequence[Oid], above: Sequence[_State]) -> Oid | None:
        """What it should be where these come together: what one side alone has changed."""
        sides = {state.should for state in above}
        if len(sides) == 1:
            return sides.pop()
        bases = self._history.bases(commit, parents)
        if bases is None:
            return _UNKNOWN
        results = set[Oid | None]()
        for before in {self._state(base).should for base in bases} or {None}:
            left = sides - {before}
            results.add(left.pop() if len(left) == 1 else _UNKNOWN)
        return results.pop() if len(results) == 1 else _UNKNOWN
