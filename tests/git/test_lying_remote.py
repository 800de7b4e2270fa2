"""A server that lists what no git would: whatever git prints of it, only ids and names come out."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cn.git import process
from cn.git.fetch import fetch_tips
from cn.git.process import NO_MEMORY, Git
from cn.git.remote import NOT_GIT, Push, Result, head_of, list_remotes, push_many
from cn.values.names import Oid, is_branch, is_oid
from tests.support.hubs import bare, git, tip, work
from tests.support.lying_server import LyingServer
from tests.support.servers import http_backend, http_server

OID = b"1" * 40
SPEC = b"+refs/heads/a:refs/cn/trusted"
_WORDS = rb"refs/heads/ pi/x : + ^ HEAD symref-target: ref: peeled: - .. @{ unborn refs/heads/main"
PIECES = st.sampled_from([*_WORDS.split(), OID, SPEC, b"\n", b"\t", b" ", b"\xff", b"\x1b[2J"])


@pytest.fixture(scope="module")
def server() -> Iterator[LyingServer]:
    found = LyingServer()
    yield found
    found.close()


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return work(tmp_path_factory.mktemp("lies") / "repo", "sigma")


def test_a_line_feed_in_a_name_makes_no_branch_with_an_id_of_its_choice(server: LyingServer, repo: Path) -> None:
    server.rows = [OID + b" refs/heads/pi/y\n" + SPEC + b"\trefs/heads/pi/x", OID + b" refs/heads/pi/z"]
    assert b"\n" + SPEC + b"\t" in Git(repo).run("ls-remote", "--", server.url, network=True).out
    assert list_remotes(Git(repo), {"pi": server.url}, 20) == {"pi": {"pi/y": "1" * 40, "pi/z": "1" * 40}}


@pytest.mark.parametrize("name", [b"a:refs/cn/trusted", b"..", b"-\x1b[2J", b"a/*"])
def test_what_head_names_is_a_branch(server: LyingServer, repo: Path, name: bytes) -> None:
    server.rows = [OID + b" HEAD symref-target:refs/heads/trunk"]
    assert head_of(Git(repo), server.url, 20) == ("trunk", "1" * 40)
    server.rows = [OID + b" HEAD symref-target:refs/heads/" + name]
    assert head_of(Git(repo), server.url, 20) is None


@pytest.mark.parametrize("spec", ["a:refs/cn/trusted", "a\n+b:refs/heads/main", "*"])
def test_no_fetch_can_write_a_ref(server: LyingServer, repo: Path, spec: str) -> None:
    with pytest.raises(AssertionError):
        fetch_tips(Git(repo), {"pi": (server.url, [(spec, Oid("1" * 40))])}, 20)
    tips = [(f"pi/{n}", spec) for n in range(501)]
    with pytest.raises(AssertionError):
        fetch_tips(Git(repo), {"pi": (server.url, tips)}, 20)  # type: ignore[dict-item]
    assert git(repo, "for-each-ref", "refs/cn/") == ""


def test_of_any_listing_only_ids_and_names_come_out(server: LyingServer, repo: Path) -> None:
    rows = st.lists(st.lists(PIECES, min_size=1, max_size=8).map(b"".join), max_size=4)

    @settings(max_examples=12, suppress_health_check=list(HealthCheck))
    @given(rows)
    def run(rows: list[bytes]) -> None:
        server.rows = [OID + b" " + row for row in rows]
        found = list_remotes(Git(repo), {"pi": server.url}, 20)["pi"]
        assert isinstance(found, str) or all(is_oid(oid) and "\n" not in name for name, oid in found.items())
        head = head_of(Git(repo), server.url, 20)
        assert head is None or (is_branch(head[0]) and is_oid(head[1]))

    run()


@pytest.mark.parametrize("page", [b"", b'{"error":"maintenance"}', b"<html>login</html>\n"])
def test_a_page_that_is_no_git_is_not_taken_for_an_empty_repository(repo: Path, page: bytes) -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with http_server(Page) as port:
        found = list_remotes(Git(repo), {"pi": f"http://127.0.0.1:{port}/pi.git"}, 20)["pi"]
    assert isinstance(found, str)
    assert found == NOT_GIT or "not valid" in found


def test_an_empty_repository_is_one_by_every_transport(repo: Path, tmp_path: Path) -> None:
    bare(tmp_path / "new.git")
    with http_backend(tmp_path) as served:
        urls = {"http": served.url("new"), "file": f"file://{tmp_path}/new.git", "path": str(tmp_path / "new.git")}
        assert list_remotes(Git(repo), urls, 20) == {key: {} for key in urls}


def test_a_listing_beyond_all_measure_is_refused_by_name_and_others_are_read(server: LyingServer, repo: Path) -> None:
    server.rows = [OID + b" refs/heads/pi/" + str(n).encode() + b"x" * 900 for n in range(20_000)]
    found = list_remotes(Git(repo), {"pi": server.url, "rho": str(repo)}, 60)
    assert found["pi"] == "it says more than cn reads"
    assert isinstance(found["rho"], dict)
    server.rows = []


def test_a_list_of_branches_without_end_ends_a_fetch_and_a_push_and_no_memory(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packed a thousandfold; git keeps all of it before it reads a word."""
    monkeypatch.setattr(process, "_MAX_FAR_DATA", 96 << 20)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    begin = packer.compress(b"x") + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(b"x" * (1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)

    class Bomb(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            service = self.path.partition("service=")[2]
            self.send_response(200)
            self.send_header("Content-Type", f"application/x-{service}-advertisement")
            self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(begin + again * 400)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    bare(tmp_path / "rho.git")
    git(repo, "commit", "--allow-empty", "-qm", "one")
    oid = Oid(tip(repo))
    with http_server(Bomb) as port:
        url = f"http://127.0.0.1:{port}/pi.git"
        fetched = fetch_tips(
            Git(repo), {"pi": (url, [("main", Oid("f" * 40))]), "rho": (str(repo), [("main", oid)])}, 60
        )
        refs = [Push("sigma/one", oid, None)]
        pushed = push_many(Git(repo), {"pi": (url, refs), "rho": (str(tmp_path / "rho.git"), refs)}, 60)
    assert fetched == {"pi": NO_MEMORY}
    assert pushed["pi"]["sigma/one"] == (Result.UNKNOWN, NO_MEMORY)
    assert pushed["rho"]["sigma/one"].result is Result.DONE
