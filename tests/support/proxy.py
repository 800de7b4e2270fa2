"""A loopback proxy before a real server, that fails as networks and hosts do.

It passes bytes on as they are, until it is told to misbehave. All of it is below what git
speaks, so one proxy serves ``git://`` and ``http://``.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_CHUNK = 1 << 16
_PUSHING = b"report-status"
"""A client that pushes says this before its commands (gitprotocol-pack(5)); nobody else does."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong with each connection.

    ``delay`` seconds before the first byte; ``refuse``: closed at once; ``reset``: accepted and reset;
    ``hang``: nobody answers;
    ``status``: an HTTP error instead of the server, with ``pushes`` only to what is pushed; ``down``,
    ``up``: cut after so many bytes of the server's or the client's; ``push``: cut after so many bytes of
    what is pushed; ``deaf``: a push arrives and its answer does not; ``then_gone``: once something is pushed, all
    other connections are refused; ``lies``: what the server says, and what is told instead, of the same length; the
    client is understood by what it was told.
    """

    name: str
    delay: float = 0.0
    refuse: bool = False
    reset: bool = False
    hang: bool = False
    status: int = 0
    down: int = -1
    up: int = -1
    push: int = -1
    deaf: bool = False
    then_gone: bool = False
    pushes: bool = False
    lies: tuple[tuple[bytes, bytes], ...] = ()


NONE = Fault("none")


class Proxy:
    """Listens on ``port``, speaks to ``target``; ``fault`` may be changed at any time."""

    def __init__(self, target: int) -> None:
        self.target, self.fault, self.met = target, NONE, 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._stop = threading.Event()
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def close(self) -> None:
        """Let everybody go. Shut down, not closed: a thread may be waiting on the descriptor."""
        self._stop.set()
        for end in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(20)
        self._listener.close()

    def _start(self, run: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=run, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stop.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._serve, client, self.fault)

    def _serve(self, client: socket.socket, fault: Fault) -> None:
        self._open.append(client)
        self.met += fault is not NONE
        with contextlib.suppress(OSError), client:
            if fault.delay:
                time.sleep(fault.delay)
            if fault.refuse:
                return
            if fault.reset:  # socket(7), SO_LINGER: nothing is waited for
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            if fault.hang:
                self._stop.wait(120)
            elif fault.status and not fault.pushes:
                _answer(client, fault.status)
            else:
                with socket.create_connection(("127.0.0.1", self.target)) as server:
                    self._open.append(server)
                    self._pump(client, server, fault)

    def _pump(self, client: socket.socket, server: socket.socket, fault: Fault) -> None:
        said, heard, pushed = b"", 0, -1
        while not self._stop.is_set():
            quiet = 0.5 if fault.deaf and pushed >= 0 and heard < 0 else 30.0
            ready, _, _ = select.select([client, server], [], [], quiet)
            if not ready:
                return  # deaf, and the server has said all
            if client in ready:
                data = client.recv(_CHUNK)
                if not data:
                    return
                for true, told in fault.lies:
                    data = data.replace(told, true)
                said += data
                if pushed < 0 and _PUSHING in said:
                    pushed = 0
                    self.fault = Fault("gone", refuse=True) if fault.then_gone else self.fault
                if fault.status and pushed >= 0:
                    client.sendall(_error(fault.status))
                    return
                if fault.push >= 0 and pushed >= 0:
                    begin = said.index(_PUSHING)
                    left = begin + fault.push - (len(said) - len(data))
                    server.sendall(data[: max(left, 0)])
                    if len(said) - begin >= fault.push:
                        return
                    continue
                if 0 <= fault.up <= len(said):
                    server.sendall(data[: fault.up - len(said) or None])
                    return
                server.sendall(data)
            if server in ready:
                data = server.recv(_CHUNK)
                if not data:
                    return
                for true, told in fault.lies:
                    assert len(true) == len(told), told  # else the lengths of packets are wrong
                    data = data.replace(true, told)
                if fault.deaf and pushed >= 0:
                    heard = -1
                    continue
                heard += len(data)
                if 0 <= fault.down <= heard:
                    client.sendall(data[: len(data) - (heard - fault.down)])
                    return
                client.sendall(data)


def _answer(client: socket.socket, status: int) -> None:
    """An HTTP error to whatever was asked (RFC 9110)."""
    client.settimeout(10)
    said = b""
    while b"\r\n\r\n" not in said:
        data = client.recv(_CHUNK)
        if not data:
            return
        said += data
    client.sendall(_error(status))


def _error(status: int) -> bytes:
    fields = {401: b'WWW-Authenticate: Basic realm="git"\r\n', 429: b"Retry-After: 3600\r\n"}
    head = f"HTTP/1.1 {status} No\r\n".encode() + fields.get(status, b"")
    return head + b"Content-Length: 0\r\nConnection: close\r\n\r\n"


@contextmanager
def proxy(target: int) -> Iterator[Proxy]:
    """A proxy before the server on port ``target``."""
    opened = Proxy(target)
    try:
        yield opened
    finally:
        opened.close()
