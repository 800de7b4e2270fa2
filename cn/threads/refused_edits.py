"""Edits that a rule kept from being committed; ``cn status`` shows them until they are gone."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cn.run.memory import Local
from cn.system.files import read_plain
from cn.values.names import digest
from cn.values.text import one_line

if TYPE_CHECKING:  # who only looks has none of them
    from cn.run.settings import Settings
    from cn.threads.plan.edits import Left

_EDIT = "edit "


def note_edits(local: Local, root: Path, refused: Iterable[Left], now: datetime, settings: Settings) -> None:
    """Which edits are refused, as they are now."""
    from cn.run.secret_gate import mask_line, mask_path

    told = {
        f"{_EDIT}{_state(root, one.path)} {one.path}": (
            f"{one_line(mask_path(one.path, settings), 300)} {mask_line(one.why, settings)}",
            one.remedy,
        )
        for one in refused
    }
    local.stand_only(_EDIT, told, now)


def drop_mended(local: Local, root: Path, now: datetime) -> None:
    """Forget refused edits whose file is another by now: whether that may be committed is not known."""
    for name in local.standing_names(_EDIT):
        state, _, path = name.removeprefix(_EDIT).partition(" ")
        if _state(root, path) != state:
            local.stands(name, "", now)


def _state(root: Path, path: str) -> str:
    found = read_plain(root / path)
    return digest("edit", found[1].hex()) if found else "-"
