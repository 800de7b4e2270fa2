"""What is shown of a refused decision is the refusal that was met last, as long as what it is about holds."""

from __future__ import annotations

import json

from tests.support.hubs import git
from tests.support.world import MAIN_FILE, Node, World

MERGE = "do:merge"
CHANGED, NO_PEER = "rebase-before-merge", "known-peer"


def shown(node: Node) -> tuple[str, str]:
    """State and rule of the one thread, as ``cn inbox`` has them; ``cn why`` and ``cn log`` say the same rule."""
    (thread,) = json.loads(node.cn("inbox", "--json").stdout)
    rule = str(thread.get("rule") or "")
    if rule:
        assert f"refused  {rule}:" in node.cn("why", "pi/proposal").stdout
        rows = node.cn("log", "--thread", "pi/proposal").stdout.splitlines()
        assert rule in [row for row in rows if " do:merge " in row][-1]
        assert rule in node.cn("status").stdout
    return str(thread["state"]), rule


def refused_as_main_changed(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma, files={MAIN_FILE: "theirs\n"})
    sigma.sync()
    sigma.write({MAIN_FILE: "ours\n"})
    assert CHANGED in sigma.decide("pi/proposal", MERGE).stderr
    assert shown(sigma) == ("refused", CHANGED)


def test_a_refusal_that_comes_back_is_the_one_that_is_shown(world: World, sigma: Node, pi: Node) -> None:
    refused_as_main_changed(world, sigma, pi)
    peers = (sigma.root / "state/peers.md").read_text()
    sigma.cn("peer", "remove", "pi")
    assert NO_PEER in sigma.process(check=1).stderr
    assert shown(sigma) == ("refused", NO_PEER)
    sigma.write({"state/peers.md": peers}, "pi is a peer again")
    assert shown(sigma) == ("decided", ""), "it is no peer any more is not true any more"
    assert CHANGED in sigma.process().stderr
    assert shown(sigma) == ("refused", CHANGED)
    sigma.idle()


def test_who_decides_the_same_again_is_told_again_within_the_minute(world: World, sigma: Node, pi: Node) -> None:
    refused_as_main_changed(world, sigma, pi)
    assert sigma.process().stderr == "", "nobody decided it again"
    assert CHANGED in sigma.decide("pi/proposal", MERGE).stderr
    assert CHANGED in sigma.decide("pi/proposal", MERGE).stderr
    refusals = [row for row in sigma.rows("pi/proposal") if "refused: " in row[2]]
    assert len(refusals) == 1, "it is logged once"


def test_a_branch_that_is_there_again_is_not_shown_as_gone(world: World, sigma: Node, pi: Node) -> None:
    refused_as_main_changed(world, sigma, pi)
    world.withdraw(pi, sigma)
    assert "not there any more" in sigma.process(check=1).stderr
    assert shown(sigma) == ("refused", "merge-needs-approval")
    world.offer(pi, sigma, "proposal", "HEAD")
    sigma.sync()
    sigma.triage("pi/proposal", MERGE)
    assert shown(sigma) == ("decided", "")
    assert CHANGED in sigma.process().stderr
    assert shown(sigma) == ("refused", CHANGED)


def test_two_clones_with_two_refused_decisions_come_to_rest(world: World, sigma: Node, pi: Node) -> None:
    refused_as_main_changed(world, sigma, pi)
    second = world.second(sigma)
    second.sync()
    second.write_refused_triage("pi/proposal", "delegate:nobody")
    second.process(check=1)
    for node in (sigma, second):
        node.sync()
        node.process()
    before = git(sigma.home, "rev-parse", "main")
    for node in (sigma, second, sigma, second):
        node.process()
    assert git(sigma.home, "rev-parse", "main") == before
