"""Running the wake command."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress

from cn.shell.hub import Hub

_SECONDS = 60.0
AGENT_SECONDS = 900.0
"""What the runtime may take: some calls to a model."""


def read_pending(hub: Hub, *, clear: bool = False) -> list[str]:
    """The threads that nobody was woken for yet; ``clear`` forgets them."""
    path = hub.state / "wake"
    try:
        names = path.read_text("utf-8").split("\n")
    except OSError:
        return []
    if clear:
        with suppress(FileNotFoundError):
            path.unlink()
    return [name for name in dict.fromkeys(names) if name]


def run_wake(hub: Hub, command: str, threads: Sequence[str]) -> str:
    """Run ``command`` with the shell in the hub; empty, or why it failed.

    Standard input is "you have inbox" and the thread names, a line each; the environment
    has ``CN_HUB`` and ``CN_THREADS``. A command that runs longer than a minute is ended.
    """
    # The user's own command, from this clone's git config, which no push can carry.
    return run_program(hub, ["/bin/sh", "-c", command], threads, _SECONDS)


def run_program(hub: Hub, words: Sequence[str], threads: Sequence[str], seconds: float) -> str:
    """The same for a program with its arguments, and another time limit."""
    env = {**os.environ, "CN_HUB": str(hub.root), "CN_THREADS": " ".join(threads)}
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
