"""What others send is weighed before anybody reads it as JSON: with very many parts it would hold everybody up.

To read a batch of half a million calls, a call with a million arguments, or an answer of as many texts, takes the
server's one thread seconds.
"""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from typing import Any, Final

from cn.server.door import App, Receive, Scope, Send

MOST_PARTS: Final = 20_000
"""Members and elements of all objects and lists of a call. A file's content is one, whatever its size."""
_PIECE: Final = 1 << 16
_INVALID: Final = -32600
_BATCH: Final = "several calls in one body are not taken: send each by itself"
_PARTS: Final = f"the call has more than {MOST_PARTS:,} members and elements: ask several times, with a part each"
_BAD_REQUEST: Final = 400


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


def weighed(app: App, most: int) -> App:
    """The same, which gets no body with too many parts, and no batch. One of more than ``most`` bytes it is to refuse
    itself: of that it gets the beginning.
    """

    async def look(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        body, weight, last = bytearray(), Weight(), await receive()
        while last["type"] == "http.request":
            weight.add(last.get("body", b""))
            body += last.get("body", b"")
            if not last.get("more_body") or len(body) > most:
                break
            last = await receive()
        whole = last["type"] == "http.request"
        if whole and len(body) <= most and weight.why:
            await _refuse(send, weight.why)
            return
        again = [{**last, "body": bytes(body)} if whole else last]
        await app(scope, lambda: _next(again, receive), send)

    return look


async def _next(again: list[MutableMapping[str, Any]], receive: Receive) -> MutableMapping[str, Any]:
    return again.pop() if again else await receive()


async def _refuse(send: Send, why: str) -> None:
    """As a server answers that cannot say which call it was (JSON-RPC 2.0, section 5)."""
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": _INVALID, "message": why}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": _BAD_REQUEST, "headers": headers})
    await send({"type": "http.response.body", "body": body})
