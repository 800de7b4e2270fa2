"""A text longer than the screen goes through the user's pager, as git shows its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from shutil import get_terminal_size

import click

_LIKE_GIT = {"LESS": "FRX", "LV": "-c"}
"""What git gives a pager where the user said nothing: colours yes, and no wait for what fits (git-config(1),
``core.pager``)."""
_NOT_STARTED = (126, 127)
"""What a shell answers for a command that it cannot start (POSIX, "Exit Status for Commands")."""


def show_lines(lines: list[str], pager: Callable[[], str]) -> None:
    """Print the lines; on a terminal with fewer of them through the command that ``pager`` names."""
    text = "\n".join(lines)
    if not (sys.stdout.isatty() and len(lines) >= get_terminal_size().lines):
        click.echo(text)
        return
    command = pager()
    if command in ("", "cat") or not _page(command, text):
        click.echo(text)


def _page(command: str, text: str) -> bool:
    """Did the pager show it? As much of it as somebody wanted to see: who leaves early has seen enough."""
    sys.stdout.flush()
    env = {**_LIKE_GIT, **os.environ}
    child = subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE, env=env)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pager's
    try:
        child.communicate(f"{text}\n".encode("utf-8", "backslashreplace"))
    finally:
        signal.signal(signal.SIGINT, before)
    return child.returncode not in _NOT_STARTED
