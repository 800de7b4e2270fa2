"""A decision waits in a clone whose main conflicts with origin's, which changed the thread: the printed steps."""

from __future__ import annotations

import re

from tests.support.hubs import git, try_git
from tests.support.world import Node, World


def decided_beside_a_commit(world: World, sigma: Node, pi: Node) -> Node:
    """A second clone of sigma's, with a decision that no commit has and a commit of its own to a file of main."""
    sigma.write({"doc.md": "one\n"})
    second = world.second(sigma)
    world.propose(pi, sigma, "fix", {"docs/fix.md": "one\n"})
    sigma.sync()
    second.sync()
    second.triage("pi/fix", "do:merge")
    (second.root / "doc.md").write_text("second\n")
    git(second.root, "commit", "-qm", "here", "--", "doc.md")
    return second


def test_a_decision_is_put_away_before_a_pull_that_would_overwrite_its_thread(
    world: World, sigma: Node, pi: Node
) -> None:
    second = decided_beside_a_commit(world, sigma, pi)
    sigma.cn("comment", "pi/fix", "Wait: why?")
    sigma.write({"doc.md": "first\n"})
    sigma.sync()
    said = " ".join(second.cn("sync", check=1).stderr.split())
    before, pull, after = re.findall(r"'git ([^']+)'", said)
    assert before == "stash push -- threads/inbox"
    git(second.root, *before.split())
    assert b"CONFLICT" in try_git(second.root, *pull.split()).stdout
    (second.root / "doc.md").write_text("both\n")
    git(second.root, "commit", "-qam", "resolved")
    try_git(second.root, *after.split())
    said = second.cn("sync", check=None).stderr + second.cn("inbox", "process", check=None).stderr
    assert "decide again" in said
    assert "> decision: do:merge" in second.thread(second.only_thread()), "what was decided is quoted"
    second.cn("inbox", "show", "pi/fix")
    second.decide("pi/fix", "do:merge")


def test_where_origin_left_the_thread_alone_the_pull_is_told_by_itself(world: World, sigma: Node, pi: Node) -> None:
    second = decided_beside_a_commit(world, sigma, pi)
    sigma.write({"doc.md": "first\n"})
    assert "stash" not in second.cn("sync", check=1).stderr
