"""A question ends no proposal: comments, deferrals that the creator learns of, answers shown where they belong."""

from __future__ import annotations

import re

import pytest

from tests.support.hubs import branches
from tests.support.world import Node, World


def said(text: str) -> list[str]:
    """Who said something below the branch of a thread, and the words."""
    return [line for line in text.split("\n") if line.startswith("**") and " wrote, " in line or line.startswith("> ")]


def test_a_comment_is_answered_in_the_same_thread_and_then_it_is_merged(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    name = sigma.only_thread()
    done = sigma.cn("comment", "pi/proposal", "Which colour?", check=0)
    assert "✓ pi/proposal: comment by sigma; it waits as before" in done.stdout
    assert sigma.threads() == [name]
    assert re.search(r"\n\*\*sigma wrote, [^*]+\*\* \(comment\)\n\n> Which colour\?\n\Z", sigma.thread(name))
    pi.sync()
    assert world.has_branch(pi, sigma), "it ends nothing"
    (question,) = pi.threads()
    assert "> Which colour?" in pi.thread(question)
    pi.cn("reply", "sigma/re-proposal", "Red.", check=0)
    done = sigma.sync()
    assert f"pi/re-proposal is an answer, shown in threads/inbox/{name}" in done.stdout
    assert sigma.threads() == [name]
    text = sigma.thread(name)
    assert text.index("> Which colour?") < text.index("**pi wrote, ") < text.index("> Red.")
    sigma.decide(name, "do:merge")
    world.settle(sigma, pi)
    assert list(branches(sigma.url)) == list(branches(pi.url)) == ["main"]
    assert (sigma.threads(), sigma.outbox(), pi.threads(), pi.outbox()) == ([], [], [], [])
    assert head in (sigma.root / "threads/inbox/done" / name).read_text()


def test_what_a_person_wrote_meanwhile_stays_where_it_is(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    name = sigma.only_thread()
    path = sigma.root / "threads/inbox" / name
    path.write_text(path.read_text() + "\nA note of mine.\n\n---\n\n## Triage\n\ndecision: do:mer\n")
    sigma.cn("comment", name, "Why?", check=0)
    text = path.read_text()
    assert text.index("A note of mine.") < text.index("> Why?") < text.index("## Triage")
    assert text.endswith("## Triage\n\ndecision: do:mer\n")


def test_a_deferral_tells_the_creator_with_its_words_and_comes_back_the_next_day(
    world: World, sigma: Node, pi: Node
) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    name = sigma.only_thread()
    sigma.decide(name, "defer:next week", "--body", "After the release.")
    pi.sync()
    waiting = pi.cn("status").stdout
    assert "deferred" in waiting
    assert world.has_branch(pi, sigma)
    (row,) = [row for row in pi.rows() if row[1] == "notice:deferred"]
    assert row[2] == "deferred: next week"
    events = (sigma.root / "state/ledger/pi").rglob("2*")
    (until,) = re.findall(r"until=(\S+)", "".join(path.read_text() for path in events))
    assert "T00%3A00%3A00Z" in until or "T00:00:00Z" in until


@pytest.mark.parametrize("words", [["", "nobody/x"], ["x", "nobody/x"]])
def test_what_cannot_be_commented_is_refused(sigma: Node, words: list[str]) -> None:
    text, thread = words
    assert sigma.cn("comment", thread, text, check=1).stderr.startswith("cn: ")
    assert sigma.outbox() == []


def test_a_secret_in_a_comment_is_refused(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    done = sigma.cn("comment", "pi/proposal", "the key is AKIAIOSFODNN7EXAMPLA", check=1)
    assert "no-secrets" in done.stderr
    assert "AKIA" not in sigma.thread(sigma.only_thread())
