"""What others send is weighed before anybody reads it as JSON: with very many parts it would hold everybody up.

To read a batch of half a million calls, a call with a million arguments, or an answer of as many texts, takes the
server's one thread seconds. And of a large body no more than the beginning is read before it has room.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from contextlib import AsyncExitStack, suppress
from typing import Any, Final, NamedTuple

from cn.server.door import CALLER, App, Receive, Scope, Send
from cn.server.room import Room

MOST_PARTS: Final = 20_000
"""Members and elements of all objects and lists of a call. A file's content is one, whatever its size."""
_PIECE: Final = 1 << 16
_INVALID: Final = -32600
_BATCH: Final = "several calls in one body are not taken: send each by itself"
_PARTS: Final = f"the call has more than {MOST_PARTS:,} members and elements: ask several times, with a part each"
SMALL: Final = 64 << 10
"""Bytes of a body that are read without room."""


class Seconds(NamedTuple):
    """Of a large body: how long it waits for room, and how long it may take to come once it has some."""

    room: float = 60.0
    body: float = 30.0


_BAD_REQUEST, _TIMEOUT, _TOO_MANY_REQUESTS = 400, 408, 429


class _Refusal(NamedTuple):
    """A status of HTTP (RFC 9110, section 15.5; RFC 6585, section 4), and why."""

    status: int
    why: str


_NO_ROOM: Final = (
    "there was no room for a request with more than {} KB within {:.0f} s: of yours one is at work at a time; wait for "
    "the answer of one, then ask again; nothing was done"
)


class Parts:
    """How many members and elements a text of JSON has, as it comes in: no piece of it holds anybody up."""

    def __init__(self) -> None:
        self.count = 0
        self._in_text, self._rest = False, b""

    def add(self, piece: bytes) -> None:
        """The next bytes."""
        piece = self._rest + piece
        cut = len(piece) - (len(piece) - len(piece.rstrip(b"\\"))) % 2  # an escape that goes on in the next piece
        piece, self._rest = piece[:cut], piece[cut:]
        plain = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        texts = plain.split(b'"')  # what marks are left begin and end texts
        outside = b"".join(texts[self._in_text :: 2])
        self._in_text ^= len(texts) % 2 == 0
        self.count += sum(map(outside.count, (b",", b"[", b"{")))


def has_more_parts(text: bytes, most: int) -> bool:
    """Has a text of JSON more than ``most``? It is looked at no further than it must be."""
    if len(text) <= most:
        return False
    parts = Parts()
    for at in range(0, len(text), _PIECE):
        parts.add(text[at : at + _PIECE])
        if parts.count > most:
            return True
    return False


class Weight:
    """Of a request's body, as it comes in."""

    def __init__(self) -> None:
        self.why = ""
        self._parts, self._begun = Parts(), False

    def add(self, piece: bytes) -> None:
        """The next bytes; :attr:`why` says what is wrong with the body as soon as that is known."""
        if self.why:
            return
        if not self._begun and (first := piece.lstrip(b" \t\r\n")[:1]):
            self._begun = True
            self.why = _BATCH if first == b"[" else ""
        self._parts.add(piece)
        if self._parts.count > MOST_PARTS:
            self.why = self.why or _PARTS


def weighed(app: App, most: int, room: Room, seconds: Seconds = Seconds()) -> App:  # noqa: B008  no state
    """The same, which gets no body with too many parts, and no batch. Of one of more than ``most`` bytes it gets the
    beginning, to refuse it itself. One of more than :data:`SMALL` has ``room`` until it is answered.
    """

    async def look(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        async with AsyncExitStack() as held:
            body = _Body(receive, most)
            refusal = await _read(body, scope, room, seconds, held)
            if refusal:
                await held.aclose()
                await body.drop(seconds.body)
                await _refuse(send, refusal)
            else:
                await app(scope, body.again, send)

    return look


async def _read(body: _Body, scope: Scope, room: Room, seconds: Seconds, held: AsyncExitStack) -> _Refusal | None:
    """All of it, as far as it is wanted; what room it has is ``held``."""
    size = _told_size(scope, body.most)
    while not body.over and len(body) <= min(size, SMALL):
        await body.read_on()
    if not body.over:
        try:
            async with asyncio.timeout(seconds.room):
                await held.enter_async_context(room.of(scope[CALLER].principal, size))
        except TimeoutError:
            return _Refusal(_TOO_MANY_REQUESTS, _NO_ROOM.format(SMALL >> 10, seconds.room))
        try:
            async with asyncio.timeout(seconds.body):  # who sends slowly holds room that others wait for
                while not body.over:
                    await body.read_on()
        except TimeoutError:
            return _Refusal(_TIMEOUT, f"the request did not come whole within {seconds.body:.0f} s: nothing was done")
    return _Refusal(_BAD_REQUEST, body.why) if body.why else None


def _told_size(scope: Scope, most: int) -> int:
    """The bytes that a body is to have (RFC 9112, section 6), or ``most`` where it has more, or its head says none."""
    told = dict(scope["headers"]).get(b"content-length", b"")
    return min(int(told), most) if told.isdigit() else most


class _Body:
    """A request's body, as far as it is read. ``over``: no more of it comes, or none is wanted."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self.most = receive, most
        self._data, self._weight = bytearray(), Weight()
        self._last: MutableMapping[str, Any] = {}
        self._given = False

    def __len__(self) -> int:
        return len(self._data)

    @property
    def _ended(self) -> bool:
        """Has all of it come, or has its caller left?"""
        return bool(self._last) and not (self._last["type"] == "http.request" and self._last.get("more_body"))

    @property
    def over(self) -> bool:
        return self._ended or len(self._data) > self.most

    @property
    def why(self) -> str:
        """What is wrong with a whole one; of one that is too long who gets it says that."""
        whole = self._ended and self._last["type"] == "http.request" and len(self._data) <= self.most
        return self._weight.why if whole else ""

    async def read_on(self) -> None:
        self._last = await self._receive()
        if self._last["type"] == "http.request":
            piece = self._last.get("body", b"")
            self._weight.add(piece)
            self._data += piece

    async def drop(self, seconds: float) -> None:
        """Let the rest come, and keep nothing: who still sends would not see the answer."""
        self._data.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._ended:
                    self._last = await self._receive()

    async def again(self) -> MutableMapping[str, Any]:
        """To receive all of it once more, and then what comes behind it."""
        if self._given:
            return await self._receive()
        self._given = True
        if self._last["type"] != "http.request":
            return self._last
        data = bytes(self._data)
        self._data = bytearray()
        return {**self._last, "body": data}


async def _refuse(send: Send, refusal: _Refusal) -> None:
    """As a server answers that cannot say which call it was (JSON-RPC 2.0, section 5)."""
    error = {"code": _INVALID, "message": refusal.why}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"retry-after", b"1")] if refusal.status == _TOO_MANY_REQUESTS else []
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
