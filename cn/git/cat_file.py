"""One git process that answers all questions of a run about objects (git-cat-file(1), ``--batch-command``).

Starting a git takes 4 ms, an answer of this one takes 1, and a run that does anything asks some twenty times.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

ARGS = ("cat-file", "--batch-command", "--buffer")
_CHUNK = 1 << 20
_END_SECONDS = 1.0


class Ended(Exception):
    """It ended before it had answered: its exit code, what it said, and whether it was too slow."""

    def __init__(self, code: int, err: bytes, timed_out: bool) -> None:
        super().__init__(code)
        self.code, self.err, self.timed_out = code, err, timed_out


class Reader:
    """The process behind the questions. ``start`` starts it, for the first one, and again where it ended.

    One that ends over a question has not answered it. What it says ends with a word that nothing has: git
    looks for that among its refs, and at no object.
    """

    def __init__(self, start: Callable[[], subprocess.Popen[bytes]]) -> None:
        self._start = start
        self._child: subprocess.Popen[bytes] | None = None

    def ask(self, lines: bytes, seconds: float) -> bytes:
        """What git says to these commands; it changes nothing. Raises :class:`Ended`."""
        if self._child is not None and self._child.poll() is not None:
            self.close()  # it ended while nobody asked: nothing is lost with it
        if self._child is None:
            self._child = self._start()
            assert self._child.stdin is not None
            os.set_blocking(self._child.stdin.fileno(), False)
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
        left = memoryview(question)
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdin, selectors.EVENT_WRITE)
            selector.register(child.stdout, selectors.EVENT_READ, said)
            selector.register(child.stderr, selectors.EVENT_READ, err)
            while not said.endswith(last):
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    self._kill()
                    raise Ended(child.returncode, bytes(err), timed_out=True)
                for key, _ in ready:
                    if key.fileobj is child.stdin:
                        left = _write(key.fd, left)
                        if not left:
                            selector.unregister(key.fileobj)
                        continue
                    data = os.read(key.fd, _CHUNK)
                    key.data.extend(data)
                    if not data:
                        selector.unregister(key.fileobj)
                if not {child.stdout, child.stderr} & {key.fileobj for key in selector.get_map().values()}:
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
            kill_group(child)
            child.wait()

    def _kill(self) -> None:
        if self._child is not None and self._child.poll() is None:
            kill_group(self._child)
        self.close()


def _write(fd: int, data: memoryview) -> memoryview:
    """As much of it as goes; what is left. Where nobody reads any more nothing is: what it says tells why."""
    try:
        return data[os.write(fd, data) :]
    except BlockingIOError:
        return data
    except BrokenPipeError:
        return data[:0]


def kill_group(child: subprocess.Popen[bytes]) -> None:
    """With what it may have started: it has a session of its own."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
