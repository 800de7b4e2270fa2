"""Another server reached by a URL that says too much, or never ends: each exchange has bounds, which it is told."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cn.server.gateway import Gateway, Unanswered
from cn.server.machine_tools import OtherServer
from cn.server.sdk import clients
from cn.server.sdk.bounded_http import MOST_BYTES, REMEDIES, UNKNOWN
from cn.server.sdk.clients import OtherClient
from cn.server.secrets import Vault

_TOOL = {"name": "echo", "description": "echo", "inputSchema": {"type": "object"}}


class _Odd(ThreadingHTTPServer):
    """``mode`` names what it does to requests of ``when``; ``left``: the client ended such an exchange."""

    daemon_threads = True

    def __init__(self, when: str, mode: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.when, self.mode, self.pages = when, mode, 0
        self.left = threading.Event()
        self.tools, self.also = [_TOOL], ""
        self.answer: tuple[int, bytes, dict[str, str]] = (200, b"", {})
        self.session = ""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: _Odd
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._answer(405, b"")

    do_DELETE = do_GET

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method = asked.get("method")
        session = self.server.session
        if session and method != "initialize" and self.headers.get("Mcp-Session-Id") != session:
            status, body, more = self.server.answer
            self._answer(status, body.replace(b"ID", json.dumps(asked.get("id")).encode()), more)
            return
        odd = method in (self.server.when, self.server.also)
        if odd and self.server.mode == "answer":
            status, body, more = self.server.answer
            self._answer(status, body.replace(b"ID", json.dumps(asked.get("id")).encode()), more)
            return
        if odd and self.server.mode in ("endless", "events"):
            self._endless(self.server.mode == "events")
            return
        if "id" not in asked:
            self._answer(202, b"")
            return
        result: dict[str, Any] = {}
        if method == "initialize":
            about = {"name": "odd", "version": "1"}
            result = {
                "protocolVersion": asked["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": about,
            }
        elif method == "tools/list":
            self.server.pages += 1
            tools = (
                [{**_TOOL, "inputSchema": {"type": "array"}}]
                if odd and self.server.mode == "array"
                else self.server.tools
            )
            result = {"tools": [], "nextCursor": "more"} if odd and self.server.mode == "pages" else {"tools": tools}
        elif method == "tools/call":
            text = "x" * (MOST_BYTES + 1) if asked["params"]["arguments"].get("large") else "well"
            result = {"content": [{"type": "text", "text": text}]}
        else:
            error = {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no such method"}}
            self._answer(200, json.dumps(error).encode())
            return
        packed = {"Content-Encoding": "gzip"} if odd and self.server.mode == "gzip" else {}
        begun = {"Mcp-Session-Id": session} if session and method == "initialize" else {}
        whole = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()
        self._answer(200, whole, {**packed, **begun})

    def _endless(self, events: bool) -> None:
        kind = "text/event-stream" if events else "application/json"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            while True:
                self.wfile.write(b": ping\n\n" if events else b" " * 1024)
                self.server.left.wait(0.01)
        except OSError:
            self.server.left.set()

    def _answer(self, status: int, body: bytes, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, text in {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **(more or {}),
        }.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def _odd(when: str, mode: str) -> Iterator[_Odd]:
    with _Odd(when, mode) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def _with(server: _Odd, work: Callable[[OtherClient], Awaitable[None]], seconds: float = 20.0, say: Any = str) -> None:
    async def main() -> None:
        url = f"http://127.0.0.1:{server.server_address[1]}/mcp"
        other = OtherServer(name="odd", url=url, seconds=seconds)
        client = OtherClient(other, Vault({}), say)
        try:
            async with asyncio.timeout(60):
                await work(client)
        finally:
            async with asyncio.timeout(60):
                await client.close()

    asyncio.run(main())


async def _until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.01)


def test_an_answer_that_is_too_large_is_refused_and_the_connection_goes_on() -> None:
    async def work(client: OtherClient) -> None:
        await _until(lambda: client.state == "ready")
        with pytest.raises(Unanswered, match="more than the 8 MiB that cn reads") as large:
            await client.call("echo", {"large": True})
        assert large.value.remedy.startswith("it may have done what was asked")
        small = await client.call("echo", {})
        assert not small.failed

    with _odd("", "") as server:
        _with(server, work)
        assert server.pages == 1  # one connection


_HTML = {"Content-Type": "text/html"}


@pytest.mark.parametrize(
    ("status", "body", "headers", "remedy"),
    [
        (502, b"", {}, "it may have done"),
        (504, b"<html>Gateway Time-out</html>", _HTML, "it may have done"),
        (500, b'{"error": "oh"}', {}, "it may have done"),
        (503, b"", {}, "it may have done"),
        (200, b"<html>Please log in</html>", _HTML, "it may have done"),
        (200, b"[" * 50_000, {}, "it may have done"),
        (202, b"", {}, "it may have done"),
        (404, b"<html>no</html>", _HTML, "it is reached anew; it may have done"),
        (503, b"", {"Retry-After": "3"}, "it was not done: ask again in a while"),
        (429, b"", {}, "it was not done: ask again in a while"),
        (401, b"", {}, "it was not done, and asking again does not help"),
        (403, b"<html>no</html>", _HTML, "it was not done, and asking again does not help"),
        (307, b"", {"Location": "http://127.0.0.1:9/evil"}, "it was not done, and asking again does not help"),
    ],
)
def test_an_answer_that_is_not_its_own_says_whether_it_was_done(
    status: int, body: bytes, headers: dict[str, str], remedy: str
) -> None:
    async def work(client: OtherClient) -> None:
        await _until(lambda: client.state == "ready")
        with pytest.raises(Unanswered, match=f"HTTP {status}") as why:
            await client.call("echo", {})
        assert why.value.remedy.startswith(remedy)
        assert "evil" not in str(why.value)

    with _odd("tools/call", "answer") as server:
        server.answer = status, body, headers
        _with(server, work)


_FORGOT = b'{"jsonrpc": "2.0", "id": %s, "error": {"code": -32001, "message": "Session not found"}}'


@pytest.mark.parametrize(
    ("status", "body"),
    [(404, _FORGOT % b"ID"), (404, _FORGOT % b"null"), (404, b"Session not found"), (400, _FORGOT % b"null")],
    ids=["404 to the request", "404 to none", "404 in words", "400 to none"],
)
def test_a_server_that_forgot_the_session_gets_a_new_one(status: int, body: bytes) -> None:
    """As one that was started anew (the protocol, "Session Management")."""

    async def work(client: OtherClient) -> None:
        await _until(lambda: client.state == "ready")
        assert not (await client.call("echo", {})).failed
        server.session = "second"
        with pytest.raises(Unanswered, match="it knows our session no more") as why:
            await client.call("echo", {})
        assert "it was not done" in why.value.remedy
        await _until(lambda: client.state != "ready")
        await _until(lambda: client.state == "ready")
        assert not (await client.call("echo", {})).failed

    with _odd("nothing", "") as server:
        server.session, server.answer = "first", (status, body, {})
        _with(server, work)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"event: message\ndata: {bad\n\n", "an event of the answer is none of the protocol"),
        (b'data: {"jsonrpc": "2.0", "id": ID, "result": 7}\n\n', "an event of the answer is none of the protocol"),
        (b"data: " + b"x" * (2 << 20) + b"\n\n", "an event of the answer is longer than the MiB that cn reads"),
        (b"event: other\ndata: {bad\n\n", "its answer broke off"),
        (b": nothing\n\n", "its answer broke off"),
    ],
    ids=["no JSON", "no result", "long", "another event", "no event"],
)
def test_events_that_are_no_answer_say_whether_it_was_done(body: bytes, told: str) -> None:
    async def work(client: OtherClient) -> None:
        await _until(lambda: client.state == "ready")
        with pytest.raises(Unanswered, match=told) as why:
            await client.call("echo", {})
        assert why.value.remedy.startswith("it may have done what was asked")
        assert client.state == "ready"

    with _odd("tools/call", "answer") as server:
        server.answer = 200, body, {"Content-Type": "text/event-stream"}
        _with(server, work)


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_an_answer_with_very_many_parts_is_refused_before_it_is_read(kind: str) -> None:
    body = b'{"jsonrpc": "2.0", "id": ID, "result": {"content": [' + b'{"type": "text", "text": "y"},' * 20_000
    body = body[:-1] + b"]}}"

    async def work(client: OtherClient) -> None:
        await _until(lambda: client.state == "ready")
        with pytest.raises(Unanswered, match="more than the 50,000 members and elements that cn reads") as told:
            await client.call("echo", {})
        assert told.value.remedy == REMEDIES[UNKNOWN]
        server.when = ""
        assert not (await client.call("echo", {})).failed

    with _odd("tools/call", "answer") as server:
        events = kind != "application/json"
        server.answer = (200, b"data: " + body + b"\n\n" if events else body, {"Content-Type": kind})
        _with(server, work)


def test_events_that_are_an_answer_are_passed_on() -> None:
    async def work(client: OtherClient) -> None:
        await _until(lambda: client.state == "ready")
        answer = await client.call("echo", {})
        assert (answer.failed, list(answer.blocks)) == (False, [{"type": "text", "text": "\u00fc\nb"}])

    result = b'{"jsonrpc": "2.0", "id": ID,\ndata: "result": {"content": [{"type": "text", "text": "\xc3\xbc\\nb"}]}}'
    with _odd("tools/call", "answer") as server:
        body = b": ping\n\nevent: message\ndata: " + result + b"\n\n"
        server.answer = 200, body, {"Content-Type": "text/event-stream; charset=utf-8"}
        _with(server, work)


@pytest.mark.parametrize("code", [-32000, -32001, -32602, 7])
def test_an_error_that_is_its_own_word_is_passed_on(code: int) -> None:
    async def work(client: OtherClient) -> None:
        await _until(lambda: client.state == "ready")
        answer = await client.call("echo", {})
        assert (answer.failed, list(answer.blocks)) == (
            True,
            [{"type": "text", "text": "no such page; nothing was done"}],
        )
        assert client.state == "ready"

    with _odd("tools/call", "answer") as server:
        error = {"code": code, "message": "no such page; nothing was done"}
        server.answer = (
            200,
            b'{"jsonrpc": "2.0", "id": ID, "error": ERROR}'.replace(b"ERROR", json.dumps(error).encode()),
            {},
        )
        _with(server, work)


@pytest.mark.parametrize(
    ("status", "headers", "told"),
    [
        (401, {}, "HTTP 401: it does not let us in"),
        (307, {"Location": "http://127.0.0.1:9/evil"}, "HTTP 307: it sends us elsewhere, where no request goes"),
        (200, _HTML, "HTTP 200: a page for a browser came in place of its answer"),
    ],
)
def test_a_server_that_does_not_let_us_in_is_named(status: int, headers: dict[str, str], told: str) -> None:
    with _odd("initialize", "answer") as server:
        server.answer = status, b"<html></html>", headers
        server.also = "server/discover"

        async def work(client: OtherClient) -> None:
            await _until(lambda: client.state == told)

        _with(server, work)


def test_tools_that_do_not_fit_among_others_are_named_and_left_out_of_the_list() -> None:
    schema: dict[str, Any] = {"type": "object"}
    listed = [("files.read", schema), ("", schema), ("../x", schema), ("x" * 120, schema), ("pay", schema)]
    listed += [("twice", schema), ("twice", schema), ("any", {**schema, "anyOf": []})]
    listed += [("odd", {**schema, "properties": {"a b": {}}}), ("none", {**schema, "properties": {"a": {"type": 7}}})]
    said: list[str] = []

    async def work(client: OtherClient) -> None:
        await _until(lambda: client.state == "ready")
        gateway = Gateway([client])
        assert [tool.name for tool in gateway.tools_of(["odd"])] == ["odd__pay"]
        bad = {tool.name for tool in client.tools if tool.unfit}
        assert bad == {name for name, _ in listed} - {"", "pay"}
        assert "'files.read'" in gateway.left_out()["odd"]
        for name in bad:
            assert any(repr(name)[:50] in line for line in said), name
        assert not (await client.call("files.read", {})).failed

    with _odd("", "") as server:
        server.tools = [{"name": name, "inputSchema": takes} for name, takes in listed]
        _with(server, work, say=said.append)


@pytest.mark.parametrize("mode", ["endless", "events"])
def test_the_exchange_of_a_call_that_was_given_up_ends(mode: str) -> None:
    with _odd("tools/call", mode) as server:

        async def work(client: OtherClient) -> None:
            await _until(lambda: client.state == "ready")
            assert Gateway([client]).states() == {client.name: "ready"}
            with pytest.raises(Unanswered, match=r"no answer within 0\.5 s"):
                await client.call("echo", {})
            assert Gateway([client]).states() == {client.name: "its last call: no answer within 0.5 s"}
            await _until(server.left.is_set)
            server.when = ""
            await client.call("echo", {})
            assert Gateway([client]).states() == {client.name: "ready"}

        _with(server, work, seconds=0.5)


@pytest.mark.parametrize(
    ("when", "mode", "told"),
    [
        ("initialize", "endless", "no whole answer within 0.5 s"),
        ("tools/list", "endless", "no whole answer within 0.5 s"),
        ("tools/list", "gzip", "the answer is compressed, which was not asked for"),
        ("tools/list", "pages", "tools/list has no end after 100 pages"),
        ("tools/list", "array", "inputSchema"),
    ],
)
def test_a_server_that_comes_to_no_end_while_connecting_is_named(when: str, mode: str, told: str) -> None:
    async def work(client: OtherClient) -> None:
        await _until(lambda: told in client.state)

    with _odd(when, mode) as server:
        _with(server, work, seconds=20.0 if mode == "pages" else 0.5)


def test_a_server_that_was_started_and_says_nothing_is_given_up_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "_START_SECONDS", 0.5)
    note = tmp_path / "pid"

    async def main() -> None:
        other = OtherServer(name="silent", argv=("sh", "-c", f"echo $$ >> {note}; exec sleep 1000"))
        client = OtherClient(other, Vault({}), lambda line: None)
        try:
            async with asyncio.timeout(60):
                await _until(lambda: client.state == "it did not begin within 0.5 s")
                with pytest.raises(Unanswered, match="did not begin"):
                    await client.call("echo", {})
                # It is tried again; a busy machine may have ended the first before it said who it was.
                await _until(lambda: note.exists() and len(note.read_text().split()) > 1)
                await asyncio.sleep(0.1)
        finally:  # the time to begin ends while the library waits for the process, which it has to end all the same
            async with asyncio.timeout(60):
                await client.close()

    asyncio.run(main())
    for pid in note.read_text().split():
        assert not Path(f"/proc/{pid}").exists()


_WITHOUT_END = """
import json, os, sys
print(os.getpid(), file=open(sys.argv[1], "a"))
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    if asked["method"] == "initialize":
        result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}}}
        result["serverInfo"] = {"name": "s", "version": "1"}
    if asked["method"] == "tools/call":
        many = asked["params"]["arguments"]["many"]
        sys.stderr.write("e" * many + "\\nshort\\n")
        sys.stderr.flush()
        while many > 8 << 20:
            sys.stdout.write("n" * (1 << 20))
        result = {"content": [{"type": "text", "text": "\u00e9" * many}]}
    if asked["method"] != "server/discover":
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}, ensure_ascii=False), flush=True)
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
"""


def test_a_program_that_writes_a_line_without_end_is_ended_and_started_again(tmp_path: Path) -> None:
    program, note = tmp_path / "program.py", tmp_path / "pid"
    program.write_text(_WITHOUT_END)
    said: list[str] = []

    async def main() -> None:
        other = OtherServer(name="long", argv=(sys.executable, "-X", "utf8", str(program), str(note)), seconds=50)
        client = OtherClient(other, Vault({}), said.append)
        try:
            async with asyncio.timeout(100):
                await _until(lambda: client.state == "ready")
                told = await client.call("echo", {"many": 2 << 20})
                assert told.size > 4 << 20
                assert str(told.blocks[0]["text"]).startswith("\u00e9" * 1000)
                with pytest.raises(Unanswered, match="more than the 8 MiB that cn reads"):
                    await client.call("echo", {"many": 9 << 20})
                await _until(lambda: len(note.read_text().split()) == 2 and client.state == "ready")
                assert not (await client.call("echo", {"many": 1})).failed
        finally:
            async with asyncio.timeout(60):
                await client.close()

    asyncio.run(main())
    assert not Path(f"/proc/{note.read_text().split()[0]}").exists()
    assert said[:2] == ["long: a line of more than 64 KiB in its log is left out", "long: short"]


def test_a_connection_that_breaks_while_it_is_closed_is_not_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's tasks end as a group of what failed, in which the cancellation is one of several."""
    tried = []

    async def breaks(client: OtherClient) -> None:
        tried.append(client.name)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as why:
            raise BaseExceptionGroup("unhandled errors in a TaskGroup", [why, OSError("broken")]) from None

    monkeypatch.setattr(OtherClient, "_connected", breaks)

    async def main() -> None:
        async with asyncio.timeout(60):
            client = OtherClient(OtherServer(name="odd", url="http://127.0.0.1:1"), Vault({}), lambda line: None)
            await _until(lambda: bool(tried))
            await client.close()

    asyncio.run(main())
    assert tried == ["odd"]
