"""Commits that came into main's history with somebody else's branch, and without what they change."""

from __future__ import annotations

import time

import pytest

from cn.git.repository import open_hub
from cn.git.taken_in import held, read_taken_in
from cn.values.names import Oid
from tests.support.hubs import fetch, git, push, tip, write_commit
from tests.support.world import Node, World, content, is_in_main


@pytest.fixture
def omega(world: World, sigma: Node) -> Node:
    node = world.hub("omega")
    world.link(node, sigma)
    return node


def take_in(world: World, pi: Node, sigma: Node, *heads: str, keep: bool = False) -> str:
    """pi's branch adds a file, has these heads of others in its history, and nothing of them."""
    person = world.person(pi, sigma)
    for head in heads:
        fetch(person, sigma.url, head)
    start = git(person, "rev-parse", "origin/main")
    mine = write_commit(person, {"hello.txt": "hi\n"}, "Hello", [start])
    files = {"fix.txt": "fix\n"} if keep else {}
    return write_commit(person, files, "Merge main", [mine, *heads])


def fix(world: World, omega: Node, sigma: Node) -> str:
    return world.propose(omega, sigma, "fix", {"fix.txt": "fix\n"})


def take_in_by_hand(world: World, pi: Node, sigma: Node, head: str) -> None:
    """main gets pi's branch by a merge as cn makes it, of a cn that did not look, or by a person."""
    taken = take_in(world, pi, sigma, head)
    person = world.person(pi, sigma)
    git(sigma.root, "pull", "--quiet", "--rebase", "origin", "main")
    fetch(sigma.root, str(person), taken)
    git(sigma.root, "merge", "--quiet", "--no-ff", "-m", "Merge pi/hello", taken)
    git(sigma.root, "push", "--quiet", "origin", "main")


def test_a_branch_that_takes_in_a_waiting_one_is_not_merged_before_it(
    world: World, sigma: Node, pi: Node, omega: Node
) -> None:
    head = fix(world, omega, sigma)
    sigma.sync()
    taken = take_in(world, pi, sigma, head)
    time.sleep(1.1)  # which of two came first is known to the second
    world.offer(pi, sigma, "hello", taken)
    sigma.sync()
    done = sigma.decide("pi/hello", "do:merge", check=1)
    assert "takes in the commits of omega/fix, which waits here, without all that they change" in done.stderr
    assert not is_in_main(sigma, taken)
    assert "refused" not in pi.sync().stdout, "what stands in the way is not its creator's to mend"
    sigma.decide("omega/fix", "do:merge")
    assert content(sigma, "fix.txt") == b"fix\n"
    sigma.process()
    assert content(sigma, "hello.txt") == b"hi\n"
    assert content(sigma, "fix.txt") == b"fix\n"


@pytest.mark.parametrize("when", ["later", "upon its first head"])
def test_nobody_stops_a_branch_by_one_of_its_own_at_an_inner_commit(
    world: World, sigma: Node, pi: Node, omega: Node, when: str
) -> None:
    """pi's work takes something back that it began with; omega points a branch of its own at that."""
    person = world.person(pi, sigma)
    start = git(person, "rev-parse", "origin/main")
    inner = write_commit(person, {"a": "a\n", "b": "b\n"}, "a and b", [start])
    head = write_commit(person, {"a": "a\n", "b": None}, "b was a mistake", [inner])
    if when == "upon its first head":
        push(person, sigma.url, f"{inner}:refs/heads/pi/work")
        sigma.sync()
    else:
        push(person, sigma.url, f"{head}:refs/heads/pi/work")
        sigma.sync()
    time.sleep(1.1)  # the ledger has whole seconds
    push(person, sigma.url, f"{inner}:refs/heads/omega/q")
    sigma.sync()
    push(person, sigma.url, f"{head}:refs/heads/pi/work")
    sigma.sync()
    sigma.decide("pi/work", "do:merge")
    assert is_in_main(sigma, head)
    assert content(sigma, "b") is None
    assert "added b" in sigma.thread(sigma.only_thread()), "what waits is shown whole, as before"


def test_of_what_came_in_one_run_the_other_is_decided_first_and_no_creator_is_told(
    world: World, sigma: Node, pi: Node, omega: Node
) -> None:
    """Nobody knows whose the commits are: pi may be the one who would take in omega's without what they change."""
    person = world.person(pi, sigma)
    inner = write_commit(person, {"b": "b\n"}, "b", [git(person, "rev-parse", "origin/main")])
    head = write_commit(person, {"a": "a\n", "b": None}, "b was a mistake", [inner])
    push(person, sigma.url, f"{head}:refs/heads/pi/work", f"{inner}:refs/heads/omega/q")
    sigma.sync()
    assert "the commits of omega/q, which waits here" in sigma.decide("pi/work", "do:merge", check=1).stderr
    assert not is_in_main(sigma, head)
    assert sigma.notices() == []
    sigma.decide("omega/q", "delete:not omega's")
    sigma.decide("pi/work", "do:merge")
    assert is_in_main(sigma, head)


def test_a_branch_that_brings_all_of_a_waiting_one_is_merged(world: World, sigma: Node, pi: Node, omega: Node) -> None:
    head = fix(world, omega, sigma)
    sigma.sync()
    world.offer(pi, sigma, "hello", take_in(world, pi, sigma, head, keep=True))
    sigma.sync()
    sigma.decide("pi/hello", "do:merge")
    assert "main already holds this" in sigma.triage("omega/fix", "do:merge").stdout
    sigma.process()
    assert sigma.threads() == []
    assert ("do:merge", "✓ merged before") in [(row[1], row[2]) for row in sigma.rows("omega/fix")]


@pytest.mark.parametrize("when", ["waiting", "new", "moved"])
def test_what_main_took_in_without_its_changes_is_shown_and_merged_whole(
    world: World, sigma: Node, pi: Node, omega: Node, when: str
) -> None:
    head = fix(world, omega, sigma)
    if when != "new":
        sigma.sync()
    take_in_by_hand(world, pi, sigma, head)
    assert is_in_main(sigma, head)
    if when == "moved":
        person = world.person(omega, sigma)
        head = write_commit(person, {"more.txt": "more\n"}, "More", [head])
        push(person, sigma.url, f"{head}:refs/heads/omega/fix")
    told = sigma.sync()
    assert "main already holds this" not in told.stdout + sigma.cn("inbox").stdout
    assert "added fix.txt" in sigma.thread(sigma.only_thread())
    assert "main already holds this" not in sigma.triage("omega/fix", "do:merge").stdout
    sigma.process()
    assert content(sigma, "fix.txt") == b"fix\n"
    assert content(sigma, "more.txt") == (b"more\n" if when == "moved" else None)
    assert "merged before" not in str(sigma.rows("omega/fix"))


def test_who_made_the_commits_counts_also_where_main_took_them_in(
    world: World, sigma: Node, pi: Node, omega: Node
) -> None:
    person = world.person(omega, sigma)
    start = git(person, "rev-parse", "origin/main")
    head = write_commit(person, {"fix.txt": "fix\n"}, "Fix", [start], author="sigma <sigma@x.org>")
    world.offer(omega, sigma, "fix", head)
    sigma.sync()
    take_in_by_hand(world, pi, sigma, head)
    sigma.sync()
    assert "no-self-merge" in sigma.decide("omega/fix", "do:merge", check=1).stderr
    assert content(sigma, "fix.txt") is None


def test_main_has_of_itself_what_stands_on_its_line_or_was_merged_there(world: World, sigma: Node, pi: Node) -> None:
    repo = sigma.root
    start = tip(repo)
    one = write_commit(repo, {"one": "1\n"}, "one", [start])
    two = write_commit(repo, {"two": "2\n"}, "two", [one])
    lost = write_commit(repo, {"lost": "x\n"}, "lost", [start])
    other = write_commit(repo, {"other": "x\n"}, "other", [start])
    mine = write_commit(repo, {"mine": "x\n"}, "mine", [start])
    odd = write_commit(repo, {"other": "y\n"}, "octopus", [mine, lost, other])
    main = write_commit(repo, {"one": "1\n", "two": "2\n"}, "Merge", [start, two])
    before = main
    main = write_commit(repo, {"mine": "x\n", "other": "y\n"}, "Merge", [main, odd])
    main = write_commit(repo, {"later": "x\n"}, "later", [main])
    hub = open_hub(repo)
    asked = [Oid(c) for c in (start, one, two, lost, other, mine, odd, main)]
    found = read_taken_in(hub.git, Oid(main), asked)
    assert {commit: (way.before, way.missing, way.other) for commit, way in found.items()} == {
        lost: (before, ("lost",), ()),
        other: (before, (), ("other",)),
    }
    assert held(hub.git, Oid(main), asked) == set(asked) - {lost, other}
