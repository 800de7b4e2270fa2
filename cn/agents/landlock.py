"""Start a command inside sandlock: ``python -P landlock.py {JSON object} command…``.

A program of its own, for it stays beside the agent: sandlock's supervisor answers for the system calls that Landlock
does not know, such as a connection to another's socket. The object's keys are ``readable`` and ``writable``
(paths), ``network`` (true or false), and ``cwd``. Nothing is imported but the standard library and sandlock.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

import sandlock

_CANNOT_START, _BY_SIGNAL = 127, 128
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_DONE = signal.SIGUSR1


def main(asked: str, command: Sequence[str]) -> int:
    """Run it, with our own standard files, and pass on what asks it to end; its exit code."""
    given = json.loads(asked)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would leave no exit code (wait(2))
    signal.pthread_sigmask(signal.SIG_BLOCK, (*_PASSED_ON, _DONE))
    box = sandlock.Sandbox(
        fs_readable=given["readable"],
        fs_writable=given["writable"],
        net_allow=["*:*", "udp://*:*"] if given["network"] else [],
        net_allow_bind=["*"] if given["network"] else [],
        cwd=given["cwd"],
    )
    try:
        process = box.popen(list(command))
    except (RuntimeError, ValueError, OSError, sandlock.SandlockError) as why:
        print(f"sandlock cannot start {command[0]}: {why}", file=sys.stderr)
        return _CANNOT_START
    code = [_CANNOT_START]

    def wait() -> None:
        ended = process.wait()
        code[0] = ended.exit_code if ended.signal < 0 else _BY_SIGNAL + ended.signal
        os.kill(os.getpid(), _DONE)

    group = process.pid  # it leads one of its own, which our launcher's signals do not reach
    threading.Thread(target=wait, daemon=True).start()
    while (heard := signal.sigwait((*_PASSED_ON, _DONE))) != _DONE:
        with suppress(ProcessLookupError):
            os.killpg(group, heard)
    return code[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
