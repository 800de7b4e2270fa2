"""What is done keeps its title; what somebody pushed is pushed."""

from __future__ import annotations

import json

from tests.support.hubs import clone, commit, git, identify, push
from tests.support.world import Node, World


def test_a_thread_whose_branch_moved_keeps_its_title_when_it_is_done(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma, "fee")
    sigma.sync()
    again = commit(world.person(pi, sigma), {"docs/fee.md": "again\n"})
    world.offer(pi, sigma, "fee", again, force=True)
    sigma.sync()
    (waits,) = json.loads(sigma.cn("inbox", "--json").stdout)
    sigma.decide("pi/fee", "do:merge")
    (done,) = json.loads(sigma.cn("inbox", "--all", "--json").stdout)
    assert waits["subject"]
    assert done["subject"] == waits["subject"]


def test_a_proposal_that_went_on_keeps_the_title_of_its_first_commit(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma, "fee")
    sigma.sync()
    again = commit(world.person(pi, sigma), {"docs/fee.md": "again\n"}, "Once more")
    world.offer(pi, sigma, "fee", again)
    sigma.sync()
    (moved,) = json.loads(sigma.cn("inbox", "--json").stdout)
    assert moved["head"] == again
    assert moved["subject"] != "Once more"


def test_what_a_person_pushed_is_not_ahead_of_origin(sigma: Node) -> None:
    sigma.sync()
    commit(sigma.root, {"docs/own.md": "mine\n"})
    assert "1 ahead of origin" in sigma.cn("status").stdout
    git(sigma.root, "fetch", "--quiet", "origin")
    git(sigma.root, "push", "--quiet", "origin", "main")
    assert "ahead of origin" not in sigma.cn("status").stdout


def test_what_a_person_pulled_is_not_ahead_of_origin_where_that_goes_on(world: World, sigma: Node) -> None:
    sigma.sync()
    other = clone(sigma.url, world.folder / "other")
    identify(other, "Other")
    for name in ("one", "two"):
        commit(other, {f"docs/{name}.md": "x\n"})
        push(other, sigma.url, "main")
        if name == "one":
            git(sigma.root, "pull", "--quiet", "origin", "main")
            assert "ahead of origin" not in sigma.cn("status").stdout
    git(sigma.root, "fetch", "--quiet", "origin")
    assert "1 behind" in sigma.cn("status").stdout
    assert "ahead of origin" not in sigma.cn("status").stdout


def test_what_a_person_committed_on_main_is_named_when_it_goes_to_origin(sigma: Node) -> None:
    sigma.sync()
    mine = commit(sigma.root, {"docs/own.md": "mine\n"}, message="wip: my notes")
    assert "1 ahead of origin; the next run pushes that" in sigma.cn("status").stdout
    told = f"1 commit made here on main goes to origin: {mine[:7]} wip: my notes"
    assert sigma.cn("sync").stdout.count(told) == 1
    assert "goes to origin" not in sigma.cn("sync").stdout
    git(sigma.root, "commit", "--quiet", "--amend", "--message", "notes")
    assert "goes to origin" in sigma.cn("sync").stdout
    assert "made here" not in sigma.cn("sync").stdout
