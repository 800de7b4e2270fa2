"""The doctor on a branch that is not main: what it reads in the work tree is that branch's."""

from __future__ import annotations

from tests.support.hubs import git
from tests.support.world import MAIN_FILE, Node, World


def test_on_another_branch_the_doctor_calls_none_of_its_files_a_fault_of_mains(
    world: World, sigma: Node, pi: Node
) -> None:
    """What it told threw away edits of that branch, or moved its threads."""
    world.propose(pi, sigma, "old")
    sigma.sync()
    git(sigma.root, "branch", "feature")
    sigma.decide("pi/old", "do:merge")
    world.propose(pi, sigma, "new")
    sigma.sync()
    git(sigma.root, "switch", "--quiet", "feature")
    (sigma.root / MAIN_FILE).write_text("half done\n")
    said = " ".join(sigma.cn("doctor", check=1).stdout.split())
    assert "HEAD is feature" in said
    for wrong in ("git restore", "no thread cn knows", "missing from the work tree", "uncommitted"):
        assert wrong not in said
