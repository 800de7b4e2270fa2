"""A host that answers with a redirect, as after a rename: cn does not follow, and says where it leads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from cn.git.main_history import look_at_mains
from cn.git.process import Git, GitConfig, Setting
from cn.git.remote import KnownMain, ask_heads, is_unreached, list_refs_of, list_remotes, push_forward, remedy_of
from cn.values.names import Oid
from tests.support.hubs import git
from tests.support.servers import http_server, serve
from tests.support.world import World

PASSWORD = "p4ss-w0rd-4711xyz"
KNOWN = GitConfig((Setting("local", "remote.x.url", f"https://sigma:{PASSWORD}@h.invalid/x"),))


@contextmanager
def moved(location: str, status: int = 301) -> Iterator[tuple[int, list[str]]]:
    """A host that has every repository elsewhere; ``{}`` in ``location`` is what was asked for."""
    asked: list[str] = []

    class Moved(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.send_header("Location", location.replace("{}", self.path))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    with http_server(Moved) as port:
        yield port, asked


def head_of_it(git: Git, url: str) -> str:
    """The branch that HEAD names."""
    return str(ask_heads(git, [url], 20)[url])


def refs_of_it(git: Git, url: str) -> str:
    """Some refs."""
    return str(list_refs_of(git, url, ["refs/heads/main"], 20))


def main_of_it(git: Git, url: str) -> str:
    """What became of a main."""
    return str(look_at_mains(git, {url: KnownMain("main", Oid("a" * 40))}, 20)[url])


def push_to_it(git: Git, url: str) -> str:
    """A branch that is brought forward."""
    return push_forward(git, url, "x", Oid(git.run("rev-parse", "HEAD").text), 20).reason


@pytest.mark.parametrize(
    ("location", "status", "to"),
    [
        ("https://h.invalid/new{}", 301, "https://h.invalid/new/pi.git"),
        ("/new{}", 308, "http://127.0.0.1:{port}/new/pi.git"),
        ("https://h.invalid/login", 302, "https://h.invalid/login"),
        (f"https://sigma:{PASSWORD}@h.invalid/{PASSWORD}", 302, "https://***@h.invalid/***"),
    ],
)
def test_a_host_that_sends_elsewhere_is_told_with_where_and_not_followed(
    tmp_path: Path, location: str, status: int, to: str
) -> None:
    git(tmp_path, "init", "-q", "mine")
    with moved(location, status) as (port, asked):
        found = list_remotes(Git(tmp_path / "mine", config=KNOWN), {"pi": f"http://127.0.0.1:{port}/pi.git"}, 20)["pi"]
    assert isinstance(found, str)
    assert found.endswith(f"it leads to {to.format(port=port)}")
    assert all(path.startswith("/pi.git/") for path in asked)
    assert "redirects are not followed" in remedy_of(found, "")


def test_a_run_names_the_command_that_goes_where_origin_went(world: World) -> None:
    sigma = world.hub("sigma")
    with moved("https://h.invalid/new{}") as (port, _):
        git(sigma.root, "remote", "set-url", "origin", f"http://127.0.0.1:{port}/sigma.git")
        said = sigma.cn("sync", check=None)
    assert said.returncode == 1
    assert "git remote set-url origin https://h.invalid/new/sigma.git" in said.stdout + said.stderr


def test_of_a_peer_that_moved_the_line_of_peers_md_is_named(world: World) -> None:
    sigma = world.hub("sigma")
    with moved("https://h.invalid/new{}") as (port, _):
        said = sigma.cn("peer", "add", "pi", f"http://127.0.0.1:{port}/pi.git", "--check", check=None)
    shown = " ".join((said.stdout + said.stderr).split())
    assert "write 'hub: https://h.invalid/new/pi.git' for it in state/peers.md" in shown


@pytest.mark.parametrize("know", [True, False], ids=["known main", "no main"])
def test_a_message_to_a_peer_that_moved_says_where_to(world: World, tmp_path: Path, know: bool) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    with serve("http", tmp_path / "served", tmp_path / "scratch") as remote:
        url = remote.repo("pi")
        git(pi.root, "push", "-q", str(remote.path("pi")), "main")
        sigma.cn("peer", "add", "pi", url)
        if know:
            sigma.cn("peer", "sync", "pi")
    with moved("https://h.invalid/new{}") as (port, _):
        git(sigma.root, "config", f"url.http://127.0.0.1:{port}/.insteadOf", url.rsplit("/", 1)[0] + "/")
        said = sigma.cn("send", "pi", "hello", check=None)
    shown = " ".join((said.stdout + said.stderr).split())
    assert "it leads to https://h.invalid/new/pi.git" in shown
    assert "write 'hub: https://h.invalid/new/pi.git' for it in state/peers.md" in shown


@pytest.mark.parametrize("ask", [head_of_it, refs_of_it, main_of_it, push_to_it], ids=lambda ask: ask.__name__)
def test_whatever_asks_a_host_says_where_it_leads(tmp_path: Path, ask: Callable[[Git, str], str]) -> None:
    git(tmp_path, "init", "-q", "mine")
    git(tmp_path / "mine", "commit", "-q", "--allow-empty", "-m", "one")
    with moved("https://h.invalid/new{}") as (port, _):
        told = ask(Git(tmp_path / "mine"), f"http://127.0.0.1:{port}/pi.git")
    assert told == "it is not there any more, says the host: it leads to https://h.invalid/new/pi.git"
    assert is_unreached(told)


@pytest.mark.parametrize(
    ("said", "helps"),
    [
        ("fatal: protocol error: bad line length character: Welc", "take it out of the login files"),
        ("fatal: unable to access 'http://h/': CONNECT tunnel failed, response 407", "a proxy stands before the host"),
        ("mux_client_request_session: session request failed: Session open refused by peer", "ControlPath none"),
    ],
)
def test_what_stands_between_has_a_remedy_of_its_own(said: str, helps: str) -> None:
    assert helps in remedy_of(said, "check the network")
