"""What we sent can be looked at by its names: its text, where it is, what became of it."""

from __future__ import annotations

import json
import re
from typing import Any

from cn.protocol import sent_life
from cn.protocol.thread_life import DELETED, MOVED, QUEUED
from tests.support.hubs import ROOT, git
from tests.support.terminal import Terminal
from tests.support.world import Node, World

PAGE = (ROOT / "docs/protocol/json.md").read_text("utf-8")


def test_what_we_sent_is_shown_and_explained(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma, "fix", {"docs/fix.md": "mended\n"}, message="Mend it")
    pi.cn("propose", "other", "sigma", "--commit", _clone_commit(world, pi, sigma))
    pi.cn("send", "sigma", "Hello", "--body", "How is it going?")
    pi.sync()
    sigma.sync()
    sigma.decide("pi/other", "do:merge")
    sigma.decide("pi/fix", "defer:after the release")
    pi.sync()

    def look(*words: str) -> str:
        return pi.cn(*words).stdout

    def facts(*words: str) -> Any:
        return json.loads(look(*words, "--json"))

    message = look("thread", "show", "pi/hello")
    assert "How is it going?" in message
    assert "pi/hello is at sigma; no answer" in message
    (file,) = [name for name in pi.sent() if "hello" in name]
    assert look("thread", "show", file) == message == look("inbox", "show", "sigma:hello")
    by_hand = look("thread", "show", "sigma:fix")
    assert head in by_hand
    assert "added docs/fix.md (+1 −0)" in by_hand
    assert 'deferred: "after the release' in by_hand
    proposed = facts("inbox", "show", "pi/other")
    block = json.loads(PAGE.split("<!-- shape: sent -->\n```json\n")[1].split("```")[0])
    assert proposed.keys() == block.keys()
    assert [link["step"] for link in proposed["chain"]] == [
        "queued", "delivered", "answered", "cleaned_up", "branch_deleted",
    ]  # fmt: skip
    assert (proposed["status"], proposed["state"]) == ("merged", "deleted")
    assert "## docs/other.md (added)" not in proposed["text"]
    assert "added docs/second.md" in proposed["text"]
    why = look("why", "sigma:other")
    assert re.search(rf"answered: merged as {proposed['merge'][:12]}", why)
    assert "sigma/other | propose | ✓ delivered" in why
    assert facts("why", "pi/hello")["sent"]["state"] == "delivered"
    waiting = look("status")
    assert "pi/fix at sigma" in waiting
    assert 'deferred: "after the release' in waiting
    assert "no thread 'pi/nothing'" in pi.cn("thread", "show", "pi/nothing", check=1).stderr
    # what a peer sent under the same name comes first
    world.propose(sigma, pi, "hello")
    pi.sync()
    assert "**From:** sigma" in look("inbox", "show", "sigma/hello")
    assert look("inbox", "show", "sigma:hello") == message


def test_a_branch_that_was_pushed_by_hand_is_shown_as_what_it_changes(world: World, sigma: Node, pi: Node) -> None:
    """Pi's hub has no history in common with sigma's; a terminal shows files letter by letter."""
    sigma.write({"docs/big.md": "much\n" * 50})
    world.propose(pi, sigma, "fix", {"docs/list.md": "1. one\n1. *two*\n# three\n"}, message="A list")
    pi.sync()
    text = pi.cn("thread", "show", "sigma:fix").stdout
    assert "docs/list.md" in text
    assert "big.md" not in text
    assert "hub.yaml" not in text
    assert "A list" in pi.cn("status").stdout
    terminal = Terminal(pi.root, "thread", "show", "sigma:fix")
    assert terminal.end() == 0
    for line in ("1. one", "1. *two*", "# three"):
        assert f"▌     {line}\n" in re.sub(r" +\n", "\n", terminal.text)


def _clone_commit(world: World, pi: Node, sigma: Node) -> str:
    """A commit upon sigma's main among the objects of pi's hub."""
    person = world.person(pi, sigma)
    git(person, "checkout", "--quiet", "-B", "second", "origin/main")
    (person / "docs/second.md").write_text("second\n")
    git(person, "add", "docs/second.md")
    git(person, "commit", "--quiet", "-m", "Second")
    git(pi.root, "fetch", "--quiet", str(person), "second")
    return "FETCH_HEAD"


def test_every_step_of_what_we_sent_is_documented() -> None:
    constants = {k: v for k, v in vars(sent_life).items() if k.isupper() and not k.startswith("_")}
    steps = {value for value in constants.values() if isinstance(value, str)} - {"notice", "withdrawn"}
    table = PAGE[PAGE.index("<!-- sent-steps -->") :].split("\n\n")[0]
    rows = re.sub(r"\| [^|]*\|$", "", table, flags=re.M)
    assert steps | {QUEUED, MOVED, DELETED} == set(re.findall(r"`(\w+)`", rows)) - {"step"}


def test_what_we_sent_and_what_is_not_there_any_more_says_since_when(world: World, sigma: Node, pi: Node) -> None:
    for topic in ("one", "two"):
        world.propose(pi, sigma, topic, {f"docs/{topic}.md": "1\n"})
        pi.sync()
    sigma.sync()
    sigma.decide("pi/two", "defer:later")
    pi.sync()
    assert "is at sigma; no answer" in pi.cn("thread", "show", "sigma:one").stdout
    for topic in ("one", "two"):
        world.withdraw(pi, sigma, topic)
    pi.sync()
    why = " ".join(pi.cn("why", "sigma:one").stdout.split())
    (at,) = [
        e["at"] for e in json.loads(pi.cn("why", "sigma:one", "--json").stdout)["sent"]["chain"] if e["step"] == "gone"
    ]
    gone = f"gone since {at[:16]}Z: the branch is not there any more (withdrawn, or deleted at the host)"
    assert f"is {gone}; no answer came before" in why
    answered = " ".join(pi.cn("why", "sigma:two").stdout.split())
    assert "(withdrawn, or deleted at the host); deferred: " in answered


def test_the_log_takes_what_we_sent_by_all_its_names(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma, "fix", {"docs/fix.md": "mended\n"}, message="Mend it")
    pi.cn("propose", "other", "sigma", "--commit", _clone_commit(world, pi, sigma))
    rows = pi.cn("log", "--thread", "sigma/other").stdout
    assert "delivered" in rows
    for name in ("sigma:other", "pi/other", "other", "sigma:pi/other"):
        assert pi.cn("log", "--thread", name).stdout == rows
    said = pi.cn("log", "--thread", "sigma:nothing", check=1).stderr
    assert "'cn status' what we sent" in " ".join(said.split())
