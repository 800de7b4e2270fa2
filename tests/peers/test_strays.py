"""Branches of somebody who is no peer are counted as long as they are there, and are nothing that is wrong."""

from __future__ import annotations

from tests.support.hubs import git, push
from tests.support.world import Node, World


def test_branches_of_nobody_are_counted_by_prefix_until_they_are_gone(world: World, sigma: Node, pi: Node) -> None:
    person = world.person(pi, sigma)
    for name in ("eva/one", "eva/two", "fix/one"):
        push(person, sigma.url, f"HEAD:refs/heads/{name}")
    sigma.cn("sync", "-q")
    told = "3 branches in the mailbox of no peer, left alone: eva/: 2, fix/: 1"
    for words in (("status",), ("status", "--check"), ("doctor",)):
        shown = " ".join(sigma.cn(*words).stdout.split())
        assert told in shown
        assert "'cn peer add eva URL' lets in what is a peer's" in shown
        assert "'git push origin :eva/one' deletes one, where the host lets you" in shown
    for name in ("eva/one", "eva/two", "fix/one"):
        git(person, "push", "--quiet", sigma.url, f":refs/heads/{name}")
    sigma.sync()
    assert "of no peer" not in sigma.cn("status").stdout
