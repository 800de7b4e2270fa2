"""A notice that a peer refuses for its signature is told again, and its creator has its answer once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cn.protocol.layout import NOTICE
from cn.protocol.message import About, Message, format_message
from cn.values.names import Branch, Name, Oid
from tests.support.hubs import branches, git, make_ssh_key, write_commit
from tests.support.world import Node, World, is_in_main

Key = tuple[Path, str]


@pytest.fixture(scope="session")
def first(tmp_path_factory: pytest.TempPathFactory) -> Key:
    """The private file and the public text of sigma's key."""
    return make_ssh_key(tmp_path_factory.mktemp("keys") / "first")


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Key:
    """Those of another one."""
    return make_ssh_key(tmp_path_factory.mktemp("keys") / "other")


def _pair(world: World, key: Key, route: str = "mailbox") -> tuple[Node, Node]:
    """sigma, and pi that has pinned this key for it."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, route, a_key=key[1])
    return sigma, pi


def _answers(pi: Node, topic: str = "proposal") -> list[str]:
    """What pi's log says that became of its branch."""
    return [row[1] for row in pi.rows(f"sigma/{topic}") if row[1].startswith("notice:")]


def _proposed(world: World, pi: Node, sigma: Node, topic: str = "proposal") -> str:
    head = world.propose(pi, sigma, topic)
    pi.sync()
    sigma.sync()
    return head


def _is_told(node: Node) -> str:
    """What status, its exit code and the doctor say of what a creator does not know."""
    shown = " ".join(node.cn("status").stdout.split())
    node.cn("status", "--check", check=1)
    assert "for its signature, so it does not know that" in " ".join(node.cn("doctor", check=1).stdout.split())
    return shown


@pytest.mark.parametrize("route", ["mailbox", "pickup"])
def test_what_a_clone_told_that_does_not_sign_is_told_again_once_it_signs(world: World, first: Key, route: str) -> None:
    sigma, pi = _pair(world, first, route)
    ours = "sigma/notice-proposal" if route == "mailbox" else "pi/notice-proposal"
    theirs = "pi/proposal" if route == "mailbox" else "sigma/proposal"
    head = _proposed(world, pi, sigma)
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)
    said = pi.sync().stderr
    assert "'cn sign KEY', and its next 'cn sync' sends it again" in said
    sigma.sync(check=1)
    shown = _is_told(sigma)
    assert f"pi refused {ours} for its signature, so it does not know that {theirs} is merged" in shown
    assert "'cn sign KEY', with the key that it has pinned for us, and the next 'cn sync' tells it again" in shown
    assert "goes again by itself" in sigma.cn("withdraw", "pi:notice-proposal", check=1).stderr
    sigma.cn("sign", first[0])
    assert f"that {theirs} is merged goes again" in sigma.sync().stdout
    sigma.cn("status", "--check")
    assert f"sigma says {theirs} is merged" in pi.sync().stdout
    world.settle(sigma, pi)
    assert _answers(pi) == ["notice:merged"]
    assert branches(sigma.home).keys() == branches(pi.home).keys() == {"main"}
    assert len(sigma.notices()) == 2
    sigma.idle()
    pi.idle()
    sigma.cn("doctor")


def test_a_clone_that_signs_tells_what_another_one_told_unsigned(world: World, first: Key) -> None:
    sigma, pi = _pair(world, first)
    sigma.cn("sign", first[0])
    _proposed(world, pi, sigma)
    second = world.second(sigma)
    second.sync()
    second.decide("pi/proposal", "delete:not now")
    pi.sync()
    second.sync(check=1)
    _is_told(second)
    assert "that pi/proposal is discarded goes again" in sigma.sync().stdout
    second.sync()
    second.cn("status", "--check")
    assert 'sigma says pi/proposal is discarded: "not now"' in pi.sync().stdout
    world.settle(sigma, pi)
    assert _answers(pi) == ["notice:discarded"]
    assert branches(pi.home).keys() == {"main"}


def test_what_waited_while_the_key_was_replaced_is_told_by_the_new_one(world: World, first: Key, other: Key) -> None:
    sigma, pi = _pair(world, first)
    sigma.cn("sign", first[0])
    _proposed(world, pi, sigma)
    away = pi.home.rename(pi.home.with_name("away.git"))
    sigma.triage("pi/proposal", "do:merge")
    sigma.process(check=1)
    away.rename(pi.home)
    sigma.cn("sign", other[0])
    pi.cn("peer", "key", "sigma", other[1])
    sigma.cn("outbox", "flush")
    assert "signature-policy" in pi.sync().stderr
    sigma.sync()
    world.settle(pi, sigma)
    assert _answers(pi) == ["notice:merged"]
    assert branches(sigma.home).keys() == branches(pi.home).keys() == {"main"}


@pytest.mark.parametrize(("decision", "says"), [("do:merge", "merged"), ("defer:later", "deferred")])
def test_where_the_right_key_is_pinned_after_all_the_notice_itself_comes_in(
    world: World, first: Key, other: Key, decision: str, says: str
) -> None:
    """Nothing is sent again: this clone had signed it, with the key that is the right one."""
    sigma, pi = _pair(world, other)
    sigma.cn("sign", first[0])
    _proposed(world, pi, sigma)
    sigma.decide("pi/proposal", decision)
    pi.sync()
    sigma.sync(check=1)
    _is_told(sigma)
    for _ in range(3):
        sigma.sync()
    assert len(sigma.notices()) == 1
    pi.cn("peer", "key", "sigma", first[1])
    assert f"sigma says pi/proposal is {says}" in pi.sync().stdout
    sigma.sync()
    sigma.cn("status", "--check")
    world.settle(pi, sigma)
    assert _answers(pi) == [f"notice:{says}"]
    assert len(sigma.notices()) == 1
    assert branches(pi.home).keys() == {"main"}
    assert world.has_branch(pi, sigma) == (says == "deferred")


def test_two_clones_that_sign_with_two_wrong_keys_tell_it_once_each(
    world: World, first: Key, other: Key, tmp_path: Path
) -> None:
    sigma, pi = _pair(world, make_ssh_key(tmp_path / "third"))
    _proposed(world, pi, sigma)
    sigma.decide("pi/proposal", "do:merge")
    second = world.second(sigma)
    sigma.cn("sign", first[0])
    second.cn("sign", other[0])
    for _ in range(4):
        pi.sync()
        sigma.cn("sync", check=None)
        second.cn("sync", check=None)
    second.sync()
    assert len(second.notices()) == 3
    _is_told(second)
    pi.cn("peer", "key", "sigma", first[1])
    for _ in range(2):
        pi.sync()
        second.sync()
        sigma.sync()
    second.cn("status", "--check")
    world.settle(sigma, pi)
    assert _answers(pi) == ["notice:merged"]
    assert branches(sigma.home).keys() == branches(pi.home).keys() == {"main"}


def test_of_many_that_are_signed_alike_all_are_told_again(world: World, first: Key) -> None:
    """A peer answers no flood one by one: of ten refusals in a run it tells."""
    sigma, pi = _pair(world, first)
    topics = [f"part-{number:02}" for number in range(12)]
    for topic in topics:
        world.propose(pi, sigma, topic)
    pi.sync()
    sigma.sync()
    for topic in topics:
        sigma.triage(f"pi/{topic}", "delete:no")
    sigma.process()
    pi.sync(check=1)
    sigma.sync(check=1)
    sigma.cn("sign", first[0])
    sigma.sync()
    world.settle(pi, sigma)
    assert [_answers(pi, topic) for topic in topics] == [["notice:discarded"]] * 12
    assert branches(sigma.home).keys() == branches(pi.home).keys() == {"main"}


def test_what_was_said_later_takes_the_place_of_what_was_refused(world: World, first: Key) -> None:
    sigma, pi = _pair(world, first)
    _proposed(world, pi, sigma)
    sigma.decide("pi/proposal", "defer:later")
    pi.sync()
    sigma.sync(check=1)
    _is_told(sigma)
    sigma.cn("sign", first[0])
    sigma.decide("pi/proposal", "do:merge")
    sigma.sync()
    world.settle(pi, sigma)
    assert _answers(pi) == ["notice:merged"]
    assert branches(sigma.home).keys() == branches(pi.home).keys() == {"main"}


def test_two_hubs_that_sign_nothing_for_each_other_answer_no_refusal_for_ever(
    world: World, first: Key, other: Key
) -> None:
    """Each has pinned a key for the other; both sign in the end, in whichever order."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    _proposed(world, pi, sigma)
    sigma.decide("pi/proposal", "do:merge")
    sigma.cn("peer", "key", "pi", other[1])
    pi.cn("peer", "key", "sigma", first[1])
    for _ in range(3):
        pi.cn("sync", check=None)
        sigma.cn("sync", check=None)
    assert len(sigma.notices()) == len(pi.notices()) == 1
    sigma.cn("sign", first[0])
    sigma.sync()
    pi.sync()
    pi.cn("sign", other[0])
    for _ in range(2):
        pi.sync()
        sigma.sync()
    world.settle(pi, sigma)
    assert _answers(pi) == ["notice:merged"]
    assert branches(sigma.home).keys() == branches(pi.home).keys() == {"main"}


def test_a_claim_that_an_answer_was_refused_makes_nothing_go_again(world: World, first: Key) -> None:
    """Two may push to sigma's hub, and no key says who does; pi refused nothing, whatever a third one says."""
    sigma, pi, omega = world.hub("sigma"), world.hub("pi"), world.hub("omega")
    world.link(sigma, pi)
    world.link(sigma, omega)
    head = _proposed(world, pi, sigma)
    pi.cn("send", "sigma", "Which licence?")
    sigma.sync()
    sigma.cn("reply", "pi/which-licence", "MIT")
    sigma.decide("pi/proposal", "delete:no")
    sigma.cn("sign", first[0])
    branch = "sigma/re-which-licence"
    reply = branches(pi.home)[branch]
    about = About(Branch(branch), Oid(reply), "refused", None, "signature-policy: sigma has a pinned key")
    at = datetime(2026, 2, 5, 15, tzinfo=UTC)
    told = Message(NOTICE, Name("pi"), Name("sigma"), "Refused", at, "Refused.", about=about)
    forged = write_commit(sigma.home, {"message.md": format_message(told)})
    git(sigma.home, "update-ref", "refs/heads/pi/notice-re-which-licence", forged)
    before = sigma.notices()
    said = sigma.cn("sync", check=None).stdout
    assert f"pi says {branch} is refused (claimed, unproven: " in said
    assert "goes again" not in said + sigma.cn("sync", check=None).stdout
    assert sigma.notices() == before
    assert "so it does not know" not in " ".join(sigma.cn("status").stdout.split())
    assert "> MIT" in pi.sync().stdout + "".join(map(pi.thread, pi.threads()))
    assert len([name for name in pi.threads() if "which-licence" in name]) == 1
    assert head not in branches(sigma.home).values(), "what it told comes in as it is"


def test_a_reply_that_was_refused_goes_again_as_that_reply(world: World, first: Key) -> None:
    """Said anew by hand it would be a message of its own, and the question would wait for ever."""
    sigma, pi = _pair(world, first)
    pi.cn("send", "sigma", "Which licence?")
    sigma.sync()
    sigma.cn("reply", "pi/which-licence", "MIT")
    assert "'cn sign KEY', and its next 'cn sync' sends it again" in pi.sync().stderr
    sigma.sync()
    shown = " ".join(sigma.cn("status").stdout.split())
    assert "'cn sign KEY', with the key that pi has pinned for us, and the next 'cn sync' tells it again" in shown
    sigma.cn("sign", first[0])
    assert "that pi/which-licence is replied goes again" in sigma.sync().stdout
    sigma.cn("status", "--check")
    pi.sync()
    assert "> MIT" in "".join(map(pi.thread, pi.threads()))
    world.settle(sigma, pi)
    assert "✓ replied" in pi.cn("why", "sigma:which-licence").stdout or "replied" in pi.cn("log").stdout
    assert branches(sigma.home).keys() == {"main"}
    assert len([name for name in pi.threads() + pi.done() if "which-licence" in name]) == 1
