"""git merges texts line by line: it carries no decision from the head that was read to one that nobody read."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.hubs import clone, git, identify, try_git
from tests.support.world import Node, World, is_in_main

SECTION = "## Triage\n\ndecision: do:merge\nactor: sigma\ntimestamp: 2026-02-05T15:00Z\n"


def _form(text: str) -> int:
    return text.index("<!-- To decide")


def filled(text: str) -> str:
    text = re.sub(r"<!-- To decide[^\n]*\n", "", text)
    return text.replace("decision:\n", "decision: do:merge\n").replace("timestamp:\n", "timestamp: 2026-02-05\n")


WAYS: dict[str, Callable[[str], str]] = {
    "filled": filled,
    "instead": lambda text: text[: _form(text)] + SECTION,
    "above": lambda text: f"{text[: _form(text)]}{SECTION}\n{text[_form(text) :]}",
    "below": lambda text: f"{text}\n{SECTION}",
}


def _file(node: Node, topic: str) -> Path:
    return next((node.root / "threads/inbox").glob(f"*-pi-{topic}.md"))


def test_what_was_put_aside_decides_nothing_of_what_came_meanwhile(world: World, sigma: Node, pi: Node) -> None:
    for topic in ("command", *WAYS):
        world.propose(pi, sigma, topic)
    sigma.sync()
    sigma.triage("pi/command", "do:merge")
    for topic, write in WAYS.items():
        _file(sigma, topic).write_text(write(_file(sigma, topic).read_text()))
    git(sigma.root, "stash")
    heads = [world.propose(pi, sigma, topic, {f"{topic}.md": "evil\n"}, force=True) for topic in ("command", *WAYS)]
    sigma.sync()
    try_git(sigma.root, "stash", "pop")
    done = sigma.process(1)
    assert done.stderr.count("void: git left the marks of a conflict in the thread") == len(heads)
    assert not [head for head in heads if is_in_main(sigma, head)]
    assert all("<<<<" not in sigma.thread(name) for name in sigma.threads())
    assert "> decision: do:merge" in _file(sigma, "command").read_text(), "what was decided is quoted"
    sigma.decide("pi/command", "do:merge")
    assert is_in_main(sigma, heads[0]), "who has read what came may merge that"


@pytest.mark.parametrize("topic", ["command", "filled"])
def test_a_decision_that_a_reviewer_rebases_is_about_what_she_read(
    world: World, sigma: Node, pi: Node, topic: str
) -> None:
    sigma.configure("reviewers: [alice]\n")
    read = world.propose(pi, sigma, topic)
    sigma.sync()
    root = clone(sigma.home, world.folder / "alice", trusted=True)
    identify(root, "alice", "alice@cn.invalid")
    alice = Node("sigma", root, sigma.home, sigma.url)
    if topic == "command":
        alice.triage(f"pi/{topic}", "do:merge", "--actor", "alice")
    else:
        _file(alice, topic).write_text(filled(_file(alice, topic).read_text()))
    assert f"\nhead: {read}" in _file(alice, topic).read_text()
    git(root, "commit", "--quiet", "--all", "--message", "alice: merge it")
    evil = world.propose(pi, sigma, topic, {"evil.md": "evil\n"}, force=True)
    sigma.sync()
    assert try_git(root, "pull", "--quiet", "--rebase").returncode != 0, "git does not merge the two"
    git(root, "rebase", "--abort")
    git(root, "pull", "--quiet", "--rebase", "--strategy-option=theirs")  # unless it is told to
    text = _file(alice, topic).read_text()
    assert f"**Head:** {evil}\n" in text
    assert "\n## Triage\n" in text
    git(root, "push", "--quiet")
    told = "".join(sigma.cn("inbox", word, check=None).stderr for word in ("sync", "process"))
    assert f"void: the decision names the head {read[:8]}, the branch is at {evil[:8]}" in told
    assert not is_in_main(sigma, evil)
    assert f"> head: {read}" in sigma.thread(sigma.only_thread())
    sigma.decide(f"pi/{topic}", "do:merge")
    assert is_in_main(sigma, evil)


def test_in_a_work_tree_that_no_run_reads_nothing_is_decided(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    linked = world.folder / "linked"
    git(sigma.root, "worktree", "add", "-q", "-b", "feature", str(linked))
    there = Node("sigma", linked, sigma.home, sigma.url)
    before = sigma.thread(sigma.only_thread())
    for words in (["--dry-run"], []):
        done = there.triage("pi/proposal", "do:merge", *words, check=1)
        assert f"main is checked out in {sigma.root}" in done.stderr
        assert "nothing was decided" in done.stderr
        assert f"'cd {sigma.root}'" in done.stderr
        assert f"'cn --hub {sigma.root} …'" in done.stderr
    assert (linked / "threads/inbox" / sigma.only_thread()).read_text() == before
    for words in (["comment", "pi/proposal", "Why?"], ["send", "pi", "Hello"], ["reply", "pi/proposal", "Well"]):
        done = there.cn(*words, check=None)
        assert done.returncode != 0
        assert f"'cd {sigma.root}'" in done.stderr
        assert "git switch" not in done.stderr
    git(sigma.root, "switch", "-q", "--detach")
    assert "it waits until HEAD is main again" in there.triage("pi/proposal", "do:merge").stdout


def test_what_was_merged_with_git_and_reverted_is_not_called_merged(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    git(sigma.root, "merge", "-q", "--no-ff", "-m", "by hand", head)
    assert "main already holds this" in sigma.cn("inbox").stdout
    git(sigma.root, "revert", "-m", "1", "--no-edit", "HEAD")
    back = git(sigma.root, "rev-parse", "HEAD")
    assert "main already holds this" not in sigma.cn("inbox").stdout
    assert "main already holds this" not in sigma.triage("pi/proposal", "do:merge").stdout
    refused = sigma.process(check=1).stderr
    assert "all that it changes was taken back" in refused
    assert "'cn comment pi/proposal TEXT' asks for new commits" in refused
    git(sigma.root, "revert", "--no-edit", back)
    sigma.decide("pi/proposal", "do:merge")
    assert sigma.threads() == []
    assert (sigma.root / "docs/proposal.md").exists()
    pi.sync()
    assert not world.has_branch(pi, sigma)
