"""The HTTP client for another server: an answer has a bound in bytes and one in time, and is one of the protocol.

The library reads a JSON answer whole, whatever its size and parts, and reads on after a call was given up. Of what it
cannot read it makes an error of that server, with the answer quoted. So what goes wrong is found here, and handed to it
as a refusal of that one request, in words of ours; others of the connection go on.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCResponse, jsonrpc_message_adapter

from cn.server.bodies import Parts, has_more_parts

MOST_BYTES = 8 << 20
"""What is read of one answer. One event of a stream may have one MiB (the library's limit)."""
MOST_MEMBERS = 50_000
"""Members and elements of all objects and lists of one message. A page of 500 tools has a hundred for each."""
TOO_MANY = f"has more than the {MOST_MEMBERS:,} members and elements that cn reads"
NOT_LET_IN, LATER, UNKNOWN, GONE, ENDED = -32051, -32052, -32053, -32054, -32055
"""Our codes for answers that are not the other server's own word."""
REMEDIES = {
    NOT_LET_IN: "it was not done, and asking again does not help: tell the user, who corrects the server's table in "
    "agency.toml, or its secret",
    LATER: "it was not done: ask again in a while",
    UNKNOWN: "it may have done what was asked: look, before you ask again",
    ENDED: "it is reached anew; it was not done: ask again in a while",
    GONE: "it is reached anew; it may have done what was asked: look, before you ask again",
}
"""What who asked does next."""
_SHUT = (401, 403, 407)
_ACCEPTED, _SENDS_ON, _WRONG, _NOT_THERE, _TOO_MANY, _FAILED, _AWAY = 202, 300, 400, 404, 429, 500, 503
_SESSION = "mcp-session-id"
_GRACE = 1.0
"""Seconds after which an exchange ends whose call was given up: the call tells more clearly why."""
_LEAVING = 5.0
"""Seconds for the farewell."""
_CONNECT = 30.0
_SOONEST = 1000
"""Milliseconds after which a stream that ended is opened again, whatever its server says."""


def open_client(headers: Mapping[str, str], seconds: float) -> httpx2.AsyncClient:
    """A client of which each exchange has ``seconds``, but for the stream of notifications, which stays open."""
    return _Client(seconds, {**headers, "accept-encoding": "identity"})


class _Client(httpx2.AsyncClient):
    def __init__(self, seconds: float, headers: Mapping[str, str]) -> None:
        # Between two notifications hours may pass.
        super().__init__(headers=dict(headers), timeout=httpx2.Timeout(_CONNECT, read=None))
        self._seconds = seconds

    async def send(self, request: httpx2.Request, *, stream: bool = False, **how: Any) -> httpx2.Response:
        """One exchange. An answer other than a stream of events comes read; ``stream`` makes no difference to it."""
        seconds = min(self._seconds, _LEAVING) if request.method == "DELETE" else self._seconds
        end = asyncio.get_running_loop().time() + seconds + _GRACE
        try:
            async with asyncio.timeout_at(end):
                response = await super().send(request, stream=True, **how)
                try:
                    return _judged(request, await self._read(request, response, end))
                except BaseException:
                    await response.aclose()
                    raise
        except TimeoutError:
            return _refusal(request, UNKNOWN, f"no whole answer within {seconds:g} s")
        except _TooMuch as why:
            return _refusal(request, UNKNOWN, str(why))

    async def _read(self, request: httpx2.Request, response: httpx2.Response, end: float) -> httpx2.Response:
        if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            raise _TooMuch("the answer is compressed, which was not asked for")  # a few bytes could become gigabytes
        if _kind(response) == _EVENTS:
            stream = response.stream if request.method == "GET" else _Bounded(response.stream, end)
            response.stream, response.headers["content-type"] = _Readable(stream, request), _EVENTS
            return response
        body, parts = bytearray(), Parts()
        async for part in response.aiter_bytes():
            body += part
            if len(body) > MOST_BYTES:
                raise _TooMuch(_more_than_read())
            parts.add(part)
            if parts.count > MOST_MEMBERS and _is_json(response):
                raise _TooMuch(f"the answer {TOO_MANY}")
        await response.aclose()
        headers = [(name, text) for name, text in response.headers.multi_items() if name.lower() not in _OF_THE_BODY]
        read = httpx2.Response(response.status_code, headers=headers, content=bytes(body), request=request)
        read.next_request = response.next_request
        return read


_EVENTS = "text/event-stream"
_OF_THE_BODY = ("content-length", "content-encoding", "transfer-encoding")


class _TooMuch(Exception):
    """An answer that is not read."""


class _Bounded(httpx2.AsyncByteStream):
    """The events that answer one request."""

    def __init__(self, stream: Any, end: float) -> None:
        self._stream, self._end = stream, end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, parts = 0, aiter(self._stream)
        while True:
            try:
                async with asyncio.timeout_at(self._end):
                    part = await anext(parts)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise _TooMuch("no whole answer in time") from None
            size += len(part)
            if size > MOST_BYTES:
                raise _TooMuch(_more_than_read())
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Readable(httpx2.AsyncByteStream):
    """The same events, with a refusal in the place of each that is none of the protocol. Others than messages are left
    out, as the protocol has no others.
    """

    def __init__(self, stream: Any, request: httpx2.Request) -> None:
        self._stream, self._request = stream, request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        inner = httpx2.Response(
            200, headers={"content-type": _EVENTS}, stream=_Lent(self._stream), request=self._request
        )
        try:
            async for event in httpx2.EventSource(inner):
                if event.event == "message":
                    yield _written(event)
        except _TooMuch as why:
            yield _refused_event(str(why))
        except httpx2.SSEError:
            yield _refused_event("an event of the answer is longer than the MiB that cn reads")

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Lent(httpx2.AsyncByteStream):
    """A stream that somebody else closes."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield part


def _written(event: httpx2.ServerSentEvent) -> bytes:
    """As it is sent (html.spec.whatwg.org, section 9.2). Without data it only says where to go on."""
    if has_more_parts(event.data.encode(), MOST_MEMBERS):
        return _refused_event(f"an event of the answer {TOO_MANY}")
    if event.data and _message(event.data) is None:
        return _refused_event("an event of the answer is none of the protocol")
    lines = [f"id: {event.id}"] if event.id else []
    lines += [] if event.retry is None else [f"retry: {max(event.retry, _SOONEST)}"]
    lines += [f"data: {line}" for line in event.data.split("\n")]
    return "\n".join([*lines, "", ""]).encode()


def _refused_event(why: str) -> bytes:
    return f"data: {json.dumps(_error(UNKNOWN, why))}\n\n".encode()


def _judged(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """The answer, where it is one of the protocol; else what it means for the request."""
    status, kind = response.status_code, _kind(response)
    if not _wants_answer(request) or (status < _SENDS_ON and kind == _EVENTS):
        return response
    said = f"HTTP {status}"
    if status == _ACCEPTED:
        return _refusal(request, UNKNOWN, f"{said}: it took the call, and gave no answer")
    if status in _SHUT:
        return _refusal(request, NOT_LET_IN, f"{said}: it does not let us in")
    if _SENDS_ON <= status < _WRONG:
        return _refusal(request, NOT_LET_IN, f"{said}: it sends us elsewhere, where no request goes")
    if _has_ended(request, response):
        return _refusal(request, ENDED, f"{said}: it knows our session no more")
    if _is_of_the_protocol(response):
        return response
    if status == _NOT_THERE:  # it knows our session no more, or is not there
        return _refusal(request, GONE, f"{said}: no answer of its own")
    if status == _TOO_MANY or (status == _AWAY and "retry-after" in response.headers):
        return _refusal(request, LATER, f"{said}: it takes nothing now")
    if kind == "text/html" and status < _WRONG:
        return _refusal(request, UNKNOWN, f"{said}: a page for a browser came in place of its answer")
    if status < _WRONG:
        return _refusal(request, UNKNOWN, f"{said}: the answer is none of the protocol")
    return response if status < _FAILED else _refusal(request, UNKNOWN, f"{said}: no answer of its own")


def _has_ended(request: httpx2.Request, response: httpx2.Response) -> bool:
    """Did the server forget our session, as after a restart? 404 says so, whatever stands in its body (the protocol,
    "Session Management"); servers that look only whether they know it answer 400, and name it.
    """
    if _SESSION not in request.headers:
        return False
    if response.status_code == _NOT_THERE:
        return True
    message = _message(response.content) if response.status_code == _WRONG else None
    return isinstance(message, JSONRPCError) and message.id is None and "session" in message.error.message.lower()


def _wants_answer(request: httpx2.Request) -> bool:
    """Is it a request of the protocol? A notification has no ``id``, an answer of ours no ``method``."""
    if request.method != "POST":
        return False
    try:
        sent = json.loads(request.content)
    except (ValueError, RecursionError):
        return True
    return not isinstance(sent, dict) or ("id" in sent and "method" in sent)


def _kind(response: httpx2.Response) -> str:
    """Its media type, without parameters."""
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _is_of_the_protocol(response: httpx2.Response) -> bool:
    return _is_json(response) and isinstance(_message(response.content), JSONRPCResponse | JSONRPCError)


def _is_json(response: httpx2.Response) -> bool:
    return _kind(response).startswith("application/json")


def _message(text: str | bytes) -> JSONRPCMessage | None:
    """As the library reads it; None where it cannot."""
    try:
        return jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError:
        return None


def _more_than_read() -> str:
    return f"the answer has more than the {MOST_BYTES >> 20} MiB that cn reads"


def _refusal(request: httpx2.Request, code: int, why: str) -> httpx2.Response:
    """What the library takes for the server's refusal of this request."""
    return httpx2.Response(502, json=_error(code, why), request=request)


def _error(code: int, why: str) -> Mapping[str, Any]:
    """The library puts the request's number in the place of ours."""
    return {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": why}}
