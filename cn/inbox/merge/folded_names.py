"""Names in main as a file system sees them that knows no case or normal forms (macOS, Windows)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from cn.git.objects import list_tree
from cn.git.process import Git
from cn.protocol.rules import TreeChange
from cn.values.names import Oid, fold, folders_above, is_owned

_FEW = 200


class FoldedNames:
    """How each path and folder of a commit is written; read when a path is new.

    Of cn's own folders, which may be far larger than all others, only the names at the root are read:
    what a merge brings never lies in them.
    """

    def __init__(self, git: Git, main: Oid) -> None:
        self._git, self._main = git, main

    def clashes(self, changes: Iterable[TreeChange]) -> tuple[str, ...]:
        """The new paths that would be another's: of main's, or of the same changes."""
        changes = list(changes)
        gone = {c.path for c in changes if c.removes}
        gone |= self._emptied(gone)
        new, found = dict[str, str](), []
        for path in (c.path for c in changes if c.adds):
            for name in (*folders_above(path), path):
                old = self._known.get(fold(name))
                if old is None or old in gone:  # in the second case the branch renames it
                    old = new.setdefault(fold(name), name)
                if old != name:
                    found.append(f"{name} and {old}")
                    break
        return tuple(found)

    def _emptied(self, gone: set[str]) -> set[str]:
        """The folders of these files that keep no other file."""
        above = {folder for path in gone for folder in folders_above(path)}
        if not above:
            return above
        folders = {folder for name in self._known.values() for folder in folders_above(name)}
        files = (name for name in self._known.values() if name not in folders and name not in gone)
        return above - {folder for name in files for folder in folders_above(name)}

    def add(self, changes: Iterable[TreeChange]) -> None:
        """These changes are in main now."""
        changes = list(changes)
        for change in changes:
            if change.removes and self._known.get(fold(change.path)) == change.path:
                del self._known[fold(change.path)]
        for change in changes:
            if change.adds:
                self._add(change.path, self._known)

    @cached_property
    def _known(self) -> dict[str, str]:
        top = [e.path for e in list_tree(self._git, self._main)]
        known = {fold(name): name for name in top}
        wanted = [name for name in top if not is_owned(name)]
        few = wanted if len(wanted) <= _FEW else []
        words = ("ls-tree", "-r", "-z", "--name-only", "--full-tree", "--end-of-options", self._main)
        for path in self._git.run(*words, *few).fields if wanted else ():
            if not is_owned(path):
                self._add(path, known)
        return known

    def _add(self, path: str, known: dict[str, str]) -> None:
        known.update((fold(name), name) for name in (*folders_above(path), path))
