"""Branches of somebody who is no peer are counted as long as they are there, and are nothing that is wrong."""

from __future__ import annotations

import re
import shlex

from tests.support.hubs import branches, git, push
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
        assert "'git push origin :refs/heads/eva/one' deletes one that nobody needs, where the host lets you" in shown
    for name in ("eva/one", "eva/two", "fix/one"):
        git(person, "push", "--quiet", sigma.url, f":refs/heads/{name}")
    sigma.sync()
    assert "of no peer" not in sigma.cn("status").stdout


def test_the_step_that_deletes_a_branch_of_nobodys_never_means_another_ref(world: World, sigma: Node, pi: Node) -> None:
    person = world.person(pi, sigma)
    git(sigma.home, "symbolic-ref", "HEAD", "refs/heads/elsewhere")  # a host that lets main be deleted
    push(person, sigma.url, "HEAD:refs/heads/refs/heads/main")
    sigma.sync()
    shown = " ".join(sigma.cn("status").stdout.split())
    (step,) = set(re.findall(r"'(git push origin :[^']*)' deletes one that", shown))
    git(person, "push", "--quiet", sigma.url, ":refs/heads/refs/heads/main")  # gone when somebody follows it
    git(sigma.root, *shlex.split(step)[1:])
    assert "main" in branches(sigma.home)
