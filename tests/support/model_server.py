"""A server of the Messages API on loopback, as published (version 2026-10-21, pages "Messages", "Models",
"Token counting", "Prompt caching", "Errors"), with the answers a test wrote.

``with model_server() as server:`` serves until the end of the block; ``server.url`` is the base
URL, ``server.next(…)`` scripts what comes, ``server.requests`` is what came. As a program it
prints its URL and serves until it is ended, or its parent is::

    python tests/support/model_server.py --port 0 --answer FILE

A token is four bytes here. What stands before a cache breakpoint is cached like there: written
once, then read, for five minutes, if it has at least ``cache_min`` tokens.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import select
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

KEY = "sk-ant-test-0123456789abcdef"
MODEL = "claude-sonnet-5-5"
VERSIONS = ("2023-06-01", "2026-10-21")
_REMOVED = ("temperature", "top_p", "top_k")
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    500: "api_error",
    503: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_MOST = 32 << 20
_SECONDS = 60.0
_CACHED_SECONDS = 300.0


@dataclass(frozen=True)
class Reply:
    """One scripted answer of ``POST /v1/messages``.

    ``text`` with ``stop`` for a message (several texts: several blocks; ``thinking`` first where given; ``calls`` of
    tools last, each a name and its arguments, with their own ``stop``); ``status`` other than 200 for an error with
    ``message``; ``raw`` for a body as it is. ``cut`` ends the connection: ``"accept"`` before the request is read,
    ``"read"`` after it, ``"head"`` in the headers, ``"body"`` in the middle of the body. ``hang`` seconds pass before
    the answer, ``drip`` seconds between its bytes."""

    text: str | Sequence[str] = "ok"
    stop: str = "end_turn"
    status: int = 200
    message: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    raw: bytes | None = None
    thinking: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    stop_details: dict[str, Any] | None = None
    cut: str = ""
    hang: float = 0.0
    drip: float = 0.0


@dataclass(frozen=True)
class Seen:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


Script = Callable[[dict[str, Any]], Reply | str]


@dataclass
class ModelServer:
    """The state of one server. ``answer`` speaks when nothing is scripted, given the request's body."""

    answer: Script = lambda body: Reply()
    key: str = KEY
    models: tuple[str, ...] = (MODEL,)
    has_models_api: bool = True
    cache_min: int = 1
    takes_tools: bool = False
    any_client: bool = False
    """Whatever a client sends is taken, and streamed where it asks for that (page "Streaming Messages")."""
    url: str = ""
    requests: list[Seen] = field(default_factory=list)
    lifecycle: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    _script: deque[Reply] = field(default_factory=deque)
    _cache: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    stopped: threading.Event = field(default_factory=threading.Event)

    def next(self, *replies: Reply | str) -> None:
        """What the next requests of ``POST /v1/messages`` get, in order."""
        self._script.extend(r if isinstance(r, Reply) else Reply(r) for r in replies)

    @property
    def calls(self) -> list[Seen]:
        """The requests for a message."""
        return [seen for seen in self.requests if seen.path.partition("?")[0] == "/v1/messages"]

    def take(self) -> Reply | None:
        """The scripted reply that is due."""
        with self._lock:
            return self._script.popleft() if self._script else None

    def peek(self) -> Reply | None:
        """The same, left where it is."""
        return self._script[0] if self._script else None

    def wait(self, count: int, seconds: float = 20.0) -> None:
        """Until that many requests have come."""
        deadline = time.monotonic() + seconds
        while len(self.requests) < count:
            assert time.monotonic() < deadline, f"{len(self.requests)} of {count} requests came"
            time.sleep(0.01)

    def usage(self, body: dict[str, Any], answer: str) -> dict[str, int]:
        """What the request is charged, with the prefix before each breakpoint cached."""
        blocks, marks = _blocks(body)
        total = sum(tokens(text) for text in blocks)
        ends = [i + 1 for i in marks if sum(tokens(t) for t in blocks[: i + 1]) >= self.cache_min]
        now, read, written = time.monotonic(), 0, 0
        with self._lock:
            for end in ends:
                name = hashlib.sha256("\0".join([body["model"], *blocks[:end]]).encode()).hexdigest()
                size = sum(tokens(text) for text in blocks[:end])
                if self._cache.get(name, 0.0) > now:
                    read = size
                written = size
                self._cache[name] = now + _CACHED_SECONDS
        return {
            "input_tokens": total - max(read, written),
            "cache_creation_input_tokens": max(0, written - read),
            "cache_read_input_tokens": read,
            "output_tokens": tokens(answer),
        }


def tokens(text: str) -> int:
    """A token is four bytes."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


def _blocks(body: dict[str, Any]) -> tuple[list[str], list[int]]:
    """The texts of a request in the order in which they are cached, and where the breakpoints stand."""
    system = body.get("system", [])
    parts: list[Any] = [system] if isinstance(system, str) else list(system)
    for message in body["messages"]:
        content = message["content"]
        parts += [content] if isinstance(content, str) else list(content)
    parts[:0] = [json.dumps(tool) for tool in body.get("tools", ())]
    texts = [part if isinstance(part, str) else part.get("text") or json.dumps(_unmarked(part)) for part in parts]
    marks = [i for i, part in enumerate(parts) if isinstance(part, dict) and part.get("cache_control")]
    return texts, marks


def _unmarked(part: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key != "cache_control"}


def problem_of(body: Any, *, counts: bool = False, tools: bool = False) -> str:
    """What the API would not take of a body, or nothing; without ``tools`` we hold our own client to text."""
    if not isinstance(body, dict):
        return "the body is no object"
    known = {"model", "messages", "system", *(("tools",) if tools else ())}
    known |= set() if counts else {"max_tokens", "metadata", "stop_sequences"}
    for name in body:
        if name in _REMOVED:
            return f"{name}: this parameter is removed"
        if name not in known:
            return f"{name}: Extra inputs are not permitted"
    if not isinstance(body.get("model"), str) or not body["model"]:
        return "model: Field required"
    limit = body.get("max_tokens")
    if not counts and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        return "max_tokens: Input should be greater than or equal to 1"
    return (
        _problem_of_parts(body)
        or _problem_of_tools(body)
        or _problem_of_messages(body.get("messages"), blocks="tools" in body)
    )


def _problem_of_tools(body: dict[str, Any]) -> str:
    tools = body.get("tools", [])
    for i, tool in enumerate(tools):
        if set(tool) - {"name", "description", "input_schema", "cache_control"}:
            return f"tools.{i}: Extra inputs are not permitted"
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", tool.get("name", "")):
            return f"tools.{i}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        if tool.get("input_schema", {}).get("type") != "object":
            return f"tools.{i}.input_schema.type: Input should be 'object'"
    names = [tool["name"] for tool in tools]
    return "" if len(set(names)) == len(names) else "tools: Tool names must be unique."


def _problem_of_parts(body: dict[str, Any]) -> str:
    system = body.get("system", [])
    if isinstance(system, str):
        return ""
    if not isinstance(system, list):
        return "system: Input should be a valid list"
    for i, block in enumerate(system):
        if not isinstance(block, dict) or block.get("type") != "text" or not isinstance(block.get("text"), str):
            return f"system.{i}: Input should be a text block"
        if not block["text"].strip():
            return f"system.{i}: text content blocks must be non-empty"
        if block.get("cache_control", {"type": "ephemeral"}).get("type") != "ephemeral":
            return f"system.{i}.cache_control.type: Input should be 'ephemeral'"
        if set(block) - {"type", "text", "cache_control"}:
            return f"system.{i}: Extra inputs are not permitted"
    marks = sum("cache_control" in block for block in system)
    return f"A maximum of 4 blocks with cache_control may be provided. Found {marks}." if marks > 4 else ""


def _problem_of_messages(messages: Any, *, blocks: bool) -> str:
    if not isinstance(messages, list) or not messages:
        return "messages: at least one message is required"
    for i, message in enumerate(messages):
        if not isinstance(message, dict) or set(message) != {"role", "content"}:
            return f"messages.{i}: Input should be a message"
        # The API joins neighbours of one role; we hold our own client to taking turns.
        if message["role"] != ("user", "assistant")[i % 2]:
            return f"messages.{i}.role: roles must alternate, starting with user"
        content = message["content"]
        if blocks and isinstance(content, list):
            if problem := _problem_of_blocks(content, messages[i - 1]["content"] if i else ""):
                return f"messages.{i}.content: {problem}"
        elif not isinstance(content, str) or not content.strip():
            return f"messages.{i}: all messages must have non-empty content"
        elif i and _used(messages[i - 1]["content"]):
            return f"messages.{i}: `tool_use` ids were found without `tool_result` blocks immediately after"
    return "" if messages[-1]["role"] == "user" else "messages: the conversation must end with a user message"


def _problem_of_blocks(blocks: list[Any], before: Any) -> str:
    """Each use of a tool is answered in the next message, first of all and once."""
    if not blocks:
        return "all messages must have non-empty content"
    kinds = [block.get("type") for block in blocks]
    if set(kinds) - {"text", "tool_use", "tool_result", "thinking"}:
        return f"Input tag found using 'type' does not match: {kinds}"
    if any(not block["text"].strip() for block in blocks if block["type"] == "text"):
        return "text content blocks must be non-empty"
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    if kinds[: len(results)] != ["tool_result"] * len(results):
        return "tool_result blocks come first"
    if sorted(results) != sorted(_used(before)):
        return "`tool_use` ids and `tool_result` blocks do not match"
    return ""


def _used(content: Any) -> list[str]:
    return [one["id"] for one in content if one["type"] == "tool_use"] if isinstance(content, list) else []


def fill(text: str, body: dict[str, Any]) -> str:
    """An answer in which ``{id}`` is the id of the item asked about: the last one in the last message."""
    ids = re.findall(r"\b\d{8}-\d{6}-[0-9a-f]{6,}\b", str(body["messages"][-1]["content"]))
    return text.replace("{id}", ids[-1] if ids else "unknown")


@contextmanager
def model_server(answer: Script | str | None = None, *, port: int = 0, **settings: Any) -> Iterator[ModelServer]:
    """Serve on loopback until the block ends; nothing outlives it."""
    state = ModelServer(**settings)
    if isinstance(answer, str):
        said = answer
        state.answer = lambda body: said
    elif answer is not None:
        state.answer = answer
    server = _Server(("127.0.0.1", port), _handler(state))
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.stopped.set()
        server.shutdown()
        server.server_close()
        thread.join(_SECONDS)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients leave; a bug of the handler is put into ``problems``."""


def _handler(state: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = _SECONDS

        def log_message(self, format: str, *args: object) -> None:
            """Said nothing."""

        def handle_one_request(self) -> None:
            with suppress(OSError, ValueError):
                select.select([self.connection], [], [], _SECONDS)
            reply = state.peek()
            if reply is not None and reply.cut == "accept":
                state.take()
                self._cut()
                return
            try:
                super().handle_one_request()
            except OSError:
                self.close_connection = True
            except Exception as bug:
                state.problems.append(repr(bug))
                raise

        def do_GET(self) -> None:
            self._note(b"")
            if self._refused():
                return
            prefix = "/v1/models/"
            if not state.has_models_api or not self.path.startswith(prefix):
                self._plain(404, b"<html>404 page not found</html>", "text/html")
                return
            name = unquote(self.path.removeprefix(prefix))
            if name not in state.models:
                self._error(404, f"model: {name}")
                return
            info = {
                "type": "model",
                "id": name,
                "display_name": name,
                "created_at": "2026-09-28T00:00:00Z",
                "lifecycle": "active",
                "deprecated_at": None,
                "retires_at": None,
                "max_tokens": 128_000,
                "max_input_tokens": 1_000_000,
                **state.lifecycle,
            }
            self._json(200, info)

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            if length > _MOST:
                self._note(b"")
                self.close_connection = True
                self._error(413, "Request exceeds the maximum size")
                return
            data = self.rfile.read(length)
            self._note(data)
            if self._refused():
                return
            path = self.path.partition("?")[0] if state.any_client else self.path
            if path not in ("/v1/messages", "/v1/messages/count_tokens"):
                self._plain(404, b"<html>404 page not found</html>", "text/html")
                return
            counts = path.endswith("/count_tokens")
            try:
                body = json.loads(data)
            except ValueError:
                self._error(400, "The request body is not valid JSON")
                return
            problem = "" if state.any_client else problem_of(body, counts=counts, tools=state.takes_tools)
            if problem:
                self._error(400, problem)
            elif body["model"] not in state.models and not state.any_client:
                self._error(404, f"model: {body['model']}")
            elif counts:
                self._json(200, {"input_tokens": sum(tokens(text) for text in _blocks(body)[0])})
            else:
                self._message(body)

        def _message(self, body: dict[str, Any]) -> None:
            reply = state.take()
            if reply is None:
                said = state.answer(body)
                reply = said if isinstance(said, Reply) else Reply(said)
            if reply.cut == "read":
                self._cut()
                return
            if reply.hang and state.stopped.wait(reply.hang):
                self._cut()
                return
            if reply.status != 200:
                self._error(reply.status, reply.message or "scripted", reply.headers, reply.raw)
                return
            message = _message_json(body, reply, state)
            if state.any_client and body.get("stream"):
                self._send(200, _stream(message), "text/event-stream", reply.headers)
                return
            data = reply.raw if reply.raw is not None else json.dumps(message).encode()
            self._send(200, data, "application/json", reply.headers, reply.cut, reply.drip)

        def _note(self, body: bytes) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            state.requests.append(Seen(self.command, self.path, headers, body))

        def _refused(self) -> bool:
            """Authentication: ``x-api-key``, or ``Authorization: Bearer`` as clients send from 2.0 on."""
            bearer = self.headers.get("Authorization", "").removeprefix("Bearer ")
            given = self.headers.get("x-api-key") or bearer
            if given != state.key:
                self._error(401, "invalid x-api-key")
            elif self.headers.get("anthropic-version") not in VERSIONS:
                self._error(400, "anthropic-version: header is required")
            elif self.command == "POST" and self.headers.get("Content-Type") != "application/json":
                self._error(400, "content-type: application/json is required")
            else:
                return False
            return True

        def _error(
            self, status: int, message: str, headers: Sequence[tuple[str, str]] = (), raw: bytes | None = None
        ) -> None:
            kind = _ERRORS.get(status, "api_error")
            error = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_test"}
            self._send(status, raw if raw is not None else json.dumps(error).encode(), "application/json", headers)

        def _json(self, status: int, data: Any) -> None:
            self._send(status, json.dumps(data).encode(), "application/json")

        def _plain(self, status: int, data: bytes, kind: str) -> None:
            self._send(status, data, kind)

        def _send(
            self,
            status: int,
            data: bytes,
            kind: str,
            headers: Sequence[tuple[str, str]] = (),
            cut: str = "",
            drip: float = 0.0,
        ) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("request-id", "req_test")
            for name, value in headers:
                self.send_header(name, value)
            if cut == "head":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-")
                self._cut()
                return
            self.end_headers()
            if cut == "body":
                self.wfile.write(data[: len(data) // 2])
                self._cut()
            elif drip:
                for i in range(len(data)):
                    self.wfile.write(data[i : i + 1])
                    if state.stopped.wait(drip):
                        self._cut()
                        return
            else:
                self.wfile.write(data)

        def _cut(self) -> None:
            self.close_connection = True
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

    return Handler


def _message_json(body: dict[str, Any], reply: Reply, state: ModelServer) -> dict[str, Any]:
    texts = [reply.text] if isinstance(reply.text, str) else list(reply.text)
    content: list[dict[str, Any]] = []
    if reply.thinking:
        content.append({"type": "thinking", "thinking": reply.thinking, "signature": "c2lnbmVk"})
    content += [{"type": "text", "text": text, "citations": None} for text in texts if text]
    number = len(state.calls)
    content += [
        {"type": "tool_use", "id": f"toolu_{number:06d}_{i}", "name": name, "input": given}
        for i, (name, given) in enumerate(reply.calls)
    ]
    return {
        "id": f"msg_{len(state.calls):06d}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": "tool_use" if reply.calls and reply.stop == "end_turn" else reply.stop,
        "stop_sequence": None,
        "stop_details": reply.stop_details,
        "usage": {**state.usage(body, reply.thinking + "".join(texts)), "service_tier": "standard"},
    }


def _stream(message: dict[str, Any]) -> bytes:
    """A message as events."""
    usage = message["usage"]
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None, "stop_details": None}}
    ]
    for index, block in enumerate(message["content"]):
        start, delta = dict(block), {"type": "text_delta", "text": block.get("text", "")}
        if block["type"] == "tool_use":
            start["input"], delta = {}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        elif block["type"] == "text":
            start = {"type": "text", "text": ""}
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stop, "usage": {"output_tokens": usage["output_tokens"]}})
    events.append({"type": "message_stop"})
    return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events).encode()


def main() -> None:
    """Serve until ended; ends by itself when the process that started it is gone."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--answer", type=Path, required=True, help="a file with the text of every answer")
    parser.add_argument("--key", default=KEY)
    parser.add_argument("--model", action="append", help="a model it has; may be given several times")
    options = parser.parse_args()
    parent = os.getppid()

    def answer(body: dict[str, Any]) -> str:
        return fill(options.answer.read_text("utf-8"), body)  # read each time: a demo may change it

    with model_server(answer, port=options.port, key=options.key, models=tuple(options.model or [MODEL])) as server:
        print(server.url, flush=True)
        with suppress(KeyboardInterrupt):
            while os.getppid() == parent:
                time.sleep(0.2)
    sys.exit(0)


if __name__ == "__main__":
    main()
