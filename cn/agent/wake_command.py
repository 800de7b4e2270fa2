"""Run the wake command."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cn.git.repository import Hub
from cn.system.files import write_file

_SECONDS = 60.0
AGENT_SECONDS = 900.0
"""What the runtime may take: some calls to a model."""


TO_WAKE, WAKING = "wake", "waking"
"""Files that name threads: of which somebody is to be told, and is being told."""
WOKEN = "CN_WOKEN"
"""Set for what a wake command starts, so that it wakes nobody again."""


def has_pending(hub: Hub) -> bool:
    """Is there a thread that nobody was woken for?"""
    return any((hub.state / name).exists() for name in (TO_WAKE, WAKING))


def take_pending(hub: Hub) -> list[str]:
    """The threads that nobody was woken for yet, taken out of the way of what arrives meanwhile."""
    fresh, taken = hub.state / TO_WAKE, hub.state / WAKING
    names = _names(taken)
    with suppress(FileNotFoundError):
        if names:
            names = list(dict.fromkeys([*names, *_names(fresh)]))
            write_file(taken, "".join(f"{name}\n" for name in names).encode())
            fresh.unlink()
        else:
            fresh.rename(taken)
            names = _names(taken)
    return names


def _names(path: Path) -> list[str]:
    try:
        lines = path.read_text("utf-8").split("\n")
    except OSError:
        return []
    return [name for name in dict.fromkeys(lines) if name]


def drop_taken(hub: Hub) -> None:
    """They were told."""
    (hub.state / WAKING).unlink(missing_ok=True)


def drop_pending(hub: Hub) -> None:
    """Nobody is to be told."""
    for name in (TO_WAKE, WAKING):
        (hub.state / name).unlink(missing_ok=True)


def run_wake(hub: Hub, command: str, threads: Sequence[str]) -> str:
    """Run ``command`` with the shell in the hub; empty, or why it failed.

    Standard input is "you have inbox" and the thread names, a line each; the environment
    has ``CN_HUB`` and ``CN_THREADS``. A command that runs longer than a minute is ended.
    """
    # The user's own command, from this clone's git config, which no push can carry.
    return run_program(hub, ["/bin/sh", "-c", command], threads, _SECONDS)


def run_program(hub: Hub, words: Sequence[str], threads: Sequence[str], seconds: float) -> str:
    """The same for a program with its arguments, and another time limit."""
    env = {**os.environ, "CN_HUB": str(hub.root), "CN_THREADS": " ".join(threads), WOKEN: "1"}
    text = "\n".join(["you have inbox", *threads, ""])
    child = subprocess.Popen(
        words,
        cwd=hub.root,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        out, _ = child.communicate(text.encode(), timeout=seconds)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        return f"it ran longer than {seconds:.0f} s"
    if child.returncode == 0:
        return ""
    said = out.decode("utf-8", "replace").strip().split("\n")[-1]
    return f"exit code {child.returncode}" + (f": {said}" if said else "")
