"""A link or file in main where a folder of cn belongs: reported until it is gone.

Nothing is brought there (:mod:`cn.transaction.checkout`). Where cn alone writes its next commit takes the
place; where people write too nothing is taken out of main unseen (:mod:`cn.transaction.commit`).
"""

from __future__ import annotations

from datetime import datetime

from cn.git.repository import Hub
from cn.run.memory import Local
from cn.run.snapshot import Snapshot
from cn.transaction.checkout import LAYOUT
from cn.transaction.commit import displaced_words
from cn.values.report import Report

_STANDING = "displaced "


def find_displaced(hub: Hub, snapshot: Snapshot) -> dict[str, tuple[str, str]]:
    """What is no folder in main and must be one: name → text and remedy."""
    found = {}
    for folder in sorted(LAYOUT):
        above, _, name = folder.rpartition("/")
        for entry in snapshot.folder(above):
            if entry.path == name and entry.kind != "tree":
                found[f"{_STANDING}{folder}"] = displaced_words(hub, folder, entry.mode)
    return found


def note_displaced(hub: Hub, snapshot: Snapshot, local: Local, now: datetime) -> list[str] | None:
    """Note for the status what is displaced now: which of it stood before; None: nothing is."""
    stood = local.standing_names(_STANDING)
    found = find_displaced(hub, snapshot)
    local.stand_only(_STANDING, found, now)
    return stood if found else None


def tell_displaced(
    hub: Hub, snapshot: Snapshot, local: Local, report: Report, now: datetime, stood: list[str]
) -> None:
    """Tell what still is displaced as the run ends; ``stood`` was told before."""
    found = find_displaced(hub, snapshot)
    local.stand_only(_STANDING, found, now)
    for name, (text, remedy) in found.items():
        report.failed(text, remedy, known=name in stood)
