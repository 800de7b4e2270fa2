"""Which git processes work in a hub, and which programs its shell finds."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cn.git.process import RECORDS
from cn.git.repository import Hub
from cn.values.text import one_line


def git_processes(hub: Hub) -> list[str]:
    """``pid 123 (git)`` of each git that may be at work in the hub; rather one too many."""
    records = os.path.realpath(hub.state / RECORDS)
    return find_gits(hub.git_dir, hub.work_git_dir, hub.root, passed_over=lambda process: process.cwd == records)


class Process(NamedTuple):
    """A git that runs: its folder below ``/proc``, its words, the folder in which it works."""

    folder: Path
    words: tuple[bytes, ...]
    cwd: str


def find_gits(*folders: Path, passed_over: Callable[[Process], bool] = lambda _: False) -> list[str]:
    """``pid 123 (git)`` of each git that may be at work in these folders, the repository's first; rather one too many.

    What is ``passed_over`` is known to do no harm; where the system does not tell what each git does, nothing is.
    """
    proc = Path("/proc")
    if (proc / "self" / "cwd").exists():
        return list(_from_proc(proc, folders, passed_over))
    done = subprocess.run(["ps", "-A", "-o", "pid=,comm="], capture_output=True, check=False)
    rows = [line.split(None, 1) for line in done.stdout.decode("utf-8", "replace").splitlines()]
    return [f"pid {r[0]} ({one_line(r[1], 40)})" for r in rows if len(r) == 2 and _is_git(Path(r[1]).name)]


def find_locks(*git_dirs: Path) -> list[Path]:
    """Lock files of git: beside HEAD, index, config, packed-refs, and below refs."""
    found: set[Path] = set()
    for folder in git_dirs:
        with suppress(OSError):
            found |= {p for p in folder.iterdir() if p.name.endswith(".lock") and not p.is_dir()}
        for here, _, names in os.walk(folder / "refs"):
            found |= {Path(here) / n for n in names if n.endswith(".lock")}
    return sorted(found)


def _from_proc(proc: Path, folders: tuple[Path, ...], passed_over: Callable[[Process], bool]) -> Iterator[str]:
    inside = tuple(os.path.realpath(p) for p in folders)
    for folder in proc.iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            name = (folder / "comm").read_text("utf-8", "replace").strip()
            if not _is_git(name):
                continue
            words = (folder / "cmdline").read_bytes()
            if not words:
                continue  # it has ended, and only its parent has not taken note
            cwd = os.readlink(folder / "cwd")
        except PermissionError:
            if _may_work_here(folder, folders[0]) or any(os.fsencode(p) in words for p in inside):
                yield f"pid {folder.name} of another user"
            continue
        except OSError:
            continue
        here = any(cwd == p or cwd.startswith(p + "/") for p in inside)
        here = here or any(os.fsencode(p) in words for p in inside)
        if here and not passed_over(Process(folder, tuple(words.split(b"\0")), cwd)):
            yield f"pid {folder.name} ({one_line(name, 20)})"


def _is_git(name: str) -> bool:
    """A git, by its name: not whatever begins like one (gitea, gitlab-runner), and no server that waits for others."""
    return name == "git" or (name.startswith("git-") and name != "git-daemon")


def _may_work_here(process: Path, git_dir: Path) -> bool:
    """Could a process of another user, whose folder nobody tells us, write in this repository? root's names it."""
    with suppress(OSError):
        owner, place = process.stat().st_uid, git_dir.stat()
        return owner == place.st_uid or bool(owner and place.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    return False


def is_shell_command(command: str) -> bool:
    """Can sh parse it? Nothing is run."""
    return subprocess.run(["sh", "-n", "-c", command], capture_output=True, check=False).returncode == 0


def finds_program(word: str, cwd: Path) -> bool:
    """Would sh, started in ``cwd``, find this program or builtin? Nothing is run."""
    look = ["sh", "-c", 'command -v -- "$1"', "sh", word]
    return subprocess.run(look, cwd=cwd, capture_output=True, check=False).returncode == 0
