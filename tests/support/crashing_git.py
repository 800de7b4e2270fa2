"""A git that brings itself down over some objects, and is git for all others (started in its place by a test).

``crashing_git.py GIT IDS ARGS…``: ``IDS`` are separated by commas. It dies of SIGSEGV as soon as its arguments or its
standard input name one of them, as a git does whose stack a peer's object overflows.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys


def crash() -> None:
    """End as by a stack overflow, without a file of the memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.kill(os.getpid(), signal.SIGSEGV)


def converse(command: list[str], killers: list[bytes]) -> int:
    """Pass on what comes on standard input until it names a killer."""
    child = subprocess.Popen(command, stdin=subprocess.PIPE)
    assert child.stdin is not None
    seen = b""
    while data := os.read(0, 1 << 16):
        seen = seen[-100:] + data
        if any(killer in seen for killer in killers):
            child.kill()
            child.wait()
            crash()
        child.stdin.write(data)
        child.stdin.flush()
    child.stdin.close()
    return child.wait()


if __name__ == "__main__":
    git, ids, *args = sys.argv[1:]
    if any(oid in word for oid in ids.split(",") for word in args):
        crash()
    asks = any(word in ("--stdin", "--batch-command", "--batch", "--batch-check") for word in args)
    if not asks:
        os.execv(git, ["git", *args])
    sys.exit(converse([git, *args], [oid.encode() for oid in ids.split(",")]))
