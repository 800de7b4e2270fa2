"""Keeping the repository small: cn runs with git's own maintenance off (DESIGN 4, "Growth")."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from cn.shell.hub import Hub

_STALE_SECONDS = 3600.0
_LOG_BYTES = 4 << 20
_LOGS_KEPT = 3


def rotate_log(path: Path) -> None:
    """``cn.log`` → ``cn.log.1`` → … when it has grown over 4 MiB; the oldest goes."""
    with suppress(FileNotFoundError):
        if path.parent.is_symlink() or path.lstat().st_size < _LOG_BYTES:
            return
        for number in range(_LOGS_KEPT, 1, -1):
            with suppress(FileNotFoundError):
                path.with_name(f"{path.name}.{number - 1}").rename(path.with_name(f"{path.name}.{number}"))
        path.rename(path.with_name(f"{path.name}.1"))


def sweep_packs(hub: Hub) -> None:
    """Remove what fetches that were cut off left in ``objects/pack`` (git-prune(1) would too)."""
    for file in (hub.git_dir / "objects" / "pack").glob("tmp_*"):
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _STALE_SECONDS:
                file.unlink()
