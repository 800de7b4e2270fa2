"""What git's object check refuses on fetch is not let in: not in that run, not in the next ones."""

from __future__ import annotations

from http.server import SimpleHTTPRequestHandler
from typing import Any

import pytest

from tests.support.hubs import clone, git, push, tip, try_git, write_commit
from tests.support.servers import http_server
from tests.support.world import World

BAD = {".gitmodules": '[submodule "x"]\n\tpath = x\n\turl = -x\n'}


@pytest.mark.parametrize(("others", "deliver"), [(0, "mailbox"), (2, "mailbox"), (1, "pickup")])
def test_what_the_check_refused_stays_out(world: World, others: int, deliver: str) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, deliver)
    person = clone(sigma.url, world.folder / "person", "Pi")
    head = write_commit(person, BAD, "x", [tip(person, "origin/main")])
    branch, url = world.branch(pi, sigma, "gitmod")
    push(person, url, f"{head}:refs/heads/{branch}")
    for number in range(others):
        world.propose(pi, sigma, f"good-{number}")
    first = sigma.cn("inbox", "sync", check=1)
    shown = "pi/gitmod" if deliver == "mailbox" else "pi/gitmod (there sigma/gitmod)"
    assert f"{shown} cannot be fetched: " in first.stderr
    assert "gitmodulesUrl" in first.stderr
    assert len(sigma.threads()) == others
    for _ in range(2):
        again = sigma.cn("inbox", "sync", "-q", check=None)
        assert (again.stdout, again.stderr) == ("", ""), "it is told once"
        assert len(sigma.threads()) == others
    assert f"{shown} cannot be fetched: " in sigma.cn("inbox", "sync", "-v", check=None).stderr
    assert "gitmodulesUrl" in sigma.cn("status", "-v").stdout.replace("\n", "").replace("  ", "")
    assert try_git(sigma.root, "cat-file", "-e", git(person, "rev-parse", f"{head}:.gitmodules")).returncode
    assert "gitmodules" not in try_git(sigma.root, "fsck", "--strict").stderr.decode()


def test_a_check_that_fails_for_a_blob_that_is_here_already(world: World) -> None:
    """The blob came under another name, which is allowed: the name makes it bad."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    person = clone(sigma.url, world.folder / "person", "Pi")
    for topic, path in (("first", "docs/text"), ("gitmod", ".gitmodules")):
        head = write_commit(person, {path: BAD[".gitmodules"]}, topic, [tip(person, "origin/main")])
        push(person, sigma.url, f"{head}:refs/heads/pi/{topic}")
        done = sigma.cn("inbox", "sync", check=None)
        assert ("cannot be fetched" in done.stderr) == (topic == "gitmod")
        assert len(sigma.threads()) == 1


def test_a_main_that_the_check_refused_stays_out(world: World) -> None:
    sigma = world.hub("sigma")
    before = tip(sigma.root, "main")
    pusher = clone(sigma.url, world.folder / "pusher", "eve")
    head = write_commit(pusher, BAD, "x", [tip(pusher, "origin/main")])
    push(pusher, sigma.url, f"{head}:refs/heads/main")
    for _ in range(2):
        said = sigma.sync(check=1).stderr
        assert "origin's main cannot be fetched: git's object check refuses it: " in said
        assert "gitmodulesUrl" in said
        assert "unreachable" not in said
        assert tip(sigma.root, "main") == before
        assert try_git(sigma.root, "cat-file", "-e", head).returncode


@pytest.mark.parametrize("packed", [False, True])
def test_a_host_that_serves_files_is_told(world: World, packed: bool) -> None:
    """git checks no object of such a host ("dumb" HTTP): nothing is taken in, and that is not silent."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    near, root = pi.url, str(pi.home.parent)

    class Files(SimpleHTTPRequestHandler):
        def __init__(self, *words: Any) -> None:
            super().__init__(*words, directory=root)

        def log_message(self, format: str, *words: Any) -> None:
            """Nothing."""

    with http_server(Files) as port:
        pi.url = f"http://127.0.0.1:{port}/{pi.home.name}"
        world.link(sigma, pi, "pickup")
        pi.url = near
        head = world.propose(pi, sigma)
        if packed:
            git(pi.home, "repack", "-a", "-d", "-q")
        git(pi.home, "update-server-info")
        told = sigma.cn("sync", check=1).stderr
        assert "cannot be fetched: it is served as files, without git's own protocol" in told
        assert "its creator" not in told
        assert "the host has to speak git's own protocol" in " ".join(told.split())
        checked = sigma.cn("peer", "add", "omega", f"http://127.0.0.1:{port}/{pi.home.name}", "--check", check=None)
        assert "can be listed, and not fetched from" in " ".join((checked.stdout + checked.stderr).split())
        assert "✓ checked" not in checked.stdout
        assert sigma.cn("sync").stderr == "", "it is told once"
        assert "served as files" in " ".join(sigma.cn("status", "-v").stdout.split())
    assert sigma.threads() == []
    assert try_git(sigma.root, "cat-file", "-e", head).returncode
