"""What people write while origin does not answer waits here, and goes once, when it answers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from cn.protocol.draft import Draft, format_draft
from cn.values.timestamps import parse_stamp
from tests.support.hubs import ROOT, branches, clone, commit, git, identify, push, write_commit
from tests.support.meanwhile import meanwhile
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
    sigma.cn("send", "pi", "Hello")
    lost = Draft("comment", "pi/none", "Why?", "", parse_stamp("2026-02-05T15:00Z"), b"")
    commit(sigma.root, {lost.path: format_draft(lost)}, "about a thread that is nowhere")
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


def test_what_was_said_about_a_head_decides_nothing_about_another(world: World, sigma: Node, pi: Node) -> None:
    pi.cn("send", "sigma", "Shall I keep the backups?")
    sigma.sync()
    name = sigma.only_thread()
    git(sigma.root, "config", "remote.origin.url", f"{sigma.url}.away")
    sigma.cn("reply", name, "Yes, please.")
    person = world.person(pi, sigma)
    git(person, "fetch", "--quiet", sigma.url, "pi/shall-i-keep-the-backups")
    text = git(person, "show", "FETCH_HEAD:message.md").replace("keep", "delete") + "\n"
    new = write_commit(person, {"message.md": text}, "x", [], "pi <pi@cn.invalid>")
    push(person, sigma.url, f"+{new}:refs/heads/pi/shall-i-keep-the-backups")
    back(sigma)
    done = sigma.sync()
    assert "has moved since this was said; its text goes as a message of its own" in done.stdout
    assert sigma.threads() == [name], "nothing is decided"
    assert "delete the backups?" in sigma.thread(name)
    assert "> Yes, please." not in sigma.thread(name)
    assert any("re-shall-i-keep" in branch for branch in branches(pi.url))


def test_what_waits_is_said_before_what_is_decided_later(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    git(sigma.root, "config", "remote.origin.url", f"{sigma.url}.away")
    sigma.cn("comment", "pi/proposal", "Well done.")
    sigma.triage("pi/proposal", "do:merge")
    back(sigma)
    assert "comment by sigma" in sigma.process().stdout
    assert (sigma.threads(), drafts(sigma)) == ([], [])
    pi.sync()
    assert "> Well done." in pi.thread(pi.only_thread())


def test_the_loser_of_a_race_says_nothing_again(world: World, sigma: Node, pi: Node, tmp_path: Path) -> None:
    second = Node("sigma", clone(sigma.home, world.folder / "second"), sigma.home, sigma.url)
    identify(second.root, "sigma", "sigma@cn.invalid")
    git(sigma.root, "config", "remote.origin.url", f"{sigma.url}.away")
    sigma.cn("send", "pi", "Hello")
    back(sigma)
    git(sigma.root, "push", "--quiet", "origin", "main")
    run = f"{sys.executable} -m cn --hub {second.root} sync"
    env = meanwhile(tmp_path / "bin", before=f"PYTHONPATH={ROOT} {run}")
    done = sigma.cn("sync", env=env)
    assert done.stderr == ""
    assert [name for name in branches(pi.url) if name.startswith("sigma/hello")] == ["sigma/hello"]
    assert drafts(sigma) == []
