"""Two clones of one hub, the agent in one of them: ``cn.agent`` false leaves its items to the other."""

from __future__ import annotations

import json

import pytest

from tests.support.desk import answer, asked, clean, current, events, let_pass, queue, shown, work_queue
from tests.support.hubs import git
from tests.support.world import Node, World

LEAVE = "'git config cn.agent false' leaves items to the clone where the agent works"


@pytest.fixture
def laptop(world: World, sigma: Node) -> Node:
    """A second clone of sigma's, in which no agent works; in the first one works."""
    if not sigma.has_origin:
        pytest.skip("a hub without origin has no other clone")
    work_queue(sigma)
    git(sigma.root, "config", "cn.wake", "true")
    sigma.sync()
    return world.second(sigma)


def test_a_clone_with_cn_agent_false_gives_nothing_and_does_all_else(
    world: World, sigma: Node, pi: Node, laptop: Node
) -> None:
    git(laptop.root, "config", "cn.agent", "false")
    world.propose(pi, sigma, "one")
    world.propose(pi, sigma, "two")
    told = laptop.sync().stdout
    assert "received pi/one" in told
    assert "is the agent's input" not in told
    assert shown(laptop) == ""
    assert [item["source"] for item in queue(laptop)["waiting"]] == ["pi/one", "pi/two"]
    laptop.idle()
    for words in (("next",), ("input",), ("out", "do", "reply", "--message", "x")):
        refused = laptop.cn(*words, check=1).stderr
        assert "this clone gives the agent nothing: cn.agent is false" in refused
        assert "git config cn.agent true" in refused
    assert "this clone gives the agent nothing" in laptop.cn("agent", check=3).stderr
    for command in ("status", "queue"):
        assert "items are left to other clones of this hub" in laptop.cn(command).stdout
        assert "left to other clones" not in sigma.cn(command).stdout
    found = json.loads(laptop.cn("doctor", "--json", check=None).stdout)
    (one,) = [one for one in found if one["check"] == "queue"]
    assert (one["level"], one["what"]) == ("info", "the agent's items are left to other clones of this hub")

    assert "pi/one is the agent's input" in sigma.sync().stdout
    laptop.decide("pi/two", "delete:by hand")
    answer(sigma, "---\nid: ID\ndone: ID\n---\n")
    sigma.process()
    assert sigma.threads() == []
    assert events(sigma, "pi", topic="one").count("claimed") == 1
    laptop.sync()
    clean(laptop)

    world.propose(pi, sigma, "three")
    laptop.sync()
    assert shown(laptop) == ""
    git(laptop.root, "config", "cn.agent", "true")
    assert "pi/three is the agent's input" in laptop.cn("next").stdout
    assert asked(laptop).endswith("-pi-three")


def test_who_gives_an_item_where_nothing_wakes_an_agent_says_how_it_is_left_to_another_clone(
    world: World, sigma: Node, pi: Node, laptop: Node
) -> None:
    """Each printed step, followed literally."""
    world.propose(pi, sigma, "one")
    told = laptop.sync().stdout
    (line,) = [line for line in told.splitlines() if "pi/one is the agent's input" in line]
    assert f"in this clone 'cn input' prints it and 'cn out' answers it; {LEAVE}" in told.replace("\n    ", " ")
    assert "pi/one" in laptop.cn("input").stdout, line
    first = current(laptop)

    sigma.sync()
    assert shown(sigma) == ""
    git(laptop.root, "config", "cn.agent", "false")
    assert "pi/one is the agent's no more: cn.agent is false in this clone" in laptop.sync().stdout
    assert shown(laptop) == ""
    (waiting,) = queue(laptop)["waiting"]
    assert (waiting["id"], waiting["attempts"]) == (first, 0)
    laptop.idle()
    told = sigma.sync().stdout
    assert "pi/one is the agent's input" in told
    assert "git config" not in told
    assert current(sigma) == first
    sigma.idle()
    laptop.sync()
    laptop.idle()


def test_an_answer_that_is_there_is_executed_when_its_clone_gives_nothing_more(
    world: World, sigma: Node, pi: Node, laptop: Node
) -> None:
    world.propose(pi, sigma, "one")
    laptop.sync()
    answer(laptop, "---\nid: ID\ndone: ID\n---\n")
    git(laptop.root, "config", "cn.agent", "false")
    laptop.sync()
    laptop.process()
    assert laptop.threads() == []


def test_a_turn_that_nobody_answered_names_the_setting(world: World, sigma: Node, pi: Node, laptop: Node) -> None:
    world.propose(pi, sigma, "one")
    laptop.sync()
    let_pass(laptop)
    told = laptop.cn("inbox", "sync", check=1).stderr.replace("\n    ", " ")
    assert "nothing wakes it in this clone: 'git config cn.wake COMMAND' does" in told
    assert LEAVE in told


def test_a_turn_that_another_clone_had_names_it(world: World, sigma: Node, pi: Node, laptop: Node) -> None:
    world.propose(pi, sigma, "one")
    laptop.sync()
    sigma.sync()
    let_pass(sigma)
    told = sigma.cn("inbox", "sync", check=1).stderr.replace("\n    ", " ")
    assert "is it woken there? 'git config cn.agent false' there leaves items to the clone where" in told
    assert current(sigma), "it has its next attempt here"
