"""One message and one merge, whole life, over each kind of remote that git knows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.hubs import branches
from tests.support.servers import Remote, serve
from tests.support.world import World, is_in_main


@pytest.mark.sliced(3)
@pytest.mark.parametrize("deliver", ["mailbox", pytest.param("pickup", marks=pytest.mark.full)])
def test_the_whole_exchange(world: World, remote: Remote, deliver: str) -> None:
    whole_exchange(world, remote, deliver)


def test_the_whole_exchange_by_pickup_from_git_daemon(world: World, tmp_path: Path) -> None:
    """Ours for a peer lie on our ``origin``: a name, which must not be taken for a local path."""
    with serve("git", tmp_path / "served", tmp_path / "server") as served:
        whole_exchange(world, served, "pickup")


def whole_exchange(world: World, remote: Remote, deliver: str) -> None:
    """A proposal is merged and a message answered; everything is cleaned up, then there is rest."""
    for name in ("sigma", "pi"):
        remote.repo(name)
    sigma = world.hub("sigma", url=remote.url("sigma"), home=remote.path("sigma"))
    pi = world.hub("pi", url=remote.url("pi"), home=remote.path("pi"))
    world.link(sigma, pi, deliver)
    head = world.propose(pi, sigma)
    pi.cn("send", "sigma", "hello", "--body", "Please look.")
    sigma.sync()
    assert len(sigma.threads()) == 2
    sigma.triage("pi/proposal", "do:merge")
    sigma.triage("pi/hello", "do:reply:thanks", "--body", "Done.")
    sigma.process()
    assert is_in_main(sigma, head)
    assert sigma.main
    world.settle(pi, sigma)
    assert not world.has_branch(pi, sigma)
    assert "> Done." in pi.thread(pi.only_thread())
    assert set(branches(sigma.home)) == set(branches(pi.home)) == {"main"}
    sigma.idle()
    pi.idle()


@pytest.mark.full
def test_a_remote_that_vanishes_and_returns(world: World, remote: Remote) -> None:
    remote.repo("pi")
    sigma = world.hub("sigma")
    pi = world.hub("pi", url=remote.url("pi"), home=remote.path("pi"))
    world.link(sigma, pi)
    away = pi.home.with_name("away.git")
    shutil.move(pi.home, away)
    done = sigma.cn("send", "pi", "hello", check=1)
    assert "pi" in done.stderr
    shutil.move(away, pi.home)
    sigma.cn("outbox", "flush")
    assert "sigma/hello" in branches(pi.home)
