"""What a host says back of what it was given to let us in: no password and no token of a URL is shown or kept."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest

from cn.git.credentials import secrets_of, without_secrets
from cn.git.process import Git, GitConfig, Setting
from cn.git.repository import read_config
from tests.support.hubs import git
from tests.support.world import World

PASSWORD = "p@ss-w0rd-4711xyz"
PAIR = base64.b64encode(f"sigma:{PASSWORD}".encode()).decode()
URL = f"http://sigma:{quote(PASSWORD)}@127.0.0.1"


class _Echo(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        given = self.headers.get("Authorization", "")
        self.send_response(403 if given else 401)
        if not given:
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
        pair = base64.b64decode(given.rpartition(" ")[2]).decode()
        password = pair.partition(":")[2]
        coloured = "\x1b[0m".join(password)
        said = f"denied for {pair} ({given}) {quote(password)} {coloured}".encode()
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def echoing() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_password_that_a_host_says_back_is_shown_and_kept_nowhere(world: World) -> None:
    sigma = world.hub("sigma")
    with echoing() as port:
        git(sigma.root, "remote", "set-url", "origin", f"{URL}:{port}/hub.git")
        told = ""
        for words in (("sync",), ("send", "sigma-two", "x"), ("status",), ("doctor",)):
            done = sigma.cn(*words, check=None)
            told += done.stdout + done.stderr
    assert "denied for ***" in told
    kept = (sigma.root / ".git/cn/local.json").read_text()
    for secret in (PASSWORD, quote(PASSWORD), PAIR.rstrip("="), "4711xyz"):
        assert secret not in told
        assert secret not in kept


def test_what_a_host_says_of_a_push_holds_no_token_of_the_configuration(tmp_path: Path) -> None:
    program = tmp_path / "git"
    program.write_text(
        "#!/bin/sh\necho '!\\tx:refs/heads/x\\t[remote rejected] (no, ghp_token4711)'; echo no >&2; exit 1\n"
    )
    program.chmod(0o755)
    settings = (
        Setting("local", "url.https://ghp_token4711@host/.insteadof", "https://host/"),
        Setting("local", "http.extraheader", "Authorization: Bearer abcdef123"),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(tmp_path), prepend=":")
        done = Git(tmp_path, config=GitConfig(settings)).run("push", "--", "https://host/x", check=False, network=True)
    assert b"ghp_token4711" not in done.out
    assert b"(no, ***)" in done.out


@pytest.mark.parametrize(
    ("url", "hidden"),
    [
        ("https://user:secret-word@host/x", ["secret-word", "user:secret-word"]),
        ("https://token-of-mine@host/x", ["token-of-mine"]),
        ("https://u:a%40bcdefg@host/x", ["a%40bcdefg", "a@bcdefg"]),
        ("worker:Pr0xyPassw0rd@127.0.0.1:3128", ["Pr0xyPassw0rd", "worker:Pr0xyPassw0rd"]),
        ("maintainers@host:x", []),
        ("ssh://maintainers@host/x", []),
        ("https://host/a@b", []),
        ("/srv/a@b", []),
    ],
)
def test_the_credentials_of_urls(url: str, hidden: list[str]) -> None:
    secrets = secrets_of([url], [])
    for one in hidden:
        coded = base64.b64encode(one.encode()).decode().rstrip("=")
        assert without_secrets(f"<{one}> <{coded}>", secrets) == "<***> <***>"
    assert bool(secrets) == bool(hidden)
    assert secrets_of([], ["Authorization: Bearer abcdef123"]) == ["abcdef123"]


@pytest.mark.parametrize("where", ["http.proxy", "http_proxy", "all_proxy"])
def test_the_password_of_a_proxy_that_says_it_back_is_not_shown(tmp_path: Path, where: str) -> None:
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\necho 'remote: no, worker:Pr0xyPassw0rd' >&2; exit 1\n")
    program.chmod(0o755)
    proxy = "http://worker:Pr0xyPassw0rd@127.0.0.1:1"
    settings = (Setting("local", where, proxy),) if "." in where else ()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(tmp_path), prepend=":")
        if not settings:
            patch.setenv(where, proxy)
        done = Git(tmp_path, config=GitConfig(settings)).run("ls-remote", "http://host/x", check=False, network=True)
    assert "Pr0xyPassw0rd" not in done.err
    assert "***" in done.err


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("http.proxy", "http://worker:Pr0xyPassw0rd@127.0.0.1:1"),
        ("http.https://host/.proxy", "worker:Pr0xyPassw0rd@127.0.0.1:1"),
        ("remote.origin.proxy", "http://worker:Pr0xyPassw0rd@127.0.0.1:1"),
        ("http.https://host/.extraHeader", "Authorization: Bearer Pr0xyPassw0rd"),
    ],
)
def test_what_git_is_told_to_send_is_known_from_its_configuration(tmp_path: Path, key: str, value: str) -> None:
    """What is masked is what is asked for: a setting that nobody reads would be shown."""
    git(tmp_path, "init", "-q", "mine")
    git(tmp_path / "mine", "config", key, value)
    found = read_config(Git(tmp_path / "mine"))
    assert value in [setting.value for setting in found.settings]
