"""A Telegram Bot API on loopback, for tests and the demo.

Follows https://core.telegram.org/bots/api: ``getMe``, ``getUpdates`` (offset, limit, timeout;
what lies before the offset is dropped), ``sendMessage`` with its limits, error bodies with
``parameters``. Like the real server (tdlib/telegram-bot-api), it answers an offset far ahead
of its queue from the queue's head, and ends the older of two polls with 409.

A test scripts what goes wrong (:meth:`TelegramServer.fault`); everything that was asked is in
``calls``, every message that was taken in ``sent``, also where its answer was lost.

As a script (``python tests/support/telegram_server.py --port 8081``) each line of standard input is a
message of ``--user``, and every answer is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "123456:TEST-abcdefghijklmnopqrstuvwxyz0123456"
"""A token of the right form; no real bot has it."""
USER = 498316684
"""The one allowed person, and the chat with them."""
LIMIT = 4096
_MOST_SECONDS = 50
_AHEAD = 10
JSON = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One request: method, its parameters as text, and when (``time.monotonic``)."""

    method: str
    params: dict[str, str]
    at: float


@dataclass(frozen=True)
class Message:
    """A message that the server took from the bot."""

    id: int
    chat_id: int
    text: str


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one request.

    ``done``: the request is carried out all the same. ``status`` and ``body`` are answered;
    without them the connection is cut (``cut``: after that many bytes of the answer), after
    ``seconds`` of silence. ``drip``: the body goes out byte by byte, with so many seconds between them;
    ``headers`` are further ones.
    """

    status: int = 0
    body: bytes = b""
    kind: str = "application/json"
    done: bool = False
    seconds: float = 0.0
    cut: int = 0
    drip: float = 0.0
    headers: tuple[tuple[str, str], ...] = ()


def error(status: int, description: str, **parameters: int) -> Fault:
    """An error as the Bot API words it."""
    return Fault(status, json.dumps(_error(status, description, **parameters)).encode())


def rate_limit(seconds: int) -> Fault:
    """429 with ``parameters.retry_after``."""
    return error(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)


def _error(status: int, description: str, **parameters: int) -> JSON:
    data: JSON = {"ok": False, "error_code": status, "description": description}
    return data | ({"parameters": parameters} if parameters else {})


BAD_GATEWAY = Fault(502, b"<html><h1>502 Bad Gateway</h1></html>", "text/html")
SERVER_ERROR = error(500, "Internal Server Error")
NOT_JSON = Fault(200, b'{"ok": true, "result": [{"upda')
CUT = Fault()
"""The connection ends without an answer; nothing was done."""
CUT_AFTER = Fault(done=True)
"""The same, but the request was carried out."""
CUT_WITHIN = Fault(done=True, cut=20)
"""The connection ends within the answer."""


@dataclass
class TelegramServer:
    """The state of the server; its methods may be called from any thread."""

    token: str = TOKEN
    username: str = "test_bot"
    chats: set[int] = field(default_factory=lambda: {USER})
    blocked: set[int] = field(default_factory=set)
    repeat: bool = False
    """Forget no confirmed update, and ignore the offset: the worst of servers."""
    calls: list[Call] = field(default_factory=list)
    sent: list[Message] = field(default_factory=list)
    port: int = 0
    connections: int = 0
    _next: int = 1000
    _message: int = 0
    _updates: list[JSON] = field(default_factory=list)
    _faults: dict[str, list[Fault]] = field(default_factory=dict)
    _poll: int = 0
    _closed: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def url(self) -> str:
        """The origin, for ``telegram.base_url``."""
        return f"http://127.0.0.1:{self.port}"

    # What a test does.

    def say(self, text: str, user: int = USER, **message: Any) -> int:
        """A person writes to the bot; the update's id. Further fields of the message by name."""
        return self.update("message", {"text": text, **message}, user)

    def update(self, kind: str, message: JSON, user: int = USER) -> int:
        """Any kind of update (``edited_message``, ``channel_post``); None for ``text`` leaves it out."""
        with self._changed:
            self._message += 1
            data: JSON = {
                "message_id": self._message,
                "from": {"id": user, "is_bot": False, "first_name": "U"},
                "chat": {"id": user, "type": "private", "first_name": "U"},
                "date": int(time.time()),
                **message,
            }
            return self.raw({kind: {k: v for k, v in data.items() if v is not None}})

    def raw(self, update: JSON) -> int:
        """An update as it is, with the next id unless it has one."""
        with self._changed:
            id = update.get("update_id", self._next)
            if isinstance(id, int):
                self._next = id + 1
            self._updates.append({"update_id": id, **update})
            self._changed.notify_all()
            return self._next - 1

    def jump(self, id: int) -> None:
        """The next update gets this id, as after a quiet week."""
        self._next = id

    def fault(self, method: str, *faults: Fault) -> None:
        """The next requests of ``method`` fail so, one after the other."""
        with self._changed:
            self._faults.setdefault(method, []).extend(faults)

    def waits(self) -> list[int]:
        """The ids of the updates that nobody confirmed."""
        with self._changed:
            return [u["update_id"] for u in self._updates]

    def texts(self) -> list[str]:
        """The texts that were taken from the bot."""
        with self._changed:
            return [m.text for m in self.sent]

    def count(self, method: str) -> int:
        """How many requests of ``method`` came."""
        with self._changed:
            return sum(call.method == method for call in self.calls)

    def close(self) -> None:
        """End the polls that wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # What the bot asks.

    def take_fault(self, method: str, params: dict[str, str]) -> Fault | None:
        """Note a request; what is to go wrong with it."""
        with self._changed:
            self.calls.append(Call(method, params, time.monotonic()))
            faults = self._faults.get(method)
            return faults.pop(0) if faults else None

    def answer(self, token: str, method: str, params: dict[str, str]) -> tuple[int, JSON]:
        """Status and body of a request."""
        if token != self.token:
            return 401, _error(401, "Unauthorized")
        match method:
            case "getme":
                me = {"id": 123456, "is_bot": True, "first_name": "Test", "username": self.username}
                return 200, {"ok": True, "result": me}
            case "getupdates":
                return self._get_updates(params)
            case "sendmessage":
                return self._send_message(params)
            case _:
                return 404, _error(404, "Not Found")

    def _get_updates(self, params: dict[str, str]) -> tuple[int, JSON]:
        offset, limit = int(params.get("offset", 0)), min(max(int(params.get("limit", 100)), 1), 100)
        seconds = min(max(float(params.get("timeout", 0)), 0), _MOST_SECONDS)
        with self._changed:
            self._poll += 1
            poll = self._poll
            self._changed.notify_all()
            if 0 < offset <= self._next + _AHEAD and not self.repeat:
                self._updates = [u for u in self._updates if _id(u) >= offset]
            self._changed.wait_for(lambda: self._updates or poll != self._poll or self._closed, seconds)
            if poll != self._poll:
                text = "terminated by other getUpdates request; make sure that only one bot instance is running"
                return 409, _error(409, f"Conflict: {text}")
            return 200, {"ok": True, "result": self._updates[:limit]}

    def _send_message(self, params: dict[str, str]) -> tuple[int, JSON]:
        text = params.get("text", "")
        with self._changed:
            if not params.get("chat_id", "").lstrip("-").isdigit():
                return 400, _error(400, "Bad Request: chat_id is empty")
            chat = int(params["chat_id"])
            if chat in self.blocked:
                return 403, _error(403, "Forbidden: bot was blocked by the user")
            if chat not in self.chats:
                return 400, _error(400, "Bad Request: chat not found")
            if not text.strip():
                return 400, _error(400, "Bad Request: message text is empty")
            if len(text.encode("utf-16-le")) // 2 > LIMIT:
                return 400, _error(400, "Bad Request: message is too long")
            self._message += 1
            self.sent.append(Message(self._message, chat, text))
            self._changed.notify_all()
            data = {"message_id": self._message, "date": int(time.time()), "text": text}
            return 200, {"ok": True, "result": {**data, "chat": {"id": chat, "type": "private"}}}


def _id(update: JSON) -> int:
    id = update["update_id"]
    return id if isinstance(id, int) else 2**62


@contextmanager
def telegram_server(token: str = TOKEN, port: int = 0) -> Iterator[TelegramServer]:
    """A running server; port 0 takes a free one."""
    state = TelegramServer(token)
    server = _Threads(("127.0.0.1", port), _handler(state))
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.close()
        server.shutdown()
        server.server_close()
        thread.join(5)


class _Threads(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that left is no news."""


def _handler(state: TelegramServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            state.connections += 1
            super().setup()

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

        def _serve(self) -> None:
            url = urlsplit(self.path)
            params = {k: v[-1] for k, v in parse_qs(url.query, keep_blank_values=True).items()}
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            params |= self._parse(body)
            head, _, method = url.path.removeprefix("/").partition("/")
            if not head.startswith("bot"):
                self._send(404, json.dumps(_error(404, "Not Found")).encode())
                return
            fault = state.take_fault(method, params)
            if fault is None:
                status, data = state.answer(head.removeprefix("bot"), method.lower(), params)
                self._send(status, json.dumps(data).encode())
                return
            data = state.answer(head.removeprefix("bot"), method.lower(), params)[1] if fault.done else {}
            if fault.seconds:
                time.sleep(fault.seconds)
            if fault.status:
                self._send(fault.status, fault.body, fault.kind, fault.drip, fault.headers)
                return
            self._cut(json.dumps(data).encode(), fault.cut)

        def _parse(self, body: bytes) -> dict[str, str]:
            if not body:
                return {}
            if self.headers.get("Content-Type", "").startswith("application/json"):
                return {k: v if isinstance(v, str) else json.dumps(v) for k, v in json.loads(body).items()}
            return {k: v[-1] for k, v in parse_qs(body.decode(), keep_blank_values=True).items()}

        def _send(
            self,
            status: int,
            content: bytes,
            kind: str = "application/json",
            drip: float = 0.0,
            headers: tuple[tuple[str, str], ...] = (),
        ) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            for name, value in headers:
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(OSError):
                for part in [content] if not drip else [bytes([byte]) for byte in content]:
                    self.wfile.write(part)
                    time.sleep(drip)

        def _cut(self, content: bytes, after: int) -> None:
            if after:
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[:after])
            with contextlib.suppress(OSError):  # a reset, as from a router that forgot us
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.close_connection = True

    return Handler


def main() -> None:
    """A conversation by hand."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--port", type=int, default=8081)
    parser.add_argument("--token", default=TOKEN)
    parser.add_argument("--user", type=int, default=USER)
    options = parser.parse_args()
    with telegram_server(options.token, options.port) as server:
        server.chats.add(options.user)
        print(f"TELEGRAM_BASE_URL={server.url} TELEGRAM_TOKEN={server.token}", flush=True)
        threading.Thread(target=_print_sent, args=(server,), daemon=True).start()
        for line in sys.stdin:
            server.say(line.rstrip("\n"), options.user)
        threading.Event().wait()  # until it is ended


def _print_sent(server: TelegramServer) -> None:
    shown = 0
    while True:
        for text in server.texts()[shown:]:
            print(f"bot: {text}", flush=True)
            shown += 1
        time.sleep(0.05)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
