"""Run what the user chose for a terminal, a pager or an editor, as git does."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping


def run_in_foreground(command: str, *words: str, text: str | None = None, env: Mapping[str, str] | None = None) -> int:
    """Run a command of the shell with these words behind it; its exit code, as a shell tells it.

    ``text`` goes to its standard input, else it has ours; ``env`` is its environment, else ours. While it runs Ctrl-C
    is for it alone.
    """
    line = f'{command} "$@"' if words else command
    child = subprocess.Popen(
        ["sh", "-c", line, command, *words], stdin=None if text is None else subprocess.PIPE, env=env or os.environ
    )
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        child.communicate(None if text is None else text.encode("utf-8", "backslashreplace"))
    finally:
        signal.signal(signal.SIGINT, before)
    return child.returncode
