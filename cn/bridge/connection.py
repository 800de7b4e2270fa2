"""Requests to the server over its Unix socket or a URL: as much of HTTP/1.1 as that takes (RFC 9112).

``http.client`` of the standard library costs 70 ms and 8 MB, which each agent would pay.
"""

from __future__ import annotations

import errno
import json
import os
import socket
from typing import NamedTuple

from cn.bridge.owners import check_peer, check_place

_SECONDS = 600.0
_CONNECT_SECONDS = 10.0
_MOST_HEAD = 64 << 10
_MOST_BODY = 32 << 20
_PORTS = {"http": 80, "https": 443}
_MOST_HEALTH = 1 << 16
_ROOT = 0
_FCHMODAT2, _SERVER, _ASK = 452, 3, 0x636E0000
"""As in :mod:`cn.agents.landlock`."""


class Unreachable(Exception):
    """Nobody answers. ``sent``: the request may have arrived."""

    def __init__(self, why: str, *, sent: bool) -> None:
        super().__init__(why)
        self.sent = sent


class Address(NamedTuple):
    """Where the server is: a Unix socket, or host and port; ``path`` is that of the requests.

    ``health``: the socket is the user's that this file of the server names at the moment. ``users`` are whose the
    server at a socket may be, beside ourselves and root.
    """

    unix: str = ""
    host: str = "localhost"
    port: int = 0
    path: str = "/mcp"
    secure: bool = False
    health: str = ""
    users: tuple[int, ...] = ()

    def __str__(self) -> str:
        if self.health:
            return f"the socket that {self.health} names"
        return self.unix or f"{'https' if self.secure else 'http'}://{self.host}:{self.port}{self.path}"


def parse_address(url: str) -> Address:
    """A URL as ``http://HOST[:PORT]/PATH``; raises ``ValueError``."""
    scheme, colon, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    host, port = place, ""
    if place.startswith("["):
        host, _, port = place[1:].partition("]")
        port = port.removeprefix(":")
    elif ":" in place:
        host, _, port = place.partition(":")
    whole = scheme in _PORTS and colon and host and host.isascii() and "@" not in place
    if not whole or (port and not port.isdigit()):
        raise ValueError(f"{url[:100]!r} is no URL: write http://HOST:PORT/mcp, or https:// beyond this machine")
    if scheme == "http" and host not in ("localhost", "127.0.0.1", "::1"):
        raise ValueError(f"{url[:100]!r} would show the token to the network: use https://")
    if any(ord(character) <= 32 or ord(character) > 126 for character in path):
        raise ValueError(f"{url[:100]!r} is no URL")
    return Address("", host, int(port or _PORTS[scheme]), f"/{path}" if slash else "/mcp", scheme == "https")


class Response(NamedTuple):
    """Status, headers by lower-case names, and body."""

    status: int
    headers: dict[str, str]
    body: bytes


class Connection:
    """One connection to the server, opened when it is needed, kept while it serves."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self._rest = b""

    def post(self, body: bytes, headers: dict[str, str]) -> Response:
        """One request, and its response. Raises :class:`Unreachable`; nothing is sent twice."""
        if self._socket is not None and _is_closed(self._socket):
            self.close()
        if self._socket is None:
            self._connect()
        assert self._socket is not None
        address = self._address
        host = "localhost" if address.unix or address.health else f"{address.host}:{address.port}"
        lines = [f"POST {address.path} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        try:
            self._socket.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
            return self._receive()
        except (OSError, ValueError) as why:
            self.close()
            raise Unreachable(str(why), sent=True) from None

    def _connect(self) -> None:
        address = self._address
        try:
            if address.unix or address.health:
                made = _connect_unix(_user_socket(address.health) if address.health else address.unix, address.users)
            else:
                made = socket.create_connection((address.host, address.port), _CONNECT_SECONDS)
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if address.secure:
                import ssl  # 30 ms that only who is elsewhere pays

                made = ssl.create_default_context().wrap_socket(made, server_hostname=address.host)
            made.settimeout(_SECONDS)
        except OSError as why:
            raise Unreachable(str(why), sent=False) from None
        self._socket, self._rest = made, b""

    def _receive(self) -> Response:
        head, _, self._rest = self._until(b"\r\n\r\n").partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, status = first.partition(" ")
        if not version.startswith("HTTP/1."):
            raise ValueError("the answer is no HTTP")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = self._chunks()
        elif "content-length" in headers:
            body = self._exactly(int(headers["content-length"]))
        else:
            body = b""
        if headers.get("connection", "").lower() == "close":
            self.close()
        return Response(int(status[:3]), headers, body)

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._rest:
            if len(self._rest) > _MOST_HEAD:
                raise ValueError("the answer's head is too long")
            self._more()
        return self._rest

    def _exactly(self, size: int) -> bytes:
        if not 0 <= size <= _MOST_BODY:
            raise ValueError("the answer is too long")
        parts, have = [self._rest], len(self._rest)
        while have < size:
            self._rest = b""
            self._more()
            parts.append(self._rest)
            have += len(self._rest)
        data = b"".join(parts)
        self._rest = data[size:]
        return data[:size]

    def _chunks(self) -> bytes:
        """A chunked body (RFC 9112, section 7.1), as proxies make them."""
        parts: list[bytes] = []
        while True:
            line, _, self._rest = self._until(b"\r\n").partition(b"\r\n")
            size = int(line.split(b";")[0], 16)
            if size == 0:
                while True:
                    line, _, self._rest = self._until(b"\r\n").partition(b"\r\n")
                    if not line:
                        return b"".join(parts)
            parts.append(self._exactly(size))
            if sum(map(len, parts)) > _MOST_BODY:
                raise ValueError("the answer is too long")
            self._exactly(2)

    def _more(self) -> None:
        assert self._socket is not None
        data = self._socket.recv(1 << 18)
        if not data:
            raise ValueError("the server ended the connection")
        self._rest += data

    def close(self) -> None:
        """Let go of it."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _connect_unix(path: str, more: tuple[int, ...]) -> socket.socket:
    """To a socket that is ours, at which we listen ourselves; raises ``OSError``."""
    users = {os.geteuid(), _ROOT, *more}
    check_place(path, users)
    made = _make_socket(path)
    try:
        check_peer(made, users)
    except OSError:
        made.close()
        raise
    return made


def _make_socket(path: str) -> socket.socket:
    """Connected to ``path``, or, where a wrap leaves us no such sockets, to the server by who started us (``--no-unix``
    of :mod:`cn.agents.seccomp`).
    """
    try:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as why:
        if why.errno != errno.EAFNOSUPPORT:
            raise
        return _ask_for_server()
    try:
        made.settimeout(_CONNECT_SECONDS)
        made.connect(path)
    except OSError:
        made.close()
        raise
    return made


def _ask_for_server() -> socket.socket:
    import ctypes  # only who is in such a wrap pays for it

    fd = ctypes.CDLL(None, use_errno=True).syscall(_FCHMODAT2, _SERVER, None, 0, _ASK)
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return socket.socket(fileno=fd)


def _user_socket(health: str) -> str:
    """Where the server that runs listens for the user; raises ``OSError`` where it says that it does not run."""
    try:
        with open(health, "rb") as file:
            found = json.loads(file.read(_MOST_HEALTH))
        path, state, place = str(found["user_socket"]), found["state"], found["place"]
    except (ValueError, KeyError, TypeError):
        raise OSError("the file says nothing of it") from None
    if place != _place_of(health):
        raise OSError("it tells of the server of another folder, of which this one is a copy: none runs here")
    if state == "stopped":
        raise OSError("it was stopped")
    return path


def _place_of(health: str) -> str:
    """Which folder the hub's own state is in, as its server names it (:func:`cn.system.files.identity_of`)."""
    found = os.stat(os.path.dirname(os.path.dirname(health)))
    return f"{found.st_dev}:{found.st_ino}"


def _is_closed(connection: socket.socket) -> bool:
    """Has the other side ended it while it rested? Then nothing was sent on it."""
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except (BlockingIOError, InterruptedError):
        return False
    except (OSError, ValueError):
        return not hasattr(connection, "pending")  # TLS cannot be looked into; a lost one shows when it is used
    finally:
        connection.settimeout(_SECONDS)
