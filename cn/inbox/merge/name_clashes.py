"""Names in main that are one name to a file system without case or normal forms (macOS, Windows)."""

from __future__ import annotations

from collections.abc import Iterable

from cn.inbox.merge.main_paths import Landscape
from cn.protocol.rules import TreeChange
from cn.values.names import fold
from cn.values.paths import folders_above


class Spellings:
    """How each path and folder of main is written; read at the first question."""

    def __init__(self, main: Landscape) -> None:
        self._main = main
        self._known: dict[str, str] | None = None

    def clashes(self, changes: Iterable[TreeChange]) -> tuple[str, ...]:
        """The new paths that would be another's: of main's, or of the same changes."""
        changes = list(changes)
        added = [c.path for c in changes if c.adds]
        if not added:
            return ()
        gone = {c.path for c in changes if c.removes}
        folders = {folder for path in gone for folder in folders_above(path)}
        known, new, found = self._read(), dict[str, str](), []
        for path in added:
            for name in (*folders_above(path), path):
                key = fold(name)
                old = known.get(key)
                if old in gone or old in folders:
                    old = None  # renamed by the branch itself
                other = new.setdefault(key, name) if old is None else old
                if other != name:
                    found.append(f"{name} and {other}")
                    break
        return tuple(found)

    def add(self, changes: Iterable[TreeChange]) -> None:
        """These changes are in main now."""
        if self._known is not None:
            for change in changes:
                for name in (*folders_above(change.path), change.path):
                    self._known[fold(name)] = name

    def _read(self) -> dict[str, str]:
        if self._known is None:
            self._known = {fold(name): name for name in self._main.top}
            for path in self._main.files:
                self._known.update((fold(name), name) for name in (*folders_above(path), path))
        return self._known
