"""A proposal that its creator has taken back waits for nobody's decision, and what is offered of it can be done."""

from __future__ import annotations

import json

from tests.support.desk import shown, work_queue
from tests.support.world import Node, World

GONE = "the branch is not there any more"


def state_of(node: Node) -> str:
    (thread,) = json.loads(node.cn("inbox", "--json").stdout)
    return str(thread["state"])


def test_a_withdrawn_proposal_is_not_to_decide(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    assert state_of(sigma) == "pending"
    world.withdraw(pi, sigma)
    sigma.sync()
    assert state_of(sigma) == "withdrawn"
    assert "to decide" not in sigma.cn("status").stdout
    assert "the branch is not there any more" in sigma.cn("status").stdout
    shown = sigma.cn("inbox", "show", "pi/proposal").stdout.partition("-- decide")[2]
    assert "do:merge" not in shown
    assert "pi deletes" not in shown
    refused = sigma.triage("pi/proposal", "do:merge", check=1).stderr
    for told in (shown, refused):
        assert "'cn delete pi/proposal' ends" in told
        assert "'cn comment pi/proposal TEXT' asks for it again" in told
    assert "its branch is gone already" in sigma.triage("pi/proposal", "delete:no").stdout
    sigma.process()
    assert sigma.threads() == []


def test_a_withdrawn_proposal_that_comes_again_waits_though_it_was_commented(
    world: World, sigma: Node, pi: Node
) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    sigma.cn("comment", "pi/proposal", "before")
    assert state_of(sigma) == "answered"
    world.withdraw(pi, sigma)
    sigma.sync()
    sigma.cn("comment", "pi/proposal", "why did you take it back?")
    assert state_of(sigma) == "withdrawn"
    world.offer(pi, sigma, "proposal", "HEAD")
    assert "waits again" in sigma.sync().stdout
    assert state_of(sigma) == "pending"
    sigma.cn("comment", "pi/proposal", "thank you")
    assert state_of(sigma) == "answered"


def test_of_a_message_whose_branch_is_gone_nobody_is_said_to_delete_it(world: World, sigma: Node, pi: Node) -> None:
    pi.cn("send", "sigma", "Hello")
    sigma.sync()
    assert "pi deletes pi/hello" in sigma.cn("inbox", "show", "pi/hello").stdout
    world.withdraw(pi, sigma, "hello")
    sigma.sync()
    assert "pi/hello is gone already" in sigma.cn("inbox", "show", "pi/hello").stdout


def test_an_agent_is_told_of_a_proposal_that_is_withdrawn(world: World, sigma: Node, pi: Node) -> None:
    work_queue(sigma)
    for topic in ("first", "second"):
        world.propose(pi, sigma, topic)
    sigma.sync()
    world.withdraw(pi, sigma, "second")
    sigma.sync()
    assert GONE not in shown(sigma)
    for command in (("queue",), ("status",)):
        (line,) = [line for line in sigma.cn(*command).stdout.splitlines() if GONE in line]
        assert line.startswith("    ")
    assert GONE in sigma.cn("context", "pi/second", "--text").stdout
    sigma.cn("done", "pi/first")
    header = shown(sigma).partition("\n>")[0]
    assert f"**Caution:** {GONE}" in header
    assert "nothing can be merged" in header
    assert "<!--" not in shown(sigma)


def test_status_says_so_of_what_was_put_off_or_given_to_somebody(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    world.withdraw(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "defer:later")
    sigma.process()
    assert sigma.cn("status").stdout.count(GONE) == 1
    sigma.write_refused_triage("pi/proposal", "do:merge")
    sigma.process(check=None)
    told = sigma.cn("status").stdout
    assert "refused\n" in told
    assert told.count(GONE) == 1
