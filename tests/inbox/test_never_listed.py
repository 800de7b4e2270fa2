"""What another clone of a hub let in, and was gone before this one listed it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cn.protocol.layout import BRANCH_LEFT
from tests.support.forked import ROOT
from tests.support.hubs import git
from tests.support.world import Node, World, is_in_main

NO_PIN = "is pending and has no pin"
CLOCK = os.pathsep.join([str(ROOT / "tests/support/clock"), str(ROOT)])


def without_pins(node: Node) -> None:
    """Its host is one that takes branches alone."""
    for ref in git(node.home, "for-each-ref", "--format=%(refname)", "refs/cn").split():
        git(node.home, "update-ref", "-d", ref)
    git(node.home, "gc", "--quiet", "--prune=now")


def received_by_the_first_alone(world: World, sigma: Node, pi: Node) -> tuple[Node, str]:
    """A clone without a proposal that the other clone let in, which is in no repository that it may ask; its head."""
    head = world.propose(pi, sigma)
    sigma.sync()
    world.withdraw(pi, sigma)
    without_pins(sigma)
    second = world.second(sigma)
    assert not has_commit(second, head)
    return second, head


def has_commit(node: Node, head: str) -> bool:
    return head in git(node.root, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()


def test_a_merge_of_it_is_refused_since_its_branch_is_gone(world: World, sigma: Node, pi: Node) -> None:
    second, head = received_by_the_first_alone(world, sigma, pi)
    second.triage("pi/proposal", "do:merge")
    done = second.process(check=1)
    assert "pi/proposal is gone: the branch is not listed any more" in done.stdout
    assert f"merge-needs-approval: {BRANCH_LEFT}" in done.stderr
    assert NO_PIN not in second.cn("doctor").stdout
    assert "sigma says" not in pi.sync().stdout, "nothing of it is its creator's to mend"
    sigma.sync()
    assert BRANCH_LEFT in " ".join(sigma.cn("status").stdout.split())
    assert "'cn comment pi/proposal TEXT' asks for it again" in done.stderr
    second.cn("comment", "pi/proposal", "Push it again, please.")
    assert "Push it again" in pi.sync().stdout + pi.thread(pi.only_thread())
    world.offer(pi, sigma, "proposal", head)
    second.sync()
    second.decide("pi/proposal", "do:merge")
    assert is_in_main(second, head)


def test_it_is_ended_by_the_step_that_is_told(world: World, sigma: Node, pi: Node) -> None:
    second, _ = received_by_the_first_alone(world, sigma, pi)
    assert "✓ pi/proposal is gone" in second.sync().stdout
    assert f"{BRANCH_LEFT}; 'cn delete' ends it" in " ".join(second.cn("status").stdout.split())
    second.cn("delete", "pi/proposal")
    assert not second.threads()
    second.idle()


def test_of_an_answer_that_its_creator_took_away_no_pin_is_missed(world: World, sigma: Node, pi: Node) -> None:
    sigma.cn("send", "pi", "Release", "--body", "when?")
    pi.sync()
    pi.cn("reply", "sigma/release", "Friday")
    second = world.second(sigma)
    second.sync()
    pi.sync()
    assert not world.has_branch(pi, sigma, "re-release")
    assert "pi/re-release is gone: its creator deleted the branch" in sigma.sync().stdout
    assert NO_PIN not in sigma.cn("doctor").stdout
    assert sigma.threads()
    world.settle(sigma, second, pi)
    assert not [ref for ref in second.refs() if ref.endswith("/in/re-release")]
    sigma.cn("delete", "pi/re-release", "--reason", "read")
    world.settle(sigma, second, pi)


@pytest.fixture
def by_pickup(world: World) -> tuple[Node, Node]:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, "pickup")
    return sigma, pi


def test_where_a_mirror_may_lag_it_is_gone_after_a_day(world: World, by_pickup: tuple[Node, Node]) -> None:
    """One look at a state of before would void what was decided, and hold a signed commit for ever."""
    sigma, pi = by_pickup
    second, head = received_by_the_first_alone(world, sigma, pi)
    second.triage("pi/proposal", "do:merge")
    done = second.process(check=1)
    told = f"pi/proposal: do:merge could not be done: {head[:8]} is not in this clone, and no run could fetch it"
    assert told in done.stderr
    assert "'cn delete pi/proposal' ends it" in done.stderr
    assert told in " ".join(second.cn("status").stdout.split())
    assert "where a mirror may lag, after a day" in second.cn("doctor", check=None).stdout
    assert "sigma says" not in pi.sync().stdout
    for hours in (0, 1, 2):
        told = second.cn("sync", env={"PYTHONPATH": CLOCK, "TEST_CLOCK": str(hours * 3600)}).stdout
        assert "gone" not in told
    told = second.cn("sync", env={"PYTHONPATH": CLOCK, "TEST_CLOCK": str(25 * 3600)}).stdout
    assert "pi/proposal is gone: the branch is not listed any more" in told
    assert NO_PIN not in second.cn("doctor", check=None).stdout
    assert BRANCH_LEFT in second.process(check=1).stderr


def test_what_came_late_in_a_mirror_is_decided_as_it_was(world: World, by_pickup: tuple[Node, Node]) -> None:
    sigma, pi = by_pickup
    second, head = received_by_the_first_alone(world, sigma, pi)
    second.triage("pi/proposal", "do:merge")
    second.process(check=1)
    world.offer(pi, sigma, "proposal", head)
    second.process()
    assert is_in_main(second, head)
    assert "could not be done" not in second.cn("status").stdout


def test_what_one_clone_cannot_have_another_one_still_decides(world: World, by_pickup: tuple[Node, Node]) -> None:
    sigma, pi = by_pickup
    head = world.propose(pi, sigma)
    sigma.sync()
    without_pins(sigma)
    second = world.second(sigma)
    away = Path(f"{pi.home}.away")
    pi.home.rename(away)
    second.triage("pi/proposal", "do:merge")
    assert "is not in this clone" in second.process(check=1).stderr
    sigma.decide("pi/proposal", "do:merge", check=1)  # the notice waits for pi
    assert is_in_main(sigma, head)
    away.rename(pi.home)
    second.process()
    assert not second.threads()
    assert "could not be done" not in second.cn("status").stdout
    world.settle(sigma, second, pi)
    assert not world.has_branch(pi, sigma)
