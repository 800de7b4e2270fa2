"""A peer's host that knows the id of a commit which only our clone has, and lists it as a branch without having it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.support.hubs import bare, commit, git, paths, tip
from tests.support.servers import http_server
from tests.support.world import Node, World

_SECRET = "the plan: buy omega"


@contextmanager
def _lying_host(root: Path, rows: dict[str, str], busy: Sequence[bytes] = ()) -> Iterator[str]:
    """``git http-backend`` on a folder, whose listings have these refs too; the URL.

    It is ``busy`` where a request holds one of these words.
    """

    class Host(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Quiet."""

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if any(words in body for words in busy):
                self.send_error(503)
                return
            path, _, query = self.path.partition("?")
            env = {**os.environ, "GIT_PROJECT_ROOT": str(root), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path}
            env |= {"QUERY_STRING": query, "REQUEST_METHOD": self.command, "CONTENT_LENGTH": str(len(body))}
            env |= {"CONTENT_TYPE": self.headers.get("Content-Type", ""), "REMOTE_ADDR": "127.0.0.1"}
            env |= {"GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
            env |= {"HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", "")}
            env |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "http.receivepack", "GIT_CONFIG_VALUE_0": "true"}
            said = subprocess.run(
                ["git", "http-backend"], input=body, env=env, stdout=subprocess.PIPE, check=False
            ).stdout
            head, _, content = said.partition(b"\r\n\r\n")
            if b"command=ls-refs" in body:
                more = (f"{oid} {ref}\n".encode() for ref, oid in rows.items())
                content = content[:-4] + b"".join(b"%04x%s" % (len(row) + 4, row) for row in more) + b"0000"
            fields = [line.partition(": ")[::2] for line in head.decode().split("\r\n")]
            self.send_response(int(dict(fields).get("Status", "200").split()[0]))
            for name, value in fields:
                if name != "Status":
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = answer

    with http_server(Host) as port:
        yield f"http://127.0.0.1:{port}"


def _only_here(sigma: Node, where: str) -> str:
    """A commit that no remote has, as a branch, a stash, or in a main that was not pushed."""
    if where == "stash":
        (sigma.root / "README.md").write_text(f"{_SECRET}\n")
        git(sigma.root, "stash", "-q")
        return tip(sigma.root, "refs/stash")
    git(sigma.root, "switch", "-q", "-c", "private")
    inner = commit(sigma.root, {"plan.txt": f"{_SECRET}\n"}, "the plan")
    commit(sigma.root, {"more.txt": "more\n"}, "more of it")
    git(sigma.root, "switch", "-q", "main")
    return inner if where == "inner" else tip(sigma.root, "private")


@pytest.mark.parametrize("where", ["branch", "inner", "stash"])
@pytest.mark.parametrize("deliver", ["pickup", "mailbox"])
def test_what_only_this_clone_has_is_not_taken_for_a_peers_by_its_id(world: World, deliver: str, where: str) -> None:
    sigma, mal = world.hub("sigma"), world.hub("pi")
    rows: dict[str, str] = {}
    with _lying_host(mal.home.parent, rows) as url:
        sigma.add_peer(mal, deliver=deliver, url=f"{url}/{mal.home.name}")
        sigma.sync()
        secret = _only_here(sigma, where)
        rows["refs/heads/sigma/p0"] = secret
        said = sigma.cn("sync", check=1)
        assert "cannot be fetched" in said.stderr
        assert secret in said.stderr
        sigma.sync(check=0)
    assert sigma.threads() == []
    has = subprocess.run(["git", "-C", str(sigma.home), "cat-file", "-e", secret], capture_output=True, check=False)
    assert has.returncode, "it is at origin"
    assert not [ref for ref in sigma.refs() if "/pi/" in ref]


@pytest.mark.parametrize("deliver", ["pickup", "mailbox"])
def test_what_a_person_pushed_there_is_taken_though_it_is_here_already(world: World, deliver: str) -> None:
    sigma, mal = world.hub("sigma"), world.hub("pi")
    with _lying_host(mal.home.parent, {}) as url:
        sigma.add_peer(mal, deliver=deliver, url=f"{url}/{mal.home.name}")
        sigma.sync()
        head = _only_here(sigma, "branch")
        git(sigma.root, "push", "-q", str(mal.home), f"{head}:refs/heads/sigma/p0")
        sigma.sync()
    side = "in" if deliver == "pickup" else "out"
    assert sigma.refs()[f"refs/cn/pins/pi/{side}/p0"] == head


def test_a_host_that_breaks_off_is_not_said_to_lack_what_it_lists(world: World) -> None:
    sigma, mal = world.hub("sigma"), world.hub("pi")
    busy = [b"deepen "]
    with _lying_host(mal.home.parent, {}, busy) as url:
        sigma.add_peer(mal, deliver="pickup", url=f"{url}/{mal.home.name}")
        sigma.sync()
        head = _only_here(sigma, "branch")
        git(sigma.root, "push", "-q", str(mal.home), f"{head}:refs/heads/sigma/p0")
        said = sigma.cn("sync", check=1)
        assert "503" in said.stderr
        assert "does not have" not in said.stderr
        assert sigma.threads() == []
        busy.clear()
        sigma.cn("peer", "sync")
    assert len(sigma.threads()) == 1


def test_a_commit_with_private_folders_in_its_history_is_not_published(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    box = bare(world.folder / "host" / "box.git")
    git(sigma.root, "remote", "add", "box", str(box))
    sigma.configure("mailbox: box\n")
    sigma.add_peer(pi)
    sigma.sync()
    sigma.sync()
    published = tip(box, "main")
    private = tip(sigma.root, "main")
    words = ("-c", "user.name=mal", "-c", "user.email=mal@example.org", "commit-tree", "-p", published, "-p", private)
    bad = git(sigma.root, *words, "-m", "typo", tip(box, "main^{commit}") + "^{tree}")
    sigma.write({"state/published": f"{bad}\n"}, "as a merge would")
    said = sigma.cn("sync", check=None)
    assert "holds what is not published there" in said.stdout + said.stderr
    (shows,) = re.findall(r"(git log --full-history [^;]*?)'? shows it", said.stderr)
    assert "threads/" in git(sigma.root, *shlex.split(shows)[1:])
    assert tip(box, "main") == published
    git(sigma.root, "push", "-q", "box", f"{bad}:refs/heads/main")
    sigma.sync()
    assert tip(box, "main") != published


@pytest.mark.parametrize("way", ["adds it and takes it back", "was made on main when that was public"])
def test_a_branch_with_private_folders_in_its_history_is_not_merged_where_they_are_not_published(
    world: World, way: str
) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    box = bare(world.folder / "host" / "box.git")
    git(sigma.root, "remote", "add", "box", str(box))
    sigma.sync()
    public, adds = tip(sigma.root, "main"), ""
    sigma.configure("mailbox: box\n")
    sigma.url = str(box)
    world.link(sigma, pi)
    sigma.sync()
    if way.startswith("was made"):
        git(pi.root, "fetch", "-q", str(sigma.root), public)
        git(pi.root, "switch", "-q", "--detach", public)
    else:
        git(pi.root, "fetch", "-q", str(box), "main")
        git(pi.root, "switch", "-q", "--detach", "FETCH_HEAD")
        adds = commit(pi.root, {"logs/x": "x\n"}, "a log")
        git(pi.root, "rm", "-q", "logs/x")
    head = commit(pi.root, {"docs/a.md": "a\n"}, "a page")
    git(pi.root, "push", "-q", str(box), f"{head}:refs/heads/pi/a")
    git(pi.root, "switch", "-q", "main")
    sigma.sync()
    sigma.triage("pi/a", "do:merge")
    said = sigma.process(check=None)
    assert f"{adds[:8]} in its history adds what is not published" in said.stdout + said.stderr
    assert "docs/a.md" not in paths(sigma.root, "main")
    world.settle(pi, sigma)
    assert pi.rows("sigma/a")[-1][1] == "notice:refused"
    again = commit(sigma.root, {"spec/more.md": "more\n"}, "more")
    sigma.sync()
    assert tip(sigma.root, "main") != again
    assert "spec/more.md" in paths(box, "main")
