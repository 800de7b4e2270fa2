"""cn at a real terminal: a session of its own on a pseudo-terminal, keys in, screen out."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

from tests.support.hubs import cn_env

_SECONDS = 60.0
_ESCAPES = r"\x1b\[[0-9;?]*[A-Za-z]"


class Terminal:
    """A running cn with the terminal it stands on; ``raw`` is all that it wrote, ``text`` without colours."""

    def __init__(self, hub: Path, *words: str, lines: int = 200, columns: int = 100, **env: str) -> None:
        self._keys, screen = pty.openpty()
        fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cn", "--hub", str(hub), *words],
            cwd=hub,
            stdin=screen,
            stdout=screen,
            stderr=screen,
            env=cn_env({"TERM": "xterm-256color", **env}),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(screen)
        self.raw = ""
        self.waits = False
        """Has it said nothing for longer than anything takes?"""
        self._seen = 0

    @property
    def text(self) -> str:
        return re.sub(_ESCAPES, "", self.raw).replace("\r\n", "\n")

    def expect(self, words: str) -> str:
        """Wait for the words, behind those waited for before; what was written up to them."""
        deadline = time.monotonic() + _SECONDS
        while (found := self.text.find(words, self._seen)) < 0:
            if time.monotonic() > deadline or not self._read():
                self.process.kill()
                self.process.wait(_SECONDS)
                raise AssertionError(f"no {words!r} in:\n{self.text}")
        before, self._seen = self.text[self._seen : found], found + len(words)
        return before

    def type(self, keys: str) -> None:
        os.write(self._keys, keys.encode())

    def answer(self, question: str, keys: str) -> str:
        """Wait for a question, and type the answer."""
        before = self.expect(question)
        self.type(keys)
        return before

    def end(self) -> int:
        """Read to the end; the exit code."""
        while self._read():
            pass
        try:
            code = self.process.wait(1 if self.waits else _SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(_SECONDS)
            raise AssertionError(f"it does not end:\n{self.text}") from None
        os.close(self._keys)
        return code

    def close(self) -> int:
        """The window is closed; how cn ended (negative: by that signal)."""
        os.close(self._keys)
        return self.process.wait(_SECONDS)

    def _read(self) -> bool:
        if not select.select([self._keys], [], [], _SECONDS)[0]:
            self.waits = True
            return False
        try:
            data = os.read(self._keys, 65536)
        except OSError:  # EIO: nobody is there any more
            return False
        self.raw += data.decode("utf-8", "replace")
        return bool(data)
