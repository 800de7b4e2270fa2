"""Large requests: of one caller one is held at a time, and what others ask goes on."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import suppress
from typing import Any

import pytest

from cn.agency.operations import ByUser
from cn.server.bodies import SMALL, Seconds, weighed
from cn.server.door import CALLER, App
from cn.server.room import Room
from cn.server.toolbox import Caller
from tests.support.agency_server import Office, Server

_PIECE = 1 << 14
_LARGE = 8 * SMALL
_MOST = 2 * _LARGE


class Request:
    """A caller's request with a body of so many bytes, of which it sends as many as it is let; ``taken`` were read."""

    def __init__(self, caller: str, size: int, *, told: bool = True, sends: int = 1 << 60) -> None:
        self.taken, self._size, self._sends = 0, size, sends
        self.status, self.said = 0, b""
        self.headers: dict[bytes, bytes] = {}
        length = [(b"content-length", str(size).encode())] if told else []
        self.scope = {"type": "http", "headers": length, CALLER: Caller(ByUser(caller))}

    async def receive(self) -> dict[str, Any]:
        await asyncio.sleep(0)
        if self.taken >= min(self._size, self._sends):
            await asyncio.Event().wait()
        piece = min(_PIECE, self._size - self.taken)
        self.taken += piece
        return {"type": "http.request", "body": b" " * piece, "more_body": self.taken < self._size}

    async def send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        self.said += message.get("body", b"")
        self.headers |= dict(message.get("headers", ()))

    async def ask(self, app: App) -> None:
        await app(self.scope, self.receive, self.send)


class Work:
    """An app that reads what it is given, and answers when it may."""

    def __init__(self) -> None:
        self.may, self.at_work = asyncio.Event(), 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.at_work += len((await receive())["body"]) > SMALL
        await self.may.wait()
        await send({"type": "http.response.start", "status": 200})


async def _settled(*requests: Request) -> None:
    """Until none of them is read any further."""
    before = [-1]
    while before != (before := [one.taken for one in requests]):
        for _ in range(200):
            await asyncio.sleep(0)


@pytest.mark.parametrize("told", [True, False])
def test_of_one_callers_large_requests_one_is_read_and_the_others_wait_unread(told: bool) -> None:
    async def scene() -> None:
        work = Work()
        app = weighed(work, _MOST, Room(4 * _MOST))
        many = [Request("many", _LARGE, told=told) for _ in range(20)]
        small, other = Request("many", SMALL), Request("other", _LARGE, told=told)
        asked = [asyncio.create_task(one.ask(app)) for one in (*many, small, other)]
        await _settled(*many, small, other)
        assert small.taken == SMALL, "a small one waits for no room"
        assert [one.taken for one in (many[0], other)] == [_LARGE, _LARGE]
        assert max(one.taken for one in many[1:]) <= SMALL + _PIECE
        assert work.at_work == 2
        work.may.set()
        await asyncio.gather(*asked)
        assert {one.status for one in many} == {200}

    asyncio.run(scene())


def test_all_callers_together_have_so_many_bytes_and_each_its_turn() -> None:
    async def scene() -> None:
        work = Work()
        app = weighed(work, _MOST, Room(3 * _LARGE))
        requests = [Request(f"caller {number}", _LARGE) for number in range(10)]
        asked = [asyncio.create_task(one.ask(app)) for one in requests]
        await _settled(*requests)
        assert work.at_work == 3
        assert sum(one.taken for one in requests) <= 3 * _LARGE + 7 * (SMALL + _PIECE)
        work.may.set()
        await asyncio.gather(*asked)
        assert work.at_work == 10

    asyncio.run(scene())


def test_who_sends_slowly_loses_its_room_and_who_waits_for_long_is_told_what_helps() -> None:
    async def scene() -> tuple[Request, Request]:
        work = Work()
        slow, waits = Request("a", _LARGE, sends=_LARGE // 2), Request("a", _LARGE)
        await slow.ask(weighed(work, _MOST, Room(_MOST), Seconds(room=0.1, body=0.1)))
        room = Room(_MOST)
        async with room.of(ByUser("a"), 1):
            await waits.ask(weighed(work, _MOST, room, Seconds(room=0.1)))
        async with room.of(ByUser("a"), _MOST):  # all of it is free again
            return slow, waits

    slow, waits = asyncio.run(scene())
    assert slow.status == 408
    assert "did not come whole" in json.loads(slow.said)["error"]["message"]
    assert waits.status == 429
    assert waits.headers[b"retry-after"] == b"1"
    assert "wait for the answer of one, then ask again" in json.loads(waits.said)["error"]["message"]
    assert waits.taken == _LARGE, "the rest was let come, or its sender would not have seen the answer"


def test_a_request_that_hangs_with_a_large_body_holds_up_its_own_callers_large_ones_alone(
    office: Office, server: Server
) -> None:
    many, one = office.lease(office.handler("many")), office.lease(office.handler("one"))
    content = "x" * (4 << 20)

    def begin(token: str) -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        made.connect(server.socket)
        made.sendall(
            b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"accept: application/json\r\nauthorization: Bearer %s\r\ncontent-length: %d\r\n\r\n"
            % (token.encode(), len(_call(content)))
        )
        return made

    def send(made: socket.socket, data: bytes) -> int:
        """As much as is taken of it."""
        made.settimeout(3)
        sent = 0
        with suppress(TimeoutError):
            while sent < len(data):
                sent += made.send(data[sent : sent + (1 << 16)])
        made.settimeout(60)
        return sent

    body = _call(content)
    with begin(many.token) as first, begin(many.token) as second, begin(one.token) as other:
        half = len(body) // 2
        assert send(first, body[:half]) == half
        assert (sent := send(second, body)) < len(body) // 2, "it is not read while the first has the room"
        assert send(other, body) == len(body)
        assert b'"isError":false' in _answer(other)
        assert send(first, body[half:]) == len(body) - half
        assert b'"isError":false' in _answer(first)
        assert send(second, body[sent:]) == len(body) - sent
        assert b'"isError":false' in _answer(second)


def _call(content: str) -> bytes:
    params = {"name": "kb_create", "arguments": {"description": "large", "content": content}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


def _answer(made: socket.socket) -> bytes:
    got = b""
    while b"isError" not in got and (more := made.recv(1 << 16)):
        got += more
    return got
