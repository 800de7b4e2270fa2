"""Commands of the documentation, run as a user would type them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from tests.support.hubs import ROOT

_SECONDS = 120.0


class Terminal:
    """A shell that remembers its folder; ``cn`` is the one under test."""

    def __init__(self, folder: Path) -> None:
        tools = folder / "tools"
        tools.mkdir(parents=True)
        (tools / "cn").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m cn "$@"\n')
        (tools / "cn").chmod(0o755)
        self._env = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        self.start = self.folder = folder / "stage"
        self.start.mkdir()

    def run(self, command: str, **env: str) -> str:
        """What the command prints; it must end with 0. ``env``: more of the environment."""
        if command.startswith("cd "):
            target = command.removeprefix("cd ")
            # A page is read by people: 'cd' names a folder beside or below.
            here = self.folder / target
            self.folder = here if here.is_dir() else self.start / target
            assert self.folder.is_dir(), command
            return ""
        done = subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            env={**self._env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_SECONDS,
            check=False,
        )
        said = done.stdout.decode()
        assert done.returncode == 0, f"{command}: {said}"
        return said


def commands(text: str) -> list[tuple[str, str]]:
    """The commands of a console block (``$ …``), each with the output below it."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), ""))
        else:
            found[-1] = (found[-1][0], found[-1][1] + line + "\n")
    return found
