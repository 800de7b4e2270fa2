"""A host that says back all that it was given to let us in."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from urllib.parse import quote

from tests.support.servers import http_server


class _Echo(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        given = self.headers.get("Authorization", "")
        cookie = self.headers.get("Cookie", "")
        self.send_response(403 if given or cookie else 401)
        if not given and not cookie:
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
        coded = given.rpartition(" ")[2]
        pair = base64.b64decode(coded).decode() if given.startswith("Basic ") else coded or cookie
        password = pair.partition(":")[2] or pair
        coloured = "\x1b[0m".join(password)
        said = f"denied for {pair} ({given}) {quote(password)} {coloured} {pair.lower()}".encode()
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def echoing() -> Iterator[int]:
    with http_server(_Echo) as port:
        yield port
