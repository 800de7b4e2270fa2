"""SHA-1 and SHA-256: git exchanges nothing between the two, and cn says so of exactly that remote."""

from __future__ import annotations

import shutil

import pytest

from cn.git.process import OTHER_FORMAT
from tests.support.hubs import git, identify
from tests.support.world import Node, World

BOTH = pytest.mark.parametrize(("ours", "theirs"), [("sha1", "sha256"), ("sha256", "sha1")])


def hub_of(world: World, name: str, form: str) -> Node:
    """A hub with an origin, both of that object format."""
    root, home = world.folder / f"cn-{name}", world.folder / "host" / f"{name}.git"
    shutil.copytree(world.template / name, root, symlinks=True)
    shutil.rmtree(root / ".git")
    for options in ((str(root),), ("--bare", str(home))):
        git(world.folder, "init", "--quiet", "-b", "main", f"--object-format={form}", *options)
    identify(root, name, f"{name}@cn.invalid")
    git(root, "add", "--all", "--force")
    git(root, "commit", "--quiet", "--message", "start")
    git(root, "remote", "add", "origin", str(home))
    git(root, "push", "--quiet", "origin", "main")
    return Node(name, root, home, str(home))


@pytest.mark.sliced(4)
@BOTH
@pytest.mark.parametrize("deliver", ["mailbox", "pickup"])
def test_a_peer_of_the_other_format_is_named_and_keeps_nobody_out(
    world: World, ours: str, theirs: str, deliver: str
) -> None:
    sigma, pi, omega = hub_of(world, "sigma", ours), hub_of(world, "pi", theirs), hub_of(world, "omega", ours)
    world.link(sigma, pi, deliver)
    world.link(sigma, omega, deliver)
    world.propose(omega, sigma, "hello")
    sigma.cn("send", "pi", "to pi", check=None)
    sigma.cn("send", "omega", "to omega", check=None)
    pi.cn("send", "sigma", "to sigma", check=None)
    assert OTHER_FORMAT in pi.cn("sync", "-v").stderr
    told = sigma.cn("sync", "-v")
    assert "received omega/hello" in told.stdout
    assert f"pi is unreachable: {OTHER_FORMAT}" in told.stderr
    for words in (("status",), ("doctor",), ("peer", "list")):
        assert "it has the other object format" in " ".join(sigma.cn(*words, check=None).stdout.split()), words
    assert "pi" not in sigma.only_thread()
    omega.sync()
    assert "to omega" in omega.thread(omega.only_thread())
    assert sigma.sync().stderr == ""  # told once


def test_a_peer_of_the_other_format_is_refused_when_it_is_checked(world: World) -> None:
    sigma, pi = hub_of(world, "sigma", "sha1"), hub_of(world, "pi", "sha256")
    assert OTHER_FORMAT in sigma.cn("peer", "add", "pi", pi.url, "--check", check=1).stderr
    assert "name: pi" not in (sigma.root / "state/peers.md").read_text()


@BOTH
@pytest.mark.parametrize("empty", [False, True])
def test_an_origin_of_the_other_format_is_named(world: World, ours: str, theirs: str, empty: bool) -> None:
    sigma, pi = hub_of(world, "sigma", ours), hub_of(world, "pi", theirs)
    if empty:
        git(pi.home, "update-ref", "-d", "refs/heads/main")
    git(sigma.root, "remote", "set-url", "origin", pi.url)
    assert OTHER_FORMAT in sigma.sync(check=1).stderr
    assert "it has the other object format" in " ".join(sigma.cn("status").stdout.split())
    git(sigma.root, "remote", "set-url", "origin", str(sigma.home))
    sigma.sync()
