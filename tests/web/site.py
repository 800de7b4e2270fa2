"""A server of ``cn web`` under test: a process of its own, and a client that behaves as a browser would."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

from tests.support.hubs import cn_env

SECONDS = 30.0


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    text: str


@dataclass
class Site:
    """A running server; ``cookie`` is that of the session, once :meth:`enter` was called."""

    process: subprocess.Popen[str]
    link: str
    cookie: str = ""
    said: list[str] = field(default_factory=list)

    @property
    def host(self) -> str:
        """``127.0.0.1:PORT``."""
        match = re.match(r"http://([^/]+)/", self.link)
        assert match, self.link
        return match[1]

    @property
    def token(self) -> str:
        """That of the link."""
        return self.link.partition("token=")[2]

    def ask(self, path: str, method: str = "GET", body: str | None = None, **headers: str) -> Answer:
        """One request, with the session's cookie unless ``Cookie`` says otherwise; an empty header is left out."""
        given = {"Host": self.host, "Cookie": self.cookie, **{key.replace("_", "-"): v for key, v in headers.items()}}
        connection = http.client.HTTPConnection(self.host, timeout=SECONDS)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for key, value in given.items():
                if value:
                    connection.putheader(key, value)
            data = (body or "").encode()
            if body is not None:
                connection.putheader("Content-Length", str(len(data)))
            connection.endheaders(data)
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode())
        finally:
            connection.close()

    def enter(self) -> Answer:
        """Open the link, and keep the cookie."""
        answer = self.ask(f"/start?token={self.token}")
        self.cookie = answer.headers.get("set-cookie", "").partition(";")[0]
        return answer

    def form(self, thread: str) -> dict[str, str]:
        """The hidden fields of a thread's form."""
        return hidden_fields(self.ask(f"/thread/{thread}").text)

    def send(self, thread: str, fields: Mapping[str, str], **headers: str) -> Answer:
        """Send the form as a browser does, unless the headers say otherwise."""
        given = {
            "Origin": f"http://{self.host}",
            "Sec_Fetch_Site": "same-origin",
            "Content_Type": "application/x-www-form-urlencoded",
            **headers,
        }
        return self.ask(f"/thread/{thread}", "POST", urlencode(fields), **given)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it by a signal; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(SECONDS)


@contextmanager
def serving(hub: Path, *words: str, env: Mapping[str, str] | None = None) -> Iterator[Site]:
    """``cn web`` on a hub, until the end of the block."""
    command = [sys.executable, "-P", "-m", "cn", "--hub", str(hub), "web", *words]
    process = subprocess.Popen(command, env=cn_env(env), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        link = process.stdout.readline().strip()
        assert link.startswith("http://127.0.0.1:"), f"it ended with {process.wait(SECONDS)}"
        yield Site(process, link)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(SECONDS)
        if process.stdout is not None:
            process.stdout.close()


def is_alive(pid: int) -> bool:
    """Does the process still run?"""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class _Fields(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "input" and given.get("type") == "hidden":
            self.found[given.get("name") or ""] = given.get("value") or ""


def hidden_fields(html: str) -> dict[str, str]:
    """The hidden fields of a page's forms."""
    parser = _Fields()
    parser.feed(html)
    return parser.found
