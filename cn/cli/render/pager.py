"""A text longer than the screen goes through the user's pager, as git shows its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from shutil import get_terminal_size

import click

from cn.cli.render.foreground import run_in_foreground
from cn.values.text import for_terminal

_LIKE_GIT = {"LESS": "FRX", "LV": "-c"}
"""What git gives a pager where the user said nothing: colours yes, and no wait for what fits (git-config(1),
``core.pager``)."""
_NOT_STARTED = (126, 127)
"""What a shell answers for a command that it cannot start (POSIX, "Exit Status for Commands")."""


def show_lines(lines: list[str], pager: Callable[[], str], prompt: str = "") -> None:
    """Print the lines; on a terminal with fewer of them through the command that ``pager`` names.

    ``prompt`` is what less says below them in the place of its colon, where the user has set nothing. Then keys follow
    that are the caller's: less takes none of them for one that writes files or starts commands (less(1), "SECURITY").
    """
    text = "\n".join(lines)
    if not (sys.stdout.isatty() and len(lines) >= get_terminal_size().lines):
        click.echo(text)
        return
    command = pager()
    if command in ("", "cat") or not _page(command, text, prompt):
        click.echo(text)


def _page(command: str, text: str, prompt: str) -> bool:
    """Did the pager show it? As much of it as somebody wanted to see: who leaves early has seen enough."""
    sys.stdout.flush()
    less = f"{_LIKE_GIT['LESS']} -Ps?e(END) .{prompt}$" if prompt else _LIKE_GIT["LESS"]
    env = {**_LIKE_GIT, "LESS": less, **({"LESSSECURE": "1"} if prompt else {}), **os.environ}
    return run_in_foreground(command, text=f"{for_terminal(text)}\n", env=env) not in _NOT_STARTED
