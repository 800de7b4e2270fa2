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


def drop_mended(conditions: Conditions, root: Path) -> None:
    """Forget refused edits whose file is another by now: whether that may be committed is not known."""
    for name in conditions.names(_EDIT):
        state, _, path = name.partition(" ")
        if _state(root, path) != state:
            conditions.clear(_EDIT, name)


def _state(root: Path, path: str) -> str:
    found = read_plain(root / path)
    return digest("edit", found[1].hex()) if found else "-"
