"""What peers have at origin comes with its list; what keeps that from coming keeps nothing else away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.hubs import branches, commit, git, push
from tests.support.world import Node, World


@pytest.fixture
def sigma(world: World) -> Node:
    return world.far_hub("sigma")


@pytest.fixture
def pi(world: World, sigma: Node) -> Node:
    node = world.far_hub("pi")
    world.link(sigma, node)
    for one in (sigma, node, sigma):
        one.sync()
    return node


def quiet_note(node: Node) -> Path:
    return node.root / ".git/cn/quiet"


def forget_whole_list(node: Node) -> None:
    """An hour goes by: the note of the last sync and what the clone remembers of the list are too old."""
    quiet_note(node).unlink(missing_ok=True)
    path = node.root / ".git/cn/local.json"
    memory = json.loads(path.read_text())
    assert memory["origin"].pop("whole")
    path.write_text(json.dumps(memory))


def offer_unreadable(world: World, pi: Node, sigma: Node) -> str:
    """A branch with a tree that git's checks of a fetch refuse, beside a good one."""
    person = world.person(pi, sigma)
    tree = git(person, "rev-parse", "HEAD^{tree}")
    bad = git(person, "mktree", stdin=f"040000 tree {tree}\t.git\n".encode())
    head = git(person, "commit-tree", "-p", "HEAD", "-m", "bad", bad)
    world.offer(pi, sigma, "bad", head)
    return head


@pytest.mark.parametrize("noted", [True, False])
def test_a_branch_that_cannot_be_fetched_keeps_no_other_away(world: World, sigma: Node, pi: Node, noted: bool) -> None:
    good = world.propose(pi, sigma, "good")
    offer_unreadable(world, pi, sigma)
    quiet_note(sigma).unlink(missing_ok=True) if not noted else None
    assert quiet_note(sigma).exists() is noted
    told = sigma.sync(check=1)
    assert "received pi/good" in told.stdout
    assert "pi/bad cannot be fetched: git's object check refuses it" in told.stderr
    assert f"refs/cn/pins/pi/in/good {good}" in git(sigma.root, "for-each-ref", "--format=%(refname) %(objectname)")
    again = sigma.sync(check=0)
    assert "pi/bad" not in again.stderr, "it was told, and is in status"
    assert "pi/bad cannot be fetched" in sigma.cn("status").stdout


def test_what_another_clone_brought_to_main_comes_by_the_same_fetch(world: World, sigma: Node, pi: Node) -> None:
    person = world.person(pi, sigma)
    git(person, "fetch", "-q", "origin", "main")
    git(person, "switch", "-q", "--detach", "FETCH_HEAD")
    moved = commit(person, {"docs/there.md": "there\n"}, "there")
    push(person, sigma.url, "HEAD:refs/heads/main")
    world.propose(pi, sigma, "good")
    assert "received pi/good" in sigma.sync().stdout
    git(sigma.root, "merge-base", "--is-ancestor", moved, sigma.main)


def test_a_peer_that_another_clone_added_loses_nothing(world: World, sigma: Node, pi: Node) -> None:
    """The list that the note asks for knows nothing of that peer: what it does not name is not gone."""
    second = world.second(sigma)
    second.add_peer(world.far_hub("omega"))
    git(second.root, "push", "-q", "origin", "main")
    person = world.person(pi, sigma)
    push(person, sigma.url, "HEAD:refs/heads/omega/idea")
    second.sync()
    assert any("omega" in name for name in second.threads())
    assert quiet_note(sigma).exists()
    told = sigma.sync(check=1)
    assert "cn trust" in told.stderr
    sigma.cn("trust", "--yes")
    sigma.sync()
    assert any("omega" in name for name in sigma.threads())
    assert "gone" not in " ".join(map(str, sigma.rows("omega/idea")))


def test_what_is_there_of_nobody_is_told_with_the_next_whole_list(world: World, sigma: Node, pi: Node) -> None:
    push(world.person(pi, sigma), sigma.url, "HEAD:refs/heads/eva/one")
    assert sigma.sync().stdout == ""
    forget_whole_list(sigma)
    assert "branch eva/one: the prefix is no peer's" in sigma.sync().stdout
    world.propose(pi, sigma, "good")
    sigma.sync()
    assert "eva/: 1" in sigma.cn("status").stdout, "a list of peers' branches says nothing of others"


def test_what_is_of_a_peer_now_is_told_as_nobodys_no_more(world: World, sigma: Node, pi: Node) -> None:
    """Who follows the second half of the remedy would delete a peer's proposal."""
    push(world.person(pi, sigma), sigma.url, "HEAD:refs/heads/omega/one")
    forget_whole_list(sigma)
    sigma.sync()
    assert "omega/: 1" in sigma.cn("status").stdout
    sigma.add_peer(world.far_hub("omega"))
    sigma.sync()
    for look in ("status", "doctor"):
        assert "of no peer" not in sigma.cn(look, check=None).stdout


def test_a_branch_that_is_gone_is_gone(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma, "good")
    sigma.sync()
    world.withdraw(pi, sigma, "good")
    assert "withdrawn" in sigma.sync().stdout + sigma.cn("status").stdout
    assert set(branches(sigma.home)) == {"main"}


def test_the_fetch_leaves_nothing_behind(world: World, sigma: Node, pi: Node) -> None:
    before = {path.name for path in (sigma.root / ".git/cn").iterdir()}
    fetched = (sigma.root / ".git/FETCH_HEAD").exists()
    refs = git(sigma.root, "for-each-ref")
    for _ in range(2):
        sigma.sync()
    assert {path.name for path in (sigma.root / ".git/cn").iterdir()} == before
    assert (sigma.root / ".git/FETCH_HEAD").exists() is fetched
    assert git(sigma.root, "for-each-ref") == refs
