"""Sessions of their own that read and decide: what a terminal, a cron job, or each command of a harness is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.hubs import cn_env

_CN = [sys.executable, "-m", "cn"]


class Said(NamedTuple):
    """What a command said, on both streams, and its exit code."""

    text: str
    code: int


def alone(hub: Path, *words: str, env: Mapping[str, str] | None = None) -> Said:
    """A command in a session of its own, which is gone when it returns."""
    done = subprocess.run(
        [*_CN, "--hub", str(hub), *words],
        env=cn_env(env or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        start_new_session=True,
        check=False,
    )
    return Said(done.stdout, done.returncode)


class Shell(NamedTuple):
    """A shell that lives, in a session of its own."""

    process: subprocess.Popen[str]
    hub: Path

    def cn(self, *words: str) -> Said:
        """A command in it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\0".join((*_CN, "--hub", str(self.hub), *words)).replace("\n", " ") + "\n")
        self.process.stdin.flush()
        code, size = map(int, self.process.stdout.readline().split())
        return Said(self.process.stdout.read(size), code)


_SHELL = """
import subprocess, sys
for line in sys.stdin:
    words = line.rstrip("\\n").split("\\0")
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8")
    said = (done.stdout + done.stderr).encode("ascii", "replace").decode()
    sys.stdout.write(f"{done.returncode} {len(said)}\\n{said}")
    sys.stdout.flush()
"""


@contextmanager
def shell(hub: Path, env: Mapping[str, str] | None = None) -> Iterator[Shell]:
    """A shell that lives until the block ends."""
    words = [sys.executable, "-c", _SHELL]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, env=cn_env(env or {}), encoding="utf-8", start_new_session=True, **pipes) as process:  # type: ignore[call-overload]
        yield Shell(process, hub)
        assert process.stdin is not None
        process.stdin.close()
