"""One git that answers all questions of a run about objects (git-cat-file(1), ``--batch-command``).

Starting a git takes 4 ms, an answer of this one takes 1, and a run that does anything asks some twenty times.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

ARGS = ("cat-file", "--batch-command", "--buffer")
_CHUNK = 1 << 20
_END_SECONDS = 5.0


class Ended(Exception):
    """It ended before it had answered: its exit code, what it said, and whether it was too slow."""

    def __init__(self, code: int, err: bytes, timed_out: bool) -> None:
        super().__init__(code)
        self.code, self.err, self.timed_out = code, err, timed_out


class Reader:
    """The process behind the questions. ``start`` starts it, for the first one, and again where it ended."""

    def __init__(self, start: Callable[[], subprocess.Popen[bytes]]) -> None:
        self._start = start
        self._child: subprocess.Popen[bytes] | None = None

    def ask(self, lines: bytes, seconds: float) -> bytes:
        """What git says to these commands; it changes nothing. Raises :class:`Ended`."""
        if self._child is None:
            self._child = self._start()
        # Nothing that git reads from objects can hold this word: it is made now.
        word = f"end_{os.urandom(16).hex()}"
        try:
            return self._converse(self._child, b"%sinfo %s\nflush\n" % (lines, word.encode()), word, seconds)
        except BaseException:  # Ctrl-C too: what it has not said yet would be taken for the next answer
            self._kill()
            raise

    def _converse(self, child: subprocess.Popen[bytes], question: bytes, word: str, seconds: float) -> bytes:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        said, err = bytearray(), bytearray()
        last = f"{word} missing\n".encode()
        deadline = time.monotonic() + seconds
        with suppress(BrokenPipeError):  # then it tells why
            child.stdin.write(question)  # it reads all of it before it answers
            child.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ, said)
            selector.register(child.stderr, selectors.EVENT_READ, err)
            while not said.endswith(last):
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    self._kill()
                    raise Ended(child.returncode, bytes(err), timed_out=True)
                for key, _ in ready:
                    data = os.read(key.fd, _CHUNK)
                    key.data.extend(data)
                    if not data:
                        selector.unregister(key.fileobj)
                if not selector.get_map():
                    child.wait()
                    raise Ended(child.returncode, bytes(err), timed_out=False)
        del said[-len(last) :]
        return bytes(said)

    def close(self) -> None:
        """End it. Asked again it would start again."""
        child, self._child = self._child, None
        if child is None:
            return
        for pipe in (child.stdin, child.stdout, child.stderr):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()
        try:
            child.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _kill(self) -> None:
        if self._child is not None:
            self._child.kill()
        self.close()
