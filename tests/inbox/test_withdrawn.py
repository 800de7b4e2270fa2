"""A proposal that its creator has taken back waits for nobody's decision, and what is offered of it can be done."""

from __future__ import annotations

import json

from tests.support.world import Node, World


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
    assert "their branch is gone" in sigma.cn("status").stdout
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
