"""Report where the work tree is behind main because cn could not write there."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from cn.git.repository import Hub
from cn.run.memory import Local
from cn.transaction.checkout import IN_ITS_PLACE
from cn.transaction.checkout_retries import Unplaced, read_unplaced
from cn.values.report import Report
from cn.values.text import visible

_STANDING = "unplaced "


def tell_unplaced(hub: Hub, local: Local, report: Report, now: datetime) -> None:
    """Once for each folder and reason; it stands in the status until it is gone."""
    known = set(local.standing_names(_STANDING))
    found = _by_folder(read_unplaced(hub))
    local.stand_only(_STANDING, found, now)
    for name, (text, remedy) in found.items():
        report.failed(text, remedy, known=name in known)


def _by_folder(files: Mapping[str, Unplaced]) -> dict[str, tuple[str, str]]:
    groups: dict[tuple[str, str], list[str]] = {}
    for path in sorted(files):
        folder = path.rpartition("/")[0] or "."
        groups.setdefault((folder, files[path].reason), []).append(path)
    found = {}
    for (folder, reason), paths in groups.items():
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        found[f"{_STANDING}{folder} {reason}"] = (
            f"the work tree is behind main at {visible(paths[0])}{more}: {reason}",
            f"{_remedy(folder, reason)}; the next run brings it there",
        )
    return found


def _remedy(folder: str, reason: str) -> str:
    if reason.endswith(IN_ITS_PLACE):
        return f"move {reason.removesuffix(IN_ITS_PLACE).strip()} out of the way"
    return f"let cn write in {visible(folder)}/"
