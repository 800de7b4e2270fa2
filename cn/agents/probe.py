"""What an agent could reach: run inside its wrap, it tries, and says what it could (``cn doctor``).

A program of the standard library alone: ``python -I -S probe.py``, with a JSON object on its standard input: paths that
it must not be able to read or list, and its own token. It answers with a JSON list of sentences, empty where the wrap
holds.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress

_TOKEN = b"CN_AGENT_TOKEN="


def leaks(paths: Sequence[str], own: str) -> Iterator[str]:
    """Each thing that can be reached from here, in a sentence."""
    for path in paths:
        if _can_open(path):
            yield f"it can read {path}"
    for pid, token in _tokens():
        if token != own:
            yield f"it can read the token of another agent in /proc/{pid}/environ"
            break
    for path in paths:
        if _can_write(path):
            yield f"it can write in {path}"


def _can_open(path: str) -> bool:
    try:
        if stat.S_ISSOCK(os.stat(path).st_mode):
            return _can_call(path)
        if os.path.isdir(path):
            return bool(os.listdir(path))
        with open(path, "rb") as file:
            return bool(file.read(1))
    except OSError:
        return False


def _can_call(path: str) -> bool:
    """To see a socket is not to be let in."""
    with socket.socket(socket.AF_UNIX) as caller:
        try:
            caller.connect(path)
        except ConnectionRefusedError:  # nobody listens at the moment
            return True
    return True


def _can_write(path: str) -> bool:
    """Only what is there outside is tried: a folder of the wrap's own, which is empty, is nobody's."""
    if not os.path.isdir(path) or not _can_open(path):
        return False
    name = os.path.join(path, f".cn-probe-{os.getpid()}")
    try:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        return False
    os.unlink(name)
    return True


def _tokens() -> Iterator[tuple[str, str]]:
    with suppress(OSError):
        for pid in os.listdir("/proc"):
            if pid.isdigit():
                with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
                    for part in file.read().split(b"\0"):
                        if part.startswith(_TOKEN):
                            yield pid, part.removeprefix(_TOKEN).decode("ascii", "replace")


def main() -> None:
    """Read what to try, and answer."""
    asked = json.load(sys.stdin)
    json.dump(list(leaks(asked["paths"], asked["token"])), sys.stdout)


if __name__ == "__main__":
    main()
