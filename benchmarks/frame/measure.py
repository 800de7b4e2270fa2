"""What one process costs: time, memory, the processes it starts, the bytes it leaves."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LIMIT = 1800.0
"""Seconds after which a run is given up."""
_LAUNCH = Path(__file__).with_name("launch.py")


class Broken(Exception):
    """A run that did not do what it was measured for."""


@dataclass(frozen=True)
class Ran:
    """One run: seconds, KiB of the largest process, and what it printed."""

    seconds: float
    peak: int
    out: str


def run(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], *, codes: Sequence[int] = (0,), limit: float = LIMIT
) -> Ran:
    """Run ``command`` to its end; raises :class:`Broken` for another exit code than ``codes``."""
    with tempfile.TemporaryDirectory(prefix="cn-bench-run-") as scratch:
        out, err = Path(scratch, "out"), Path(scratch, "err")
        launch = [sys.executable, "-I", "-S", str(_LAUNCH), str(out), str(err), str(limit), *command]
        told = subprocess.run(launch, cwd=cwd, env=env, capture_output=True, text=True, check=True).stdout
        code, seconds, peak = told.split()
        if int(code) not in codes:
            said = err.read_text("utf-8", "replace") + out.read_text("utf-8", "replace")
            raise Broken(f"{' '.join(command)} ended with {code}: {said[-2000:]}")
        return Ran(float(seconds), int(peak), out.read_text("utf-8", "replace"))


def count_processes(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], codes: Sequence[int] = (0,), warm: int = 0
) -> int:
    """How many processes a run starts: itself, and every git, also those that git starts.

    Each git writes a file of its own (api-trace2, ``trace2.eventTarget`` as a folder). The
    setting comes from the global configuration, because cn takes GIT_TRACE2 out of the
    environment. A run with it is slower and is not timed. ``warm`` runs come before the one that
    is counted, with the same configuration.
    """
    with tempfile.TemporaryDirectory(prefix="cn-bench-trace-") as scratch:
        events, config = Path(scratch, "events"), Path(scratch, "config")
        events.mkdir()
        old = env.get("GIT_CONFIG_GLOBAL", os.devnull)
        config.write_text(f"[include]\n\tpath = {old}\n[trace2]\n\teventTarget = {events}\n")
        for _ in range(1 + warm):
            for event in events.iterdir():
                event.unlink()
            run(command, cwd, {**env, "GIT_CONFIG_GLOBAL": str(config)}, codes=codes)
        return 1 + sum(1 for _ in events.iterdir())


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder, as long as they are (not as blocks)."""
    total = 0
    for here, _, files in os.walk(folder):
        for name in files:
            total += os.lstat(os.path.join(here, name)).st_size
    return total


def copy(source: Path, target: Path) -> None:
    """A copy of ``source``, which is not there yet, with the same times, so that git's index stays valid."""
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


def put_away(folder: Path, old: Path) -> None:
    """Move ``folder`` below ``old``, to be removed when everything is measured.

    For some minutes ext4 gives no file the inode of one that was removed, and looks past each of them
    (fs/ext4/ialloc.c, ``recently_deleted``): where ten thousand files were removed just before a run,
    1,000 decisions took 5.5 s, not 3.9, and the floor 1.9, not 1.4.
    """
    if folder.exists():
        old.mkdir(exist_ok=True)
        folder.rename(old / str(len(os.listdir(old))))
