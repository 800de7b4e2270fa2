"""What main has of a branch already: one reading for its merge, for its creator and for a rebase."""

from __future__ import annotations

import re

import pytest

from tests.support.hubs import checkout, fetch, git
from tests.support.world import Node, World, content, is_in_main

MORE = "refused: rebase-before-merge"


def stack(world: World, pi: Node, sigma: Node) -> tuple[str, str]:
    """Two branches in one file, the second upon the first."""
    sigma.write({"app.txt": "a\n"})
    one = world.propose(pi, sigma, "one", {"app.txt": "a\none\n"}, message="One")
    two = world.propose(pi, sigma, "two", {"app.txt": "a\none\ntwo\n"}, message="Two", start=one)
    sigma.sync()
    return one, two


def of(node: Node, topic: str) -> str:
    (name,) = (name for name in node.threads() if name.endswith(f"-pi-{topic}.md"))
    return node.thread(name)


def test_what_is_left_of_a_branch_upon_a_merged_one_is_shown_anew_and_merged(
    world: World, sigma: Node, pi: Node
) -> None:
    _, two = stack(world, pi, sigma)
    assert "+one" in of(sigma, "two")
    said = sigma.decide("pi/one", "do:merge").stdout
    assert "pi/two is shown anew: main has got a part of it since" in said
    text = of(sigma, "two")
    assert "+two" in text
    assert "+one" not in text
    assert "· pi/two" not in sigma.sync().stdout
    sigma.decide("pi/two", "do:merge")
    assert is_in_main(sigma, two)
    assert content(sigma, "app.txt") == b"a\none\ntwo\n"
    world.settle(pi, sigma)
    assert not world.has_branch(pi, sigma, "two")
    sigma.idle()


def test_of_two_decided_in_one_run_the_second_is_shown_anew_and_not_refused(
    world: World, sigma: Node, pi: Node
) -> None:
    _, two = stack(world, pi, sigma)
    sigma.triage("pi/one", "do:merge")
    done = sigma.decide("pi/two", "do:merge")
    assert "refused" not in done.stdout + done.stderr
    assert "what was decided is void" in done.stdout
    assert not is_in_main(sigma, two)
    assert "## Void triage" in of(sigma, "two")
    assert not any("two" in name for name in sigma.notices())
    sigma.decide("pi/two", "do:merge")
    assert is_in_main(sigma, two)


@pytest.mark.parametrize("run", ["sync", "process"])
def test_what_was_decided_before_main_got_a_part_of_it_by_hand_is_void(
    world: World, sigma: Node, pi: Node, run: str
) -> None:
    one, two = stack(world, pi, sigma)
    sigma.triage("pi/two", "do:merge")
    merge_by_hand(world, pi, sigma, one)
    said = sigma.sync() if run == "sync" else sigma.process()
    assert "pi/two is shown anew" in said.stdout
    assert "what was decided is void" in said.stdout
    assert not is_in_main(sigma, two)
    sigma.decide("pi/two", "do:merge")
    assert is_in_main(sigma, two)


def merge_by_hand(world: World, pi: Node, sigma: Node, head: str) -> None:
    fetch(sigma.root, str(world.person(pi, sigma)), head)
    git(sigma.root, "merge", "--quiet", "--no-ff", "-m", "Merge by hand", head)
    git(sigma.root, "push", "--quiet", "origin", "main")


def test_its_creator_is_told_that_what_was_refused_waits_again(world: World, sigma: Node, pi: Node) -> None:
    one, _ = stack(world, pi, sigma)
    sigma.write({"app.txt": "a\nours\n"})
    assert MORE in sigma.decide("pi/two", "do:merge").stderr
    pi.sync()
    assert "refused" in pi.cn("status").stdout
    git(sigma.root, "rm", "-q", "app.txt")
    sigma.write({"app.txt": "a\n"})
    merge_by_hand(world, pi, sigma, one)
    sigma.sync()
    pi.sync()
    status = pi.cn("status").stdout
    assert "refused" not in status
    assert "cn rebase" not in status


def test_what_main_changed_beside_the_part_that_it_has_is_refused_still(world: World, sigma: Node, pi: Node) -> None:
    _, two = stack(world, pi, sigma)
    sigma.decide("pi/one", "do:merge")
    sigma.write({"app.txt": "ours\n"})
    done = sigma.decide("pi/two", "do:merge")
    assert "main changed since: app.txt" in done.stderr
    assert not is_in_main(sigma, two)


def test_a_refusal_is_told_again_to_who_decides_again(world: World, sigma: Node, pi: Node) -> None:
    stack(world, pi, sigma)
    sigma.write({"app.txt": "ours\n"})
    (name,) = (name for name in sigma.threads() if name.endswith("-pi-one.md"))
    sigma.write_triage(name, "do:merge")
    assert MORE in sigma.process().stderr.replace("do:merge is ", "")
    assert sigma.process().stderr == ""
    path = sigma.root / "threads/inbox" / name
    path.write_text(re.sub("timestamp: 2026-02-05T15:00Z", "timestamp: 2026-02-05T16:00Z", path.read_text("utf-8")))
    assert "main changed since: app.txt" in sigma.process().stderr


@pytest.mark.parametrize("more", ["", "beside"])
def test_what_main_has_by_another_commit_is_merged_without_a_change(
    world: World, sigma: Node, pi: Node, more: str
) -> None:
    lines = "".join(f"{n}\n" for n in range(9))
    sigma.write({"app.txt": lines})
    head = world.propose(pi, sigma, "one", {"app.txt": f"one\n{lines}"})
    sigma.sync()
    sigma.write({"app.txt": f"one\n{lines}{more}"}, "Picked")
    done = sigma.decide("pi/one", "do:merge")
    assert done.stderr == ""
    assert content(sigma, "app.txt") == f"one\n{lines}{more}".encode()
    assert is_in_main(sigma, head)
    assert sigma.threads() == []
    world.settle(pi, sigma)
    assert not world.has_branch(pi, sigma, "one")


def test_what_main_picked_and_took_back_is_not_there(world: World, sigma: Node, pi: Node) -> None:
    sigma.write({"app.txt": "a\n"})
    head = world.propose(pi, sigma, "one", {"app.txt": "a\none\n", "b.txt": "b\n"})
    sigma.sync()
    sigma.write({"app.txt": "a\none\n", "b.txt": "b\n"}, "Picked")
    sigma.write({"app.txt": "a\n"}, "Taken back")
    assert "main changed since: b.txt" in sigma.decide("pi/one", "do:merge").stderr
    assert not is_in_main(sigma, head)


LONG = "".join(f"line {n}\n" for n in range(1, 31))


@pytest.mark.parametrize(
    ("begin", "one", "two"),
    [
        (LONG, LONG.replace("line 3\n", "third\n"), LONG.replace("line 3\n", "third\n") + "line 31\n"),
        (None, "def a(): ...\n", "def a(): ...\n\n\ndef b(): ...\n"),
        ("a\n", "a\none\n", "a\none\ntwo\n"),
        ("a\nb\nc\n", "a\nc\n", "a\nc\nd\n"),
    ],
    ids=["another line", "a new file grows", "the next line", "a line less"],
)
def test_the_top_of_a_stack_in_one_file_brings_what_it_stands_upon(
    world: World, sigma: Node, pi: Node, begin: str | None, one: str, two: str
) -> None:
    sigma.write({"app.txt": begin} if begin else {"other.txt": "x\n"})
    below = world.propose(pi, sigma, "one", {"app.txt": one}, message="One")
    top = world.propose(pi, sigma, "two", {"app.txt": two}, message="Two", start=below)
    sigma.sync()
    sigma.decide("pi/two", "do:merge")
    assert is_in_main(sigma, top)
    assert content(sigma, "app.txt") == two.encode()
    assert "main already holds this" in sigma.triage("pi/one", "do:merge").stdout
    sigma.process()
    assert ("do:merge", "✓ merged before") in [(row[1], row[2]) for row in sigma.rows("pi/one")]
    world.settle(pi, sigma)
    assert not world.has_branch(pi, sigma, "one")
    sigma.idle()


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_both_of_a_stack_in_one_file_decided_in_one_run_come_in(
    world: World, sigma: Node, pi: Node, order: tuple[str, str]
) -> None:
    sigma.write({"app.txt": "a\n"})
    one = world.propose(pi, sigma, "one", {"app.txt": "a\none\n"}, message="One")
    two = world.propose(pi, sigma, "two", {"app.txt": "a\none\ntwo\n"}, message="Two", start=one)
    sigma.sync()
    for topic in order:
        sigma.triage(f"pi/{topic}", "do:merge")
    sigma.process()
    if not is_in_main(sigma, two):
        sigma.decide("pi/two", "do:merge")
    assert content(sigma, "app.txt") == b"a\none\ntwo\n"
    world.settle(pi, sigma)
    assert not world.has_branch(pi, sigma, "one")
    assert not world.has_branch(pi, sigma, "two")


@pytest.mark.parametrize("two", ["a\nONE\n", "a\nb\n"], ids=["written anew", "other"])
def test_a_branch_that_takes_back_what_it_stands_upon_is_decided_after_it(
    world: World, sigma: Node, pi: Node, two: str
) -> None:
    sigma.write({"app.txt": "a\n"})
    one = world.propose(pi, sigma, "one", {"app.txt": "a\none\n"}, message="One")
    top = world.propose(pi, sigma, "two", {"app.txt": two, "more.txt": "more\n"}, message="Two", start=one)
    sigma.sync()
    done = sigma.decide("pi/two", "do:merge", check=1)
    assert "the commits of pi/one, which waits here, without all that they change" in done.stderr
    assert "decide pi/one first" in done.stderr
    said = sigma.decide("pi/one", "do:merge").stdout
    assert "pi/two is shown anew" in said
    assert "what was decided is void" in said
    assert "-one" in of(sigma, "two")
    sigma.decide("pi/two", "do:merge")
    assert is_in_main(sigma, top)
    assert content(sigma, "app.txt") == two.encode()


def merge_of(world: World, pi: Node, sigma: Node, *heads: str, files: dict[str, str]) -> None:
    """A branch that merges these, and changes more; it comes behind them."""
    person = world.person(pi, sigma)
    checkout(person, "several", "origin/main")
    git(person, "merge", "--quiet", "--no-ff", "-m", "Several", *heads)
    for name, text in files.items():
        (person / name).write_text(text)
    git(person, "add", ".")
    git(person, "commit", "--quiet", "--amend", "--no-edit")
    world.offer(pi, sigma, "several", "HEAD")
    sigma.sync()


def test_of_a_merge_of_several_the_rest_is_shown_anew_when_one_came_in(world: World, sigma: Node, pi: Node) -> None:
    sigma.write({"app.txt": "a\n"})
    one = world.propose(pi, sigma, "one", {"app.txt": "a\none\n"})
    two = world.propose(pi, sigma, "other", {"b.txt": "2\n"})
    merge_of(world, pi, sigma, one, two, files={"app.txt": "a\none\nmore\n"})
    sigma.triage("pi/one", "do:merge")
    said = sigma.decide("pi/several", "do:merge").stdout
    assert "pi/several is shown anew: main has got a part of it since" in said
    assert "what was decided is void" in said
    assert "+one" not in of(sigma, "several")
    assert "\n>     2\n" in of(sigma, "several")
    status = sigma.cn("status").stdout
    assert "decided;" not in status
    assert "refused" not in status
    sigma.decide("pi/several", "do:merge")
    assert content(sigma, "app.txt") == b"a\none\nmore\n"
    assert content(sigma, "b.txt") == b"2\n"
