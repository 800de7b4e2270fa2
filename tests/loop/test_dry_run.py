"""``--dry-run`` shows the plan and changes nothing: no file, no ref, no object."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.hubs import cn, git
from tests.support.world import Node, World, picture


def unchanged(node: Node, *words: str, check: int = 0) -> str:
    """Run with ``--dry-run``; everything is as before. What it said."""
    folders = {node.root, node.home}

    def state() -> list[object]:
        return [picture(*sorted(folders)), *(git(f, "count-objects", "-v") for f in sorted(folders)), node.refs()]

    before = state()
    done = node.cn(*words, "--dry-run", check=check)
    assert state() == before, words
    assert "✓" not in done.stdout + done.stderr, done.stdout
    return done.stdout


@pytest.fixture(params=[True, False], ids=["origin", "alone"])
def pair(request: pytest.FixtureRequest, world: World) -> tuple[Node, Node]:
    sigma, pi = world.hub("sigma", origin=request.param), world.hub("pi")
    world.link(sigma, pi)
    return sigma, pi


@pytest.mark.sliced(2)
def test_a_dry_sync_changes_nothing(world: World, pair: tuple[Node, Node]) -> None:
    sigma, pi = pair
    world.propose(pi, sigma)
    for words in (("inbox", "sync"), ("sync",), ("peer", "sync")):
        said = unchanged(sigma, *words)
        assert "pi/proposal" in said
        assert "threads/inbox/" in said
    unchanged(sigma, "inbox", "process")
    sigma.sync()
    assert len(sigma.threads()) == 1


DECISIONS = ["do:merge", "delete:no", "defer:later", "delegate:omega", "do:reply:thanks", "do:custom:watch it"]


@pytest.mark.sliced(2)
def test_a_dry_process_changes_nothing(world: World, pair: tuple[Node, Node]) -> None:
    sigma, pi = pair
    world.link(sigma, world.hub("omega"))
    sigma.configure("mailbox_trusted: true\n")
    for i in range(len(DECISIONS)):
        world.propose(pi, sigma, f"t{i}")
    sigma.sync()
    for i, decision in enumerate(DECISIONS):
        words = ("inbox", "triage", f"pi/t{i}", decision, "--body", "Thanks.")
        assert "would" in unchanged(sigma, *words)
        sigma.cn(*words)
    said = unchanged(sigma, "inbox", "process")
    for i in range(len(DECISIONS)):
        assert f"pi/t{i}" in said
    assert "merge pi/t0" in said
    unchanged(sigma, "outbox", "flush")
    sigma.process()
    pi.cn("sync", "--dry-run")
    unchanged(pi, "sync")
    pi.sync()


def test_a_dry_refusal_is_shown_and_told_to_nobody(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma, files={"docs/other.md": "theirs\n"})
    sigma.sync()
    sigma.write({"docs/other.md": "changed\n"})
    sigma.triage("pi/proposal", "do:merge")
    unchanged(sigma, "inbox", "process")
    done = sigma.process()
    assert "rebase-before-merge" in done.stderr, "the dry run did not use up the report"


def test_dry_mail_and_peers_change_nothing(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    assert "would" in unchanged(sigma, "send", "pi", "hello")
    assert "would" in unchanged(sigma, "reply", "pi/proposal", "hello")
    assert "would" in unchanged(sigma, "peer", "add", "omega", str(pi.url))
    assert "would" in unchanged(sigma, "peer", "remove", "pi")


def test_a_dry_init_makes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "new"
    done = cn("init", "fresh", "--path", target, "--dry-run", check=0)
    assert "would" in done.stdout
    assert not target.exists()
