"""What the doctor says of the work tree: on another branch, and where an old copy of a thread was committed."""

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


def test_an_old_copy_of_a_thread_that_was_committed_is_taken_out_as_told(world: World, sigma: Node, pi: Node) -> None:
    """As from a backup: the next run takes it from the work tree, and main has it still."""
    world.propose(pi, sigma)
    sigma.sync()
    old, name = sigma.main, sigma.only_thread()
    sigma.decide("pi/proposal", "do:merge")
    git(sigma.root, "checkout", "--quiet", old, "--", f"threads/inbox/{name}")
    git(sigma.root, "commit", "--quiet", "-m", "a backup")
    sigma.cn("sync", check=None)
    shown = " ".join(sigma.cn("status").stdout.split())
    assert "no thread, not executed; 'cn doctor' tells what takes it out" in shown
    said = " ".join(sigma.cn("doctor", check=1).stdout.split())
    assert f"'git rm -- threads/inbox/{name}', a commit and its push take it out of main" in said
    git(sigma.root, "rm", "--quiet", "--", f"threads/inbox/{name}")
    git(sigma.root, "commit", "--quiet", "-m", "out")
    git(sigma.root, "push", "--quiet", "origin", "refs/heads/main")
    sigma.sync()
    assert "no thread" not in sigma.cn("status").stdout
    assert "is no thread" not in sigma.cn("doctor").stdout
