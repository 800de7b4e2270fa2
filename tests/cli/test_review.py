"""``cn review`` at a real terminal: one key decides, nothing that was written is lost."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hubs import git
from tests.support.terminal import Terminal
from tests.support.world import Node, World

ASK = "?=help\n? "


def prepare(world: World, sigma: Node, pi: Node) -> Node:
    """A hub in which a proposal and, written later, a message wait."""
    world.propose(pi, sigma, "idea", {"docs/start.md": "begin\n"}, message="Begin anew")
    pi.cn("send", "sigma", "What licence?")
    sigma.sync()
    return sigma


@pytest.fixture
def two(world: World, sigma: Node, pi: Node) -> Node:
    """Such a hub, for a test that decides."""
    return prepare(world, sigma, pi)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Node:
    """Such a hub, for all that only write into working copies."""
    world = World(tmp_path_factory.mktemp("review"), template)
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    return prepare(world, sigma, pi)


@pytest.fixture
def calm(shared: Node) -> Iterator[Node]:
    """The shared hub, in which nothing is decided before and after."""
    yield shared
    git(shared.root, "checkout", "--quiet", "main", "--", "threads/inbox")


def thread(node: Node, topic: str) -> Path:
    (path,) = (node.root / "threads/inbox").glob(f"*-pi-{topic}.md")
    return path


def review(node: Node, *words: str, editor: str = "") -> Terminal:
    return Terminal(node.root, "review", *words, GIT_EDITOR=editor or "false")


def test_it_steps_through_what_waits_and_executes_what_was_decided(two: Node) -> None:
    at = review(two)
    shown = at.answer(ASK, "m")
    assert "1 of 2  pi/idea: Begin anew" in shown
    assert "-start" in shown
    assert "final:    m=merge d=delete  (pi deletes pi/idea)" in shown, "words about a proposal are a comment"
    assert "To decide" not in shown, "the form of the file is no part of what is shown"
    assert "u=undo" not in shown
    at.expect("pi/idea: do:merge (final); u takes it back")
    assert "decision: do:merge\nactor: sigma\n" in thread(two, "idea").read_text()
    shown = at.answer(ASK, "f")
    assert "2 of 2  pi/what-licence: What licence?" in shown
    assert "m=merge" not in shown, "a message cannot be merged"
    assert "final:    r=reply d=delete" in shown
    at.answer("what does it wait for", "the lawyer\r")
    at.answer("until", "3d\r")
    at.expect("pi/what-licence: defer:the lawyer (it stays)")
    at.expect("that was the last")
    at.answer(ASK, "q")
    told = at.answer("run 'cn inbox process' now?", "y")
    assert "✓ pi/idea: do:merge (final); not yet executed" in told
    assert at.end() == 0
    assert {(row[0], row[1]) for row in two.rows()} >= {
        ("pi/idea", "do:merge"),
        ("pi/what-licence", "defer:the lawyer"),
    }
    assert two.threads() == [thread(two, "what-licence").name]


def test_undo_takes_back_what_was_written_to_the_byte_and_nothing_that_somebody_else_wrote(calm: Node) -> None:
    path = thread(calm, "idea")
    before = path.read_bytes()
    at = review(calm)
    at.answer(ASK, "d")
    at.answer("why", "no\r")
    at.answer(ASK, "s")
    at.answer(ASK, "u")  # the skip
    at.answer(ASK, "u")
    at.expect("✓ pi/idea: delete:no is taken back")
    assert path.read_bytes() == before
    assert "1 of 2" in at.answer(ASK, "m")
    at.expect("u takes it back")
    path.write_text(path.read_text() + "\na note\n")
    at.answer(ASK, "u")
    at.expect("has changed since it was written")
    at.answer(ASK, "q")
    at.answer("now?", "n")
    at.expect("'cn inbox process' executes what is written")
    assert at.end() == 0
    assert "do:merge" in path.read_text()


def test_a_branch_that_a_sync_moved_is_shown_again_before_it_is_decided(world: World, two: Node, pi: Node) -> None:
    at = review(two)
    at.expect(ASK)
    world.propose(pi, two, "idea", {"docs/start.md": "another text\n"}, force=True)
    two.sync()
    at.type("m")
    at.expect("has changed since it was shown")
    assert "another text" in at.answer(ASK, "m")
    at.expect("pi/idea: do:merge (final)")
    at.answer(ASK, "q")
    at.answer("now?", "y")
    assert at.end() == 0
    assert (two.root / "docs/start.md").read_text() == "another text\n"


def test_one_that_was_decided_elsewhere_is_passed(two: Node) -> None:
    at = review(two)
    at.expect(ASK)
    two.cn("delete", "pi/idea", "--reason", "no")
    at.type("m")
    at.expect("no pending thread")
    assert "2 of 2" in at.answer(ASK, "q")
    assert at.end() == 0


def test_a_comment_is_sent_at_once_and_the_thread_stays_to_be_decided(two: Node, pi: Node) -> None:
    at = review(two, "pi/idea")
    at.answer(ASK, "c")
    at.answer("comment", "Why?\r")
    shown = at.answer(ASK, "q")
    assert "sigma wrote" in shown
    at.expect("✓ pi/idea: a comment, committed")
    assert at.end() == 0
    pi.sync()
    assert any("Why?" in pi.thread(name) for name in pi.threads())


def test_a_comment_that_a_void_decision_holds_back_is_not_told_as_said(world: World, two: Node) -> None:
    other = world.second(two)
    other.sync()
    other.triage("pi/idea", "do:merge")
    at = review(other, "pi/idea")
    at.expect(ASK)
    two.cn("comment", "pi/idea", "First words.")
    at.type("c")
    at.answer("comment", "Second words.\r")
    at.expect("valid-triage: void")
    at.answer(ASK, "q")
    at.expect("nothing was written")
    assert at.end() == 0
    assert "> Second words." in thread(other, "idea").read_text().partition("## Set aside")[2]


def test_the_editor_decides_as_a_section_does(calm: Node, tmp_path: Path) -> None:
    section = "\n---\n\n## Triage\n\ndecision: delete:no\nactor: sigma\ntimestamp: 2026-02-05\n"
    (tmp_path / "section").write_text(section)
    at = review(calm, "pi/idea", editor=f"sh -c 'cat {tmp_path}/section >>\"$1\"' -")
    at.answer(ASK, "e")
    at.expect("pi/idea: delete:no (final)")
    at.answer(ASK, "u")
    at.expect("taken back")
    at.answer(ASK, "r")  # no key of a proposal's
    at.answer(ASK, "s")
    at.answer(ASK, "q")
    at.expect("nothing was written")
    assert at.end() == 0
    (tmp_path / "section").write_text("Thanks,\nbut no.\n")
    at = review(calm, "pi/what-licence", editor=f"sh -c 'cat {tmp_path}/section >>\"$1\"' -")
    at.answer(ASK, "r")
    at.answer("reply", "e\r")
    at.expect("pi/what-licence: do:reply:re-what-licence (final)")
    assert thread(calm, "what-licence").read_text().endswith("\n\nThanks,\nbut no.\n")
    at.answer(ASK, "u")
    at.expect("taken back")
    at.answer(ASK, "q")
    at.expect("nothing was written")
    assert at.end() == 0


def test_who_may_not_decide_is_told_at_once(calm: Node) -> None:
    at = review(calm, "--actor", "mallory")
    at.expect("mallory may not decide here")
    assert at.end() == 2
    at = review(calm, "pi/idea")
    at.answer(ASK, "g")
    at.answer("to (", "nobody\r")
    at.expect("nobody is neither a reviewer nor another peer")
    at.answer(ASK, "d")
    at.answer("why", "\r")  # not after all
    at.answer(ASK, "x")  # no key: the help
    at.answer(ASK, "e")
    at.expect("the editor ended with 1: false")
    at.answer(ASK, "q")
    at.expect("nothing was written")
    assert at.end() == 0


def test_what_a_run_carried_out_meanwhile_is_told_and_not_offered_again(two: Node) -> None:
    at = review(two)
    at.answer(ASK, "m")
    at.answer(ASK, "f")
    at.answer("what does it wait for", "the lawyer\r")
    at.answer("until", "3d\r")
    at.expect("that was the last")
    two.process()
    at.answer(ASK, "q")
    assert at.end() == 0
    told = at.text
    assert "✓ pi/idea: do:merge (final); now it is done: merged" in told
    assert "✓ pi/what-licence: defer:the lawyer (it stays); now it is deferred until " in told
    assert "run 'cn inbox process'" not in told
    assert "not yet executed" not in told


def test_what_waits_still_is_offered_beside_what_a_run_carried_out(two: Node) -> None:
    at = review(two)
    at.answer(ASK, "m")
    at.expect("u takes it back")
    two.process()
    at.answer(ASK, "f")
    at.answer("what does it wait for", "the lawyer\r")
    at.answer("until", "3d\r")
    at.answer(ASK, "q")
    told = at.answer("run 'cn inbox process' now?", "n")
    assert "✓ pi/idea: do:merge (final); now it is done: merged" in told
    assert "✓ pi/what-licence: defer:the lawyer (it stays); not yet executed" in told
    assert at.end() == 0


def test_interrupted_it_says_what_was_written(calm: Node) -> None:
    calm.triage("pi/what-licence", "defer:later")
    at = review(calm)
    assert "decided before: 1; 'cn inbox process' executes them" in at.answer(ASK, "m")
    at.answer(ASK, "\x03")
    at.expect("✓ pi/idea: do:merge (final); not yet executed")
    at.expect("interrupted")
    assert at.end() == 130
    assert "do:merge" in thread(calm, "idea").read_text()


def test_a_window_that_closes_loses_nothing(calm: Node) -> None:
    at = review(calm)
    at.answer(ASK, "m")
    at.expect(ASK)
    assert at.close() == -signal.SIGHUP
    assert "do:merge" in thread(calm, "idea").read_text()
    assert "decided: do:merge by sigma" in calm.cn("inbox").stdout


def test_a_dry_run_writes_nothing(calm: Node) -> None:
    before = thread(calm, "idea").read_bytes()
    at = review(calm, "pi/idea", "--dry-run")
    at.answer(ASK, "m")
    at.expect("would write 'do:merge' by sigma")
    at.answer(ASK, "\x04")
    at.expect("nothing was written")
    assert at.end() == 0
    assert thread(calm, "idea").read_bytes() == before


def test_without_a_terminal_it_says_what_to_use(calm: Node) -> None:
    for words in ((), ("--json",)):
        assert "'cn inbox triage' decides it" in calm.cn("review", *words, check=2).stderr
    at = review(calm, "--peer", "pi", "--actor", "sigma", "--json")
    at.expect("a review needs a terminal to ask on")
    assert at.end() == 2


def test_what_it_asks_fits_a_terminal_and_a_pager_says_how_to_go_on(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma, "idea-" * 14 + "end", {"docs/start.md": "begin\n" * 40})
    sigma.sync()
    for user, prompt in (({}, "[FRX -Ps?e(END) .q leads to the keys that decide$ 1]"), ({"LESS": "S"}, "[S 1]")):
        at = Terminal(sigma.root, "review", lines=24, columns=80, GIT_PAGER='cat; echo "[$LESS $LESSSECURE]"', **user)
        at.expect(prompt)
        at.answer(ASK, "?")
        at.answer(ASK, "q")
        assert at.end() == 0
        assert max(map(len, at.text.splitlines())) <= 80


def test_an_empty_inbox_ends_it(hub_template: Path) -> None:
    at = Terminal(hub_template, "review")
    at.expect("nothing waits for a decision")
    assert at.end() == 0


def test_what_main_holds_already_is_shown_as_that(two: Node) -> None:
    git(two.root, "fetch", "--quiet", str(two.home), "pi/idea")
    git(two.root, "merge", "--quiet", "--no-edit", "FETCH_HEAD")
    at = review(two, "pi/idea")
    assert "main already holds this: do:merge merges nothing more" in " ".join(at.answer(ASK, "q").split())
    assert at.end() == 0
