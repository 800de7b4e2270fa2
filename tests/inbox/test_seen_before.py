"""A commit that came before under another name of its peer is no new thread."""

from __future__ import annotations

from tests.support.hubs import branches, git, push
from tests.support.world import Node, World


def push_as(world: World, pi: Node, sigma: Node, head: str, *names: str) -> None:
    push(world.person(pi, sigma), sigma.home, *(f"{head}:refs/heads/{name}" for name in names))


def rename(world: World, pi: Node, sigma: Node, old: str, new: str) -> None:
    push_as(world, pi, sigma, git(sigma.home, "rev-parse", old), new)
    push(world.person(pi, sigma), sigma.home, f":refs/heads/{old}")


def test_a_deleted_proposal_under_another_name_is_refused_once_and_its_creator_told(
    world: World, sigma: Node, pi: Node
) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "delete:no")
    world.settle(pi, sigma)
    assert "pi/proposal" not in branches(sigma.home)
    push_as(world, pi, sigma, head, "pi/urgent")
    done = sigma.cn("sync", check=None)
    assert "pi/urgent is refused: seen-before" in done.stderr
    assert "came before as pi/proposal, which is discarded" in done.stderr
    assert "a new commit" in done.stderr
    assert sigma.threads() == []
    again = sigma.cn("sync", check=None)
    assert "seen-before" not in again.stdout + again.stderr, "told once"
    assert "pi/urgent is refused: seen-before" in sigma.cn("status", check=None).stdout
    assert [r[1] for r in sigma.rows() if r[0] == "pi/urgent"].count("refused") == 1
    told = pi.sync()
    assert "pi/urgent" in told.stdout
    assert "came before as pi/proposal" in told.stdout
    assert "adopted" not in told.stdout
    assert branches(sigma.home)["pi/urgent"] == head, "nobody deletes it but its creator"
    push(world.person(pi, sigma), sigma.home, ":refs/heads/pi/urgent")
    world.propose(pi, sigma, "urgent")
    sigma.sync()
    assert [n for n in sigma.threads() if "urgent" in n], "a new commit becomes a thread"


def test_two_names_of_one_commit_give_one_thread(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma, "first")
    push_as(world, pi, sigma, head, "pi/second", "pi/third")
    done = sigma.cn("sync", check=None)
    (name,) = sigma.threads()
    assert "first" in name
    assert done.stderr.count("seen-before") == 2
    sigma.decide("pi/first", "do:merge")
    assert [r[2] for r in sigma.rows()].count("✓ merged SHA") == 1
    pi.sync()
    assert "pi/first" not in branches(sigma.home)
    sigma.cn("sync", check=None)
    assert sigma.threads() == []


def test_a_renamed_branch_leaves_its_thread_withdrawn(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    (name,) = sigma.threads()
    rename(world, pi, sigma, "pi/proposal", "pi/renamed")
    done = sigma.cn("sync", check=None)
    assert "came before as pi/proposal, which was withdrawn undecided" in done.stderr
    assert sigma.threads() == [name]
    assert "withdrawn" in sigma.cn("inbox").stdout
    rename(world, pi, sigma, "pi/renamed", "pi/proposal")
    sigma.sync()
    sigma.decide("pi/proposal", "do:merge")
    assert [r[2] for r in sigma.rows()].count("✓ merged SHA") == 1


def test_a_pending_branch_does_not_move_to_a_commit_that_was_decided(world: World, sigma: Node, pi: Node) -> None:
    old = world.propose(pi, sigma, "old")
    world.propose(pi, sigma, "pending")
    sigma.sync()
    sigma.decide("pi/old", "delete:no")
    push(world.person(pi, sigma), sigma.home, f"+{old}:refs/heads/pi/pending")
    done = sigma.cn("sync", check=None)
    assert "pi/pending is refused: seen-before" in done.stderr
    (name,) = sigma.threads()
    assert "moved" not in [r[1] for r in sigma.rows() if r[0] == "pi/pending"]
    assert old not in sigma.thread(name)
