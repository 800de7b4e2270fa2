"""Move refs with one git that stays (git-update-ref(1), ``--stdin``): starting one for each takes 4 ms."""

from __future__ import annotations

import os
import select
import subprocess
import time
from contextlib import suppress

from cn.git.process import Git, kill_group, tail
from cn.values.names import Oid

_SECONDS = 30.0
_END_SECONDS = 1.0
_CHUNK = 1 << 16
_DURABLE = {"core.fsync": "committed,reference"}
"""git's own default flushes no ref (git-config(1), ``core.fsync``)."""
_DONE = b"commit: ok\n"


class RefWriter:
    """Moves a ref from a value to another. ``git`` has the lock's descriptor as ``lock_fd``: the child inherits it.

    So a child that a killed process leaves in the middle of an update holds the lock until it has ended.
    """

    def __init__(self, git: Git) -> None:
        self._git = git.with_settings(_DURABLE)
        self._child: subprocess.Popen[bytes] | None = None

    def move(self, ref: str, new: Oid, old: Oid | None) -> str:
        """Set ``ref`` to ``new`` if it is ``old`` (None: not there), on disk. Empty, or what git says against it.

        After anything but an empty answer nobody knows whether it moved: the ref tells.
        """
        if self._child is not None and self._child.poll() is not None:
            self.close()
        if self._child is None:
            self._child = self._git.start("update-ref", "--stdin")
        try:
            failed = self._converse(
                self._child, f"start\nupdate {ref} {new} {old or '0' * len(new)}\ncommit\n".encode()
            )
        except BaseException:
            self.close()
            raise
        if failed:
            self.close()
        return failed

    def _converse(self, child: subprocess.Popen[bytes], words: bytes) -> str:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        with suppress(BrokenPipeError):  # what it says tells why
            child.stdin.write(words)
            child.stdin.flush()
        said, err = b"", b""
        deadline = time.monotonic() + _SECONDS
        while not said.endswith(_DONE):
            left = deadline - time.monotonic()
            ready = select.select([child.stdout, child.stderr], [], [], max(0.0, left))[0]
            if not ready:
                kill_group(child)
                return "no answer within the time limit"
            for pipe in ready:
                data = os.read(pipe.fileno(), _CHUNK)
                said, err = (said + data, err) if pipe is child.stdout else (said, err + data)
                if not data:
                    child.wait()
                    while rest := os.read(child.stderr.fileno(), _CHUNK):  # why may stand there still
                        err += rest
                    return tail(err).strip() or f"update-ref ended with {child.returncode}"
        return ""

    def close(self) -> None:
        """End it: it finishes what it was told, unless that hangs. Asked again it would start again."""
        child, self._child = self._child, None
        if child is None:
            return
        with suppress(OSError):
            assert child.stdin is not None
            child.stdin.close()
        try:
            child.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            kill_group(child)
            child.wait()
        for pipe in (child.stdout, child.stderr):
            assert pipe is not None
            pipe.close()
