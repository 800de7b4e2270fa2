"""A git server that lists whatever it is told to (gitprotocol-v2(5), git://); there is nothing behind it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress


class LyingServer:
    """``rows`` is what it lists, each ``OID NAME [attributes]`` as bytes."""

    def __init__(self, rows: Sequence[bytes] = ()) -> None:
        self.rows = list(rows)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"git://127.0.0.1:{self._socket.getsockname()[1]}/hub"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Answer nobody any more."""
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client, suppress(OSError):
                client.settimeout(10)
                client.recv(1 << 16)
                words = (b"version 2\n", b"ls-refs=unborn\n", b"fetch\n", b"object-format=sha1\n")
                client.sendall(_packets(words))
                asked = b""
                while not asked.endswith(b"0000"):
                    asked += (more := client.recv(1 << 16))
                    if not more:
                        break
                client.sendall(_packets([row + b"\n" for row in self.rows]))
                client.recv(1)


def _packets(lines: Sequence[bytes]) -> bytes:
    return b"".join(b"%04x%s" % (len(line) + 4, line) for line in lines) + b"0000"
