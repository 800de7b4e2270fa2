"""A server of the Model Context Protocol that answers badly, with its secret in what it says.

``python bad_server.py`` by standard streams, as ``MODE`` says; with a port as its argument as the path of the URL says.
"""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_JSON, _EVENTS = "application/json", "text/event-stream"


def _result(asked: dict[str, Any], mode: str, secret: str) -> Any:
    """The result of a request; None where there is no such method."""
    match asked["method"]:
        case "initialize":
            return {
                "protocolVersion": secret if mode == "proto" else asked["params"]["protocolVersion"],
                "capabilities": secret if mode == "init" else {"tools": {}},
                "serverInfo": {"name": "bad", "version": "1"},
            }
        case "tools/list":
            pin = {"type": "integer", "default": int(secret), "minimum": int(secret)} if mode == "bank" else {}
            tool = {"name": "give", "inputSchema": {"type": "object", "properties": {"pin": pin}}}
            return {"tools": [tool, secret] if mode == "list" else [tool]}
        case "tools/call" if mode == "bank":
            value = {"account": {"pin": int(secret), "sum": 7}, "f": float(secret)}
            return {"content": [{"type": "text", "text": "here"}], "structuredContent": value}
        case "tools/call" if mode == "call":
            return {"content": secret}
        case "tools/call" if mode == "badresult":
            return {"content": [{"type": secret}], "isError": secret}
        case "tools/call":
            return {"content": [{"type": "text", "text": secret}]}
    return None


def _answer(asked: dict[str, Any], mode: str, secret: str) -> dict[str, Any]:
    about, result = {"jsonrpc": "2.0", "id": asked["id"]}, _result(asked, mode, secret)
    return about | ({"error": {"code": -32601, "message": "unknown"}} if result is None else {"result": result})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._send(405, "")

    do_DELETE = do_GET

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        secret, mode = self.headers.get("Authorization", "").removeprefix("Bearer "), self.path[1:]
        if "id" not in asked:
            self._send(202, "")
            return
        whole = json.dumps(_answer(asked, mode, secret))
        odd = mode if asked["method"] == "tools/call" else ""
        match odd:
            case "badjson":
                self._send(200, f"{{not json {secret} ")
            case "badsse":
                self._send(200, f"event: message\ndata: {{bad {secret}\n\n", _EVENTS)
            case "oddsse":
                odd_message = json.dumps({"jsonrpc": secret, "id": secret, "foo": secret})
                self._send(200, f"event: message\ndata: {odd_message}\n\nretry: {secret}\n\n", _EVENTS)
            case "oddtype":
                self._send(200, whole, f"text/{secret}")
            case _:
                self._send(200, whole)

    def _send(self, status: int, body: str, kind: str = _JSON) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())


def _by_streams(mode: str, secret: str) -> None:
    if mode == "chat":
        print("connected with", secret, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            print(json.dumps(_answer(asked, mode, secret)), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _Handler).serve_forever()
    else:
        _by_streams(os.environ["MODE"], os.environ["TOKEN"])
