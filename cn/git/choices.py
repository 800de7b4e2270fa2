"""What the user chose in git for a terminal: the pager, the editor (git-var(1))."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from cn.git.environment import users_environment

PAGER, EDITOR = "GIT_PAGER", "GIT_EDITOR"
_SECONDS = 10.0


def user_choice(folder: Path, what: str) -> str:
    """The command that git would run there, for a shell; empty when git names none.

    ``what`` is :data:`PAGER` (``GIT_PAGER``, ``core.pager``, ``PAGER``, else ``less``) or :data:`EDITOR`
    (``GIT_EDITOR``, ``core.editor``, ``VISUAL``, ``EDITOR``, else ``vi``). cn's own settings do not count here.
    """
    asked = {what: os.environ[what]} if what in os.environ else {}
    try:
        done = subprocess.run(
            ["git", "-C", folder, "var", what],
            env={**users_environment(), **asked},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "surrogateescape").strip() if done.returncode == 0 else ""
