"""Edits that a rule kept from being committed; ``cn status`` shows them until they are gone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from cn.run.memory import Condition, Conditions
from cn.system.files import read_plain
from cn.values.names import digest
from cn.values.text import one_line

if TYPE_CHECKING:  # who only looks has none of them
    from cn.git.repository import Hub
    from cn.run.run import Run
    from cn.threads.plan.edits import Left

_EDIT = "edit"


def note_edits(run: Run, refused: Iterable[Left]) -> None:
    """Note which edits are refused now."""
    from cn.run.secret_gate import mask_line, mask_path

    found = {}
    for one in refused:
        path = one_line(mask_path(one.path, run.settings), 300)
        text = f"{path} {mask_line(one.why, run.settings)}"
        found[f"{_state(run.hub.root, one.path)} {one.path}"] = Condition(text, one.remedy)
    run.memory.conditions.replace(_EDIT, found)


def drop_mended(conditions: Conditions, hub: Hub) -> None:
    """Forget refused edits whose file is another by now, of which nobody knows whether it may be committed, and those
    that somebody committed with git.
    """
    names = {name: name.partition(" ") for name in conditions.names(_EDIT)}
    if not names:
        return
    from cn.threads.read_edits import read_edits  # few looks find any

    edited = {one.edit.path for one in read_edits(hub, [path for _, _, path in names.values()])}
    for name, (state, _, path) in names.items():
        if _state(hub.root, path) != state or path not in edited:
            conditions.clear(_EDIT, name)


def _state(root: Path, path: str) -> str:
    found = read_plain(root / path)
    return digest("edit", found[1].hex()) if found else "-"
