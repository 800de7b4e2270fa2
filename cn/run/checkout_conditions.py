"""Conditions of the work tree: where it is behind main, and where main has no folder for cn."""

from __future__ import annotations

from cn.git.repository import Hub
from cn.run.memory import Condition
from cn.run.snapshot import Snapshot
from cn.transaction.checkout import IN_ITS_PLACE, LAYOUT
from cn.transaction.commit import displaced_words
from cn.transaction.unplaced import read_left
from cn.values.text import visible


def find_displaced(hub: Hub, snapshot: Snapshot) -> dict[str, Condition]:
    """Links and files in main where folders of cn belong.

    Nothing is brought there. Where cn alone writes, its next commit takes the place; where people write
    too, nothing is taken out of main unseen.
    """
    found = {}
    for folder in sorted(LAYOUT):
        above, _, name = folder.rpartition("/")
        for entry in snapshot.folder(above):
            if entry.path == name and entry.kind != "tree":
                found[folder] = Condition(*displaced_words(hub, folder, entry.mode))
    return found


def find_unplaced(hub: Hub) -> dict[str, Condition]:
    """Where cn could not write into the work tree: one for each folder and reason."""
    files = read_left(hub)
    groups: dict[tuple[str, str], list[str]] = {}
    for path in sorted(files):
        folder = path.rpartition("/")[0] or "."
        groups.setdefault((folder, files[path].reason), []).append(path)
    found = {}
    for (folder, reason), paths in groups.items():
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        text = f"the work tree is behind main at {visible(paths[0])}{more}: {reason}"
        remedy = f"{_remedy(folder, reason)}; the next run brings it there"
        found[f"{folder} {reason}"] = Condition(text, remedy)
    return found


def _remedy(folder: str, reason: str) -> str:
    if reason.endswith(IN_ITS_PLACE):
        return f"move {reason.removesuffix(IN_ITS_PLACE).strip()} out of the way"
    return f"let cn write in {visible(folder)}/"
