"""The files of main outside cn's own folders, and the folders they fill; read once, on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from cn.git.objects import list_tree
from cn.git.process import Git
from cn.protocol.rules import TreeChange
from cn.values.names import Oid, is_owned
from cn.values.paths import folders_above

_FEW = 200


class Landscape:
    """The paths of a commit. What a branch brings never lies in cn's folders, which may be far larger."""

    def __init__(self, git: Git, commit: Oid) -> None:
        self._git, self._commit = git, commit

    @cached_property
    def top(self) -> tuple[str, ...]:
        """The names at the root, cn's folders among them."""
        return tuple(e.path for e in list_tree(self._git, self._commit))

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Every file outside cn's folders."""
        wanted = [name for name in self.top if not is_owned(name)]
        if not wanted:
            return ()
        few = wanted if len(wanted) <= _FEW else []
        words = ("ls-tree", "-r", "-z", "--name-only", "--full-tree", "--end-of-options", self._commit)
        return tuple(path for path in self._git.run(*words, *few).fields if not is_owned(path))


class Folders:
    """How many files each folder has, as the merges of a run change main."""

    def __init__(self, main: Landscape) -> None:
        self._main = main
        self._moved = Counter[str]()

    @cached_property
    def _before(self) -> Counter[str]:
        return Counter(folder for path in self._main.files for folder in folders_above(path))

    def add(self, changes: Iterable[TreeChange]) -> None:
        """These changes are in main now."""
        self._moved.update(_balance(changes))

    def is_gone(self, folder: str) -> bool:
        """Had main files there as the run began, and has none now?"""
        return self._emptied(folder, self._moved)

    def goes(self, folder: str, changes: Iterable[TreeChange]) -> bool:
        """Would these changes alone take every file that main had there as the run began?"""
        return self._emptied(folder, _balance(changes))

    def _emptied(self, folder: str, balance: Counter[str]) -> bool:
        return balance[folder] < 0 and self._before[folder] + balance[folder] == 0


def _balance(changes: Iterable[TreeChange]) -> Counter[str]:
    """How many files each folder gets, less those it loses."""
    balance = Counter[str]()
    for change in changes:
        if change.adds or change.removes:
            for folder in folders_above(change.path):
                balance[folder] += 1 if change.adds else -1
    return balance
