"""A git daemon on loopback, with a delay in front of it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.frame.place import Place

_DELAY = Path(__file__).with_name("delay.py")
_SECONDS = 20.0


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def git_daemon(place: Place, port: int, *, seconds: float) -> Iterator[None]:
    """``git daemon`` on the peers of a place, reached at ``port``, late by ``seconds`` each way."""
    inner = free_port()
    base = place.root / "peers"
    base.mkdir()
    daemon = ["git", "daemon", "--reuseaddr", "--listen=127.0.0.1", f"--port={inner}", "--export-all"]
    daemon += ["--max-connections=64", f"--base-path={base}", str(base)]
    delay = [sys.executable, str(_DELAY), str(port), str(inner), str(seconds)]
    running = [subprocess.Popen(c, env=place.env, start_new_session=True) for c in (daemon, delay)]
    try:
        for wanted in (inner, port):
            wait_for(wanted)
        yield
    finally:
        for process in running:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def wait_for(port: int) -> None:
    """Return when somebody listens there."""
    until = time.monotonic() + _SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
