"""The command ``cn`` as a process that was forked, not started: without the imports, a tenth of the time.

See ``tests/support/fork_server.py``. Each process of pytest has its own servers, started when first needed.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout under test."""

_PROGRAM = Path(__file__).with_name("fork_server.py")
_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_")
"""What begins so is read when an interpreter or its libraries start, so a fork comes too late."""

_WITH_MODEL = frozenset(("agent", "replay", "context", "doctor"))
_servers: dict[str, _Server] = {}
_starting = threading.Lock()


class _Server:
    def __init__(self, kind: str, env: Mapping[str, str]) -> None:
        self.at_start = _at_start(env)
        self.control, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, str(_PROGRAM), str(theirs.fileno()), kind],
                env=env,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def close(self) -> None:
        self.control.close()
        self.process.wait()


def can_fork(env: Mapping[str, str]) -> bool:
    """Is a forked run the same as a started one in this environment?"""
    return _at_start(env) == _at_start({**os.environ, "PYTHONPATH": str(ROOT)})


def run(
    words: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: str, seconds: float
) -> subprocess.CompletedProcess[str]:
    """As :func:`subprocess.run` of ``python -m cn WORDS`` with captured text."""
    kind = "model" if _WITH_MODEL & set(words) else "plain"
    mask = os.umask(0o022)
    os.umask(mask)
    asked = {
        "program": str(ROOT / "cn/__main__.py"),
        "words": list(words),
        "env": dict(env),
        "cwd": str(cwd.absolute()),
        "umask": mask,
    }
    reply, theirs = socket.socketpair()
    pipes = [os.pipe() for _ in range(3)]
    (stdin_theirs, stdin_ours), (stdout_ours, stdout_theirs), (stderr_ours, stderr_theirs) = pipes
    files = (stdin_theirs, stdout_theirs, stderr_theirs, theirs.fileno())
    try:
        with theirs:
            socket.send_fds(_server(kind, env).control, [b"x"], files)
    finally:
        for number in files[:3]:
            os.close(number)
    with reply, reply.makefile("rb") as answers:
        reply.sendall(json.dumps(asked).encode())
        reply.shutdown(socket.SHUT_WR)
        pid = int(answers.readline())
        deadline = time.monotonic() + seconds
        try:
            said = _communicate(stdin_ours, stdin.encode(), (stdout_ours, stderr_ours), deadline)
            reply.settimeout(max(0.01, deadline - time.monotonic()))
            code = int(answers.readline())
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(["cn", *words], seconds) from None
    out, err = (data.decode().replace("\r\n", "\n").replace("\r", "\n") for data in said)
    return subprocess.CompletedProcess(["cn", *words], code, out, err)


def close_servers() -> None:
    """End the servers; the next run starts others."""
    with _starting:
        while _servers:
            _servers.popitem()[1].close()


def _server(kind: str, env: Mapping[str, str]) -> _Server:
    with _starting:
        if kind not in _servers:
            _servers[kind] = _Server(kind, env)
        return _servers[kind]


def _at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_AT_START)}


def _communicate(stdin: int, data: bytes, outputs: tuple[int, int], deadline: float) -> tuple[bytes, bytes]:
    """Write ``data``, read what comes until both ends are closed."""
    said = {number: bytearray() for number in outputs}
    left = memoryview(data)
    with selectors.DefaultSelector() as waiting:
        for number in outputs:
            waiting.register(number, selectors.EVENT_READ)
        os.set_blocking(stdin, False)
        waiting.register(stdin, selectors.EVENT_WRITE)
        try:
            while waiting.get_map():
                ready = waiting.select(deadline - time.monotonic())
                if not ready and time.monotonic() >= deadline:
                    raise TimeoutError
                for key, _ in ready:
                    number = key.fd
                    if number != stdin:
                        if part := os.read(number, 65536):
                            said[number] += part
                            continue
                    elif left:
                        try:
                            left = left[os.write(stdin, left) :]
                            continue
                        except BrokenPipeError:
                            pass
                    waiting.unregister(number)
                    os.close(number)
        except BaseException:
            for key in list(waiting.get_map().values()):
                os.close(key.fd)
            raise
    return bytes(said[outputs[0]]), bytes(said[outputs[1]])
