"""Names in main as a file system sees them that knows no case or normal forms (macOS, Windows)."""

from __future__ import annotations

from collections.abc import Iterable

from cn.core.names import Oid, fold, is_owned
from cn.core.rules import TreeChange
from cn.shell.git import Git
from cn.shell.objects import list_tree

_ABSENT = "000000"


class Spellings:
    """How each path and folder of a commit is written; read once, at the first question."""

    def __init__(self, git: Git, commit: Oid) -> None:
        self._git, self._commit = git, commit
        self._known: dict[str, str] | None = None

    def clashes(self, changes: Iterable[TreeChange]) -> tuple[str, ...]:
        """The new paths that would be another's: of main's, or of the same changes."""
        changes = list(changes)
        added = [c.path for c in changes if c.mode != _ABSENT and c.old_mode == _ABSENT]
        if not added:
            return ()
        gone = {c.path for c in changes if c.mode == _ABSENT}
        folders = {folder for path in gone for folder in _folders(path)}
        known, new, found = self._read(), dict[str, str](), []
        for path in added:
            for name in (*_folders(path), path):
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
                for name in (*_folders(change.path), change.path):
                    self._known[fold(name)] = name

    def _read(self) -> dict[str, str]:
        if self._known is None:
            # A branch adds nothing to cn's own folders, which may be far larger than all else.
            top = list_tree(self._git, self._commit)
            self._known = {fold(e.path): e.path for e in top}
            for folder in (e.path for e in top if e.kind == "tree" and not is_owned(e.path)):
                entries = list_tree(self._git, self._commit, folder, recursive=True)
                names = (n for e in entries for n in (*_folders(f"{folder}/{e.path}"), f"{folder}/{e.path}"))
                self._known.update({fold(name): name for name in names})
        return self._known


def _folders(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:i]) for i in range(1, len(parts))]
