"""Connections that ask nothing keep nobody out, and never end the server."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from subprocess import PIPE
from typing import Any

import httpx2
import pytest

from cn.agency.operations import ByUser
from cn.git.repository import open_hub
from cn.server.door import CALLER
from cn.server.health import Health
from cn.server.places import listen_at, places_of
from cn.server.sdk.connections import FILES, OF_ONE, Bounds, take_files
from cn.server.sdk.listen import Listener
from cn.server.toolbox import Caller
from cn.system.systemd import Lines
from cn.values.errors import Blocked
from tests.support.agency_server import Office, start_server, stop_server

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "permissions_list", "arguments": {}}}
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
ASK = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"

_HOLDS = """
import socket, sys
held = [socket.socket(socket.AF_UNIX) for _ in range(80)]
for one in held:
    one.connect(sys.argv[1])
print(len(held), flush=True)
sys.stdin.read()
"""


async def _answer(scope: Any, receive: Any, send: Any) -> None:
    """Everybody is known who names himself."""
    if scope["type"] == "lifespan":
        while True:
            said = (await receive())["type"]
            await send({"type": f"{said}.complete"})
            if said == "lifespan.shutdown":
                return
    if name := dict(scope["headers"]).get(b"name"):
        scope[CALLER] = Caller(ByUser(name.decode()))
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def _is_open(one: socket.socket) -> bool:
    one.setblocking(False)
    with suppress(BlockingIOError):
        try:
            return bool(one.recv(4096)) and _is_open(one)
        except ConnectionResetError:
            return False
    return True


async def _flood(path: Path, bounds: Bounds, steps: Any) -> None:
    listener = Listener(_answer, [listen_at(path)], {os.geteuid()}, bounds)
    await listener.ready()
    try:
        await asyncio.wait_for(steps(), 20)
    finally:
        await listener.close()


def _open(stack: ExitStack, path: Path, said: bytes = b"") -> socket.socket:
    """It may be closed at once."""
    made = stack.enter_context(socket.socket(socket.AF_UNIX))
    made.connect(str(path))
    with suppress(BrokenPipeError):
        made.sendall(said)
    return made


def _begin(one: socket.socket) -> bytes:
    """Of what it was answered; nothing where it was closed."""
    with suppress(ConnectionResetError):
        return one.recv(12)
    return b""


async def _until(holds: Any) -> None:
    while not holds():
        await asyncio.sleep(0.01)


def test_of_those_that_wait_of_one_the_oldest_goes(tmp_path: Path) -> None:
    path = tmp_path / "s"

    async def steps() -> None:
        with ExitStack() as stack:
            found = []
            for _ in range(7):
                found.append(_open(stack, path))
                await asyncio.sleep(0.02)
            await _until(lambda: [_is_open(one) for one in found] == [False] * 3 + [True] * 4)

    asyncio.run(_flood(path, Bounds(100, 4), steps))


@pytest.mark.parametrize("before", [b"", ASK], ids=["first", "behind another"])
def test_a_body_in_chunks_is_refused_before_one_is_read(tmp_path: Path, before: bytes) -> None:
    """However many come with it: each would cost what a whole request does."""
    path, asked = tmp_path / "s", list[str]()

    async def answers(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            asked.append(scope["method"])
        await _answer(scope, receive, send)

    async def work() -> bytes:
        listener = Listener(answers, [listen_at(path)], {os.geteuid()}, Bounds(100, 64))
        await listener.ready()
        try:
            reads, writes = await asyncio.open_unix_connection(path)
            headers = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
            with suppress(ConnectionError):
                writes.write(before + headers + b"1\r\n \r\n" * 10_000)
                await writes.drain()
            said = await asyncio.wait_for(reads.read(), 20)
            writes.close()
            return said
        finally:
            await listener.close()

    said = asyncio.run(work())
    assert b"HTTP/1.1 411 Length Required\r\n" in said
    assert said.endswith(b"say its length, with Content-Length\n")
    assert asked == ["GET"] * bool(before)


def test_answers_that_nobody_reads_are_kept_up_to_so_many_bytes(tmp_path: Path) -> None:
    """Of one process the first that are not read go; who reads gets all of its answer."""
    path, large = tmp_path / "s", b"x" * (1 << 20)

    async def answers(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send(
                {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(large))]}
            )
            await send({"type": "http.response.body", "body": large})
        else:
            await _answer(scope, receive, send)

    async def work() -> None:
        bounds = Bounds(100, 100, unread_of_one=3 << 20)
        listener = Listener(answers, [listen_at(path)], {os.geteuid()}, bounds)
        await listener.ready()
        try:
            with ExitStack() as stack:
                asked = []
                for _ in range(7):
                    asked.append(_open(stack, path, ASK))
                    await asyncio.sleep(0.05)
                read = [await asyncio.to_thread(_read_all, one, len(large)) for one in reversed(asked)]
            whole = [size >= len(large) for size in read]
            assert whole[0]
            assert 3 <= sum(whole) <= 4, read
            assert whole == sorted(whole, reverse=True), "the first that were not read went"
        finally:
            await listener.close()

    asyncio.run(asyncio.wait_for(work(), 30))


def _read_all(one: socket.socket, most: int) -> int:
    """How many bytes come, headers too."""
    one.settimeout(10)
    size = 0
    with suppress(ConnectionResetError):
        while size < most and (part := one.recv(1 << 16)):
            size += len(part)
    return size


async def _send_on(writes: asyncio.StreamWriter, what: bytes) -> None:
    while True:
        writes.write(what)
        await writes.drain()


@pytest.mark.parametrize("ends", [b"", b"connection: close\r\n"], ids=["goes on", "is the last"])
def test_what_is_sent_behind_a_request_without_end_is_not_kept(tmp_path: Path, ends: bytes) -> None:
    path, asked = tmp_path / "s", ASK[:-2] + ends + b"\r\n"

    async def answers(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await receive()  # which reads on
        await _answer(scope, receive, send)

    async def work() -> None:
        listener = Listener(answers, [listen_at(path)], {os.geteuid()}, Bounds(100, 64))
        await listener.ready()
        try:
            reads, writes = await asyncio.open_unix_connection(path)
            eats = asyncio.create_task(reads.read())
            with pytest.raises(ConnectionError):
                await _send_on(writes, asked * 1000)
            eats.cancel()
            with suppress(asyncio.CancelledError, ConnectionError):
                await eats
            with suppress(ConnectionError):
                writes.close()
                await writes.wait_closed()
            few = ASK * 100  # nobody minds
            reads, writes = await asyncio.open_unix_connection(path)
            writes.write(few)
            said = b""
            while said.count(b"\r\n\r\nok") < 100:
                said += await reads.read(1 << 16)
            writes.close()
        finally:
            await listener.close()

    asyncio.run(asyncio.wait_for(work(), 20))


def test_who_showed_a_token_goes_after_all_who_showed_none(tmp_path: Path) -> None:
    path = tmp_path / "s"

    async def steps() -> None:
        with ExitStack() as stack:
            known = [_open(stack, path, ASK.replace(b"host", f"name: {n}\r\nhost".encode())) for n in range(3)]
            for one in known:
                one.setblocking(False)
                data = b""
                while not data.endswith(b"ok"):
                    with suppress(BlockingIOError):
                        data += one.recv(4096)
                    await asyncio.sleep(0.01)
            strange = []
            for _ in range(9):
                strange.append(_open(stack, path))
                await asyncio.sleep(0.02)
            await _until(lambda: sum(map(_is_open, strange)) == 3)
            assert all(map(_is_open, known))

    asyncio.run(_flood(path, Bounds(6, 6), steps))


def test_half_a_request_has_its_time_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "s"

    async def steps() -> None:
        with ExitStack() as stack:
            half = _open(stack, path, ASK[:-2])
            await _until(lambda: not _is_open(half))

    asyncio.run(_flood(path, Bounds(seconds=0.2), steps))


def test_more_idle_connections_than_files_keep_no_agent_out(tmp_path: Path, office: Office) -> None:
    agent = office.lease(office.handler("Asks beside a flood"))
    server = start_server(office.root, files=256)
    try:
        with ExitStack() as stack:
            for _ in range(4):  # of one process 100 are taken at once
                idle = subprocess.Popen([sys.executable, "-c", _HOLDS, server.socket], stdin=PIPE, stdout=PIPE)
                stack.enter_context(idle)
                assert idle.stdout is not None
                assert idle.stdout.readline() == b"80\n"
            headers = {**HEADERS, "authorization": f"Bearer {agent.token}"}
            for _ in range(3):
                with httpx2.Client(transport=httpx2.HTTPTransport(uds=server.socket), timeout=30) as http:
                    said = http.post("http://localhost/mcp", content=json.dumps(CALL).encode(), headers=headers)
                assert said.status_code == 200
            files = Path(f"/proc/{server.process.pid}/fd")
            assert not files.is_dir() or len(list(files.iterdir())) < 256
        assert server.process.poll() is None
    finally:
        assert stop_server(server) == 0


def test_streams_that_an_agent_opens_are_refused_and_keep_nobody_out(office: Office) -> None:
    """In one a server may say what was not asked for (MCP, streamable HTTP); this one has nothing to say."""
    hostile, other = (office.lease(office.handler(title)) for title in ("Opens streams", "Asks beside them"))
    server = start_server(office.root)
    stream = {"accept": "text/event-stream", "authorization": f"Bearer {hostile.token}"}
    headers = {**HEADERS, "authorization": f"Bearer {other.token}"}
    lines = [f"{name}: {value}" for name, value in stream.items()]
    request = "\r\n".join(["GET /mcp HTTP/1.1", "host: localhost", *lines, "", ""]).encode()
    try:
        with ExitStack() as stack, httpx2.Client(transport=httpx2.HTTPTransport(uds=server.socket)) as http:
            opened = [_open(stack, Path(server.socket), request) for _ in range(90)]
            assert {_begin(one) for one in opened} <= {b"HTTP/1.1 405", b""}
            assert http.post("http://localhost/mcp", content=json.dumps(CALL), headers=headers).status_code == 200
            assert sum(map(_is_open, opened)) <= OF_ONE
            for method in ("GET", "DELETE", "PUT", "OPTIONS"):
                said = http.request(method, "http://localhost/mcp", headers=stream)
                assert (said.status_code, said.headers["allow"]) == (405, "POST")
    finally:
        assert stop_server(server) == 0


def test_the_limit_of_files_is_raised_as_far_as_the_system_lets_us(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: said.append((which, limits)))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1 << 20))
    assert take_files() == Bounds()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 64))
    assert take_files() == Bounds(16, 8)
    assert said == [(resource.RLIMIT_NOFILE, (FILES, 1 << 20))]


def test_a_health_file_that_cannot_be_written_ends_nothing(hub_template: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise Blocked("cannot write server.json: Too many open files", "raise the limit")

    monkeypatch.setattr("cn.server.health.write_file", fail)
    places = places_of(open_hub(hub_template))
    places.state.mkdir(exist_ok=True)
    health = Health(places, Lines())
    health.value["state"] = "running"
    health.save()
    monkeypatch.undo()
    health.save()
    assert health.value["state"] == "running"
    assert json.loads(places.health.read_text())["state"] == "running"
