"""What people write while origin does not answer waits here, and goes once, when it answers."""

from __future__ import annotations

import json

import pytest

from tests.support.hubs import branches, git
from tests.support.world import Node, World


@pytest.fixture
def away(sigma: Node, pi: Node) -> Node:
    """Sigma, whose origin does not answer."""
    git(sigma.root, "config", "remote.origin.url", f"{sigma.url}.away")
    return sigma


def back(node: Node) -> None:
    git(node.root, "config", "remote.origin.url", node.url)


def drafts(node: Node) -> list[str]:
    return git(node.root, "ls-tree", "-r", "--name-only", "main", "threads/drafts").split()


def test_a_message_waits_here_and_goes_once(away: Node, pi: Node) -> None:
    done = away.cn("send", "pi", "Hello", "--body", "The text.")
    assert "origin is unreachable" in done.stdout
    assert "the send waits here, and goes when origin answers" in done.stdout
    assert len(drafts(away)) == 1
    assert "send to pi, written" in away.cn("status").stdout
    (waits,) = json.loads(away.cn("outbox", "--json").stdout)
    assert (waits["effect"], waits["to"], waits["subject"]) == ("draft", "pi", "Hello")
    assert away.sync(1).stderr.count("origin is unreachable") == 1
    back(away)
    away.sync()
    assert (drafts(away), away.outbox()) == ([], [])
    pi.sync()
    assert "> The text." in pi.thread(pi.only_thread())
    away.idle()


def test_a_reply_a_comment_and_a_follow_up_wait_too(world: World, sigma: Node, pi: Node) -> None:
    pi.cn("send", "sigma", "A question")
    pi.cn("send", "sigma", "Another one")
    world.propose(pi, sigma)
    sigma.sync()
    sigma.cn("done", "pi/another-one")
    git(sigma.root, "config", "remote.origin.url", f"{sigma.url}.away")
    sigma.cn("reply", "pi/a-question", "Yes.")
    sigma.cn("comment", "pi/proposal", "Why?")
    sigma.cn("reply", "pi/another-one", "After all.")
    assert len(drafts(sigma)) == 3
    assert len(sigma.threads()) == 2, "nothing is decided yet"
    back(sigma)
    sigma.process()
    assert (drafts(sigma), sigma.outbox()) == ([], [])
    pi.sync()
    texts = "".join(pi.thread(name) for name in pi.threads())
    assert all(f"> {said}" in texts for said in ("Yes.", "Why?", "After all."))
    assert [name.split("-", 1)[1] for name in sigma.threads()] == ["pi-proposal.md"]
    sigma.sync()
    sigma.idle()


def test_what_would_be_refused_is_refused_at_once(away: Node) -> None:
    assert "no peer" in away.cn("send", "nobody", "Hello", check=1).stderr
    assert "no-secrets" in away.cn("send", "pi", "the key is AKIAIOSFODNN7EXAMPLA", check=1).stderr
    assert "nobody/x" in away.cn("comment", "nobody/x", "Hello", check=1).stderr
    assert drafts(away) == []


def test_one_that_is_refused_later_stays_and_keeps_no_other(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    git(sigma.root, "config", "remote.origin.url", f"{sigma.url}.away")
    sigma.cn("comment", "pi/proposal", "Why?")
    sigma.cn("send", "pi", "Hello")
    other = world.second(sigma)
    other.cn("done", "pi/proposal")
    back(sigma)
    done = sigma.process(1)
    assert done.stderr.count("is not said") == 1
    assert "git rm" in done.stderr
    assert len(drafts(sigma)) == 1
    assert "sigma/hello" in branches(pi.url)
    assert sigma.process().stderr == "", "it was told"
    assert "is not said" in sigma.cn("status").stdout
    git(sigma.root, "rm", "-q", f"{drafts(sigma)[0]}")
    git(sigma.root, "commit", "-qm", "never mind")
    sigma.process()
    assert "is not said" not in sigma.cn("status").stdout


def test_a_dry_run_keeps_nothing(away: Node) -> None:
    head = git(away.root, "rev-parse", "main")
    away.cn("send", "pi", "Hello", "--dry-run")
    assert git(away.root, "rev-parse", "main") == head
