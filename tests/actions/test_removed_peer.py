"""Somebody who is taken out of the peers: what is open is said, and what became of a branch is owed until then."""

from __future__ import annotations

import json

import pytest

from cn.loop.idle_check import NOTE
from tests.support.world import Node, World


@pytest.fixture(params=["mailbox", "pickup"])
def removed(request: pytest.FixtureRequest, world: World) -> tuple[Node, Node]:
    """A hub that received a proposal of one whom it has taken out since, and that one."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, request.param)
    world.propose(pi, sigma)
    pi.sync()
    sigma.sync()
    assert sigma.threads()
    sigma.cn("peer", "remove", "pi")
    return sigma, pi


def add_again(sigma: Node, pi: Node) -> str:
    return sigma.cn("peer", "add", "pi", pi.url, "--deliver", sigma.links[0]).stdout


def test_an_end_is_owed_to_who_is_no_peer_and_told_when_added_again(world: World, removed: tuple[Node, Node]) -> None:
    sigma, pi = removed
    done = sigma.cn("delete", "pi/proposal", "--reason", "left")
    assert "pi is no peer: it is told when it is added again" in done.stdout
    assert len(sigma.outbox()) == 1
    status = sigma.cn("status", "--check").stdout
    assert "pi is no peer: it goes when pi is added again" in status
    assert "in the outbox for pi, and sent by the next sync" in add_again(sigma, pi)
    world.settle(sigma, pi)
    assert sigma.outbox() == []
    assert not world.has_branch(pi, sigma), "its creator was told, and has deleted it"
    assert ("sigma/proposal", "notice:discarded", 'discarded: "left"') in pi.rows()


def test_what_is_owed_goes_by_another_route_where_it_is_added_by_that(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    sigma.cn("peer", "remove", "pi")
    sigma.cn("delete", "pi/proposal", "--reason", "left")
    sigma.cn("peer", "add", "pi", pi.url, "--deliver", "pickup")
    assert "delivered pi/notice-proposal" in sigma.sync().stdout
    assert sigma.outbox() == []
    sigma.idle()


def test_what_is_owed_keeps_no_sync_busy(world: World, sigma: Node, pi: Node) -> None:
    omega = world.hub("omega")
    world.link(sigma, omega)
    world.propose(pi, sigma)
    sigma.sync()
    sigma.cn("peer", "remove", "pi")
    sigma.cn("delete", "pi/proposal", "--reason", "left")
    world.withdraw(pi, sigma)  # of no peer's branch is told elsewhere
    sigma.sync()
    sigma.idle()
    assert (sigma.root / ".git/cn" / NOTE).is_file(), "the next sync may end before it began"


def test_taking_a_peer_out_says_what_is_open(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    world.propose(sigma, pi, "ours")
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    for words in (("--dry-run",), ()):
        said = sigma.cn("peer", "remove", "pi", *words).stdout
        assert "can be deleted or put off; pi is told of it when it is added again: pi/proposal" in said
        assert "all else is refused: pi/proposal (do:merge)" in said
        assert "pi is not asked about them before it is added again: sigma/ours" in said
    assert "pi is no peer, and is not asked" in sigma.cn("status").stdout


def test_what_is_offered_of_a_thread_of_no_peer_can_be_done(removed: tuple[Node, Node]) -> None:
    sigma, _ = removed
    shown = sigma.cn("inbox", "show", "pi/proposal").stdout.partition("-- decide")[2]
    assert "do:merge" not in shown
    assert "pi deletes" not in shown
    assert "delete:<reason>" in shown
    assert sigma.triage("pi/proposal", "do:merge", check=None).returncode == 1
    assert json.loads(sigma.cn("inbox", "--json").stdout)[0]["state"] == "pending"


@pytest.mark.parametrize("where", ["there", "waiting", "deleting"])
def test_what_we_sent_to_one_that_is_no_peer_can_be_ended(world: World, where: str) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    away = pi.home.with_name("away")
    if where == "waiting":
        pi.home.rename(away)
    sigma.cn("send", "pi", "a word", "--body", "x", check=None)
    if where == "deleting":
        pi.home.rename(away)
        sigma.cn("withdraw", "pi:a-word", check=1)
    sigma.cn("peer", "remove", "pi")
    if where == "there":
        assert "'cn withdraw pi:a-word' says that it needs nothing more" in sigma.cn("status").stdout
    told = sigma.cn("withdraw", "pi:a-word").stdout
    assert "pi:a-word was taken back here; pi is no peer, so nothing is deleted there" in told
    assert sigma.outbox() == []
    assert "a-word" not in sigma.cn("status").stdout
    sigma.cn("status", "--check")
    assert "taken back by us" in sigma.cn("why", "pi:a-word").stdout
    sigma.idle()
    if where != "there":
        away.rename(pi.home)
    sigma.cn("peer", "add", "pi", pi.url)
    sigma.sync()
    assert not world.has_branch(sigma, pi, "a-word")
    world.settle(sigma, pi)


def test_the_new_url_of_a_hub_that_moved_is_said_to_be_written(world: World, sigma: Node, pi: Node) -> None:
    pi.home.rename(pi.home.with_name("elsewhere.git"))
    step = "if its hub moved, write 'hub: URL' for it in state/peers.md, and commit that"
    assert step in sigma.cn("sync", check=1).stderr
    assert step in sigma.cn("doctor", check=1).stdout
