"""What a remote hears of while something is fetched there: of published commits, and of none that is only here."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from cn.git.fetch import fetch_commits, fetch_tips
from cn.git.list_and_fetch import Fetched, list_and_fetch
from cn.git.process import Git
from cn.git.repository import configured
from cn.git.told import ORIGIN, Told, of_peers
from cn.values.names import Name, Oid
from tests.support.hubs import bare, commit, git, identify, tip, work
from tests.support.servers import http_server

_PEER = of_peers("refs/cn/origin", [Name("mal")])


def _by_tips(here: Git, url: str, new: Oid, told: Told) -> None:
    assert fetch_tips(here, {"mal": (url, [("sigma/t", new)])}, 30.0, told={"mal": told}) == {}


def _by_commit(here: Git, url: str, new: Oid, told: Told) -> None:
    assert fetch_commits(here, url, [new], 30.0, told) == ""


def _listing(here: Git, url: str, new: Oid, told: Told) -> None:
    found = list_and_fetch(here, {"": url}, 30.0, Fetched("", "main", ["sigma"], 1 << 20))[""]
    assert not isinstance(found, str)
    assert found.fetched is not None
    assert new in found.values()


@pytest.mark.parametrize("alternates", ["", "echo $(git --git-dir=$1 rev-parse --all) #"])
@pytest.mark.parametrize(
    ("fetch", "told"), [(_by_tips, _PEER), (_by_commit, _PEER), (_listing, ORIGIN)], ids=["tips", "commit", "listing"]
)
def test_a_fetch_names_what_is_published_and_no_commit_of_this_clone_alone(
    fetch: Callable[[Git, str, Oid, Told], None], told: Told, alternates: str, tmp_path: Path
) -> None:
    host = bare(tmp_path / "host.git")
    there = work(tmp_path / "there")
    commit(there, {"a.md": "a\n"})
    git(there, "push", "-q", str(host), "HEAD:refs/heads/main")
    mine = tmp_path / "mine"
    other, borrowed = work(tmp_path / "other"), set()
    for ref in ("refs/cn/origin/main", "refs/cn/pins/mal/in/x"):
        commit(other, {ref: "of the other hub\n"})
        git(other, "update-ref", ref, "HEAD")
        borrowed.add(tip(other))
    git(tmp_path, "clone", "-q", "--no-local", "--reference", str(other), str(host), str(mine))
    published = tip(mine)
    identify(mine, "Sigma")
    git(mine, "update-ref", "refs/cn/origin/main", published)
    secret = borrowed
    for number, ref in enumerate(("refs/heads/private", "refs/stash", "refs/tags/own", "refs/cn/pins/pi/in/x")):
        commit(mine, {f"secret-{number}": "the plan\n"})
        git(mine, "update-ref", ref, "HEAD")
        secret.add(tip(mine))
        git(mine, "reset", "-q", "--hard", published)
    if fetch is _listing:
        secret.remove(tip(mine, "refs/cn/pins/pi/in/x"))  # origin has the pins
    if alternates:
        git(mine, "config", "core.alternateRefsCommand", alternates)
    new = commit(there, {"t.md": "t\n"})
    git(there, "push", "-q", str(host), "HEAD:refs/heads/sigma/t")
    trace = tmp_path / "trace"
    here = configured(Git(mine)).with_env(GIT_TRACE_PACKET=trace)
    fetch(here, str(host), Oid(new), told)
    named = set(re.findall(r"have ([0-9a-f]{40})", trace.read_text()))
    assert published in named, "what both have comes once more"
    assert not named & secret


def _line(text: str) -> bytes:
    return f"{len(text) + 4:04x}{text}".encode()


def _asked_where_acknowledged(mine: Path, guess: str) -> list[int]:
    """How many commits each request names to a host that says it has this one, of which it was not told
    (gitprotocol-v2(5), "acknowledgments").
    """
    named: list[int] = []

    class Host(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Quiet."""

        def do_GET(self) -> None:
            service = _line("# service=git-upload-pack\n") + b"0000"
            self.say("advertisement", service + _line("version 2\n") + _line("ls-refs\n") + _line("fetch=shallow\n"))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            if b"command=ls-refs" in body:
                self.say("result", _line(f"{'1' * 40} refs/heads/sigma/t\n"))
                return
            named.append(body.count(b"have "))
            self.say("result", _line("acknowledgments\n") + _line(f"ACK {guess}\n"))

        def say(self, what: str, content: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", f"application/x-git-upload-pack-{what}")
            self.end_headers()
            self.wfile.write(content + b"0000")

    with http_server(Host) as port:
        url = f"http://127.0.0.1:{port}/mal.git"
        wanted = {"mal": (url, [("sigma/t", Oid("1" * 40))])}
        assert fetch_tips(configured(Git(mine)), wanted, 30.0, told={"mal": _PEER})
    return named


def test_a_host_hears_nothing_by_claiming_to_have_what_only_this_clone_has(tmp_path: Path) -> None:
    """git's usual way looks for it here, and then names no commits below it."""
    mine = work(tmp_path / "mine")
    for number in range(60):
        commit(mine, {"a.md": f"{number}\n"})
    git(mine, "update-ref", "refs/cn/origin/main", "HEAD")
    git(mine, "switch", "-q", "--detach", "HEAD~1")
    secret = commit(mine, {"b.md": "the plan\n"})
    right, wrong = (_asked_where_acknowledged(mine, guess) for guess in (secret, "2" * 40))
    assert right == wrong != []
