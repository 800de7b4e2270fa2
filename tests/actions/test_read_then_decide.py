"""What a person decides by a command is about what they have read: a branch that moved since is not decided unseen."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cn.protocol.layout import MESSAGE
from cn.protocol.message import Message, format_message
from cn.values.names import Name
from tests.support.hubs import git, push, write_commit
from tests.support.world import Node, World, is_in_main


def message(sigma: Node, text: str) -> str:
    """A message of pi's with these words, in the place of one that is there; its head."""
    created = datetime(2026, 2, 5, 12, 0, tzinfo=UTC)
    mail = Message(MESSAGE, Name("pi"), Name("sigma"), text, created, f"{text}\n")
    head = write_commit(sigma.home, {"message.md": format_message(mail)})
    push(sigma.home, sigma.home, f"+{head}:refs/heads/pi/hello")
    return head


def shown(node: Node) -> list[str]:
    folder = node.root / ".git/cn/shown"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


class Case:
    """A proposal of pi's that was shown here, and then moved with the same subject."""

    def __init__(self, world: World, sigma: Node, pi: Node, *look: str) -> None:
        self.world, self.sigma, self.pi = world, sigma, pi
        self.first = world.propose(pi, sigma, files={"docs/a.md": "good\n"})
        sigma.sync()
        if look:
            sigma.cn(*look)
        self.second = world.propose(pi, sigma, files={"docs/a.md": "evil\n"}, force=True)
        sigma.sync()
        assert self.first != self.second


SHOW = ("inbox", "show", "pi/proposal")
DECISIONS = [
    ("inbox", "triage", "pi/proposal", "do:merge"),
    ("inbox", "triage", "pi/proposal", "delete:no"),
    ("done", "pi/proposal"),
    ("done", "pi/proposal", "--dry-run"),
    ("done", "--all", "--yes"),
    ("delete", "pi/proposal", "--reason", "no"),
    ("defer", "pi/proposal", "--reason", "later"),
    ("delegate", "pi/proposal", "alice"),
]


@pytest.mark.sliced(2)
@pytest.mark.parametrize("words", DECISIONS)
def test_a_branch_that_moved_since_it_was_shown_is_not_decided(
    world: World, sigma: Node, pi: Node, words: tuple[str, ...]
) -> None:
    sigma.configure("reviewers: [alice]\n")
    case = Case(world, sigma, pi, *SHOW)
    before = sigma.main, sigma.thread(sigma.only_thread())
    done = sigma.cn(*words, check=1)
    assert f"pi/proposal has moved since it was shown: from {case.first[:8]} to {case.second[:8]}" in done.stderr
    assert f"'cn inbox show pi/proposal' shows what is there now; '--head {case.second[:8]}'" in done.stderr
    assert (sigma.main, sigma.thread(sigma.only_thread())) == before
    sigma.cn(*SHOW)
    assert f"; head {case.second[:8]}" in sigma.cn(*words).stdout + sigma.cn("log").stdout or "--dry-run" in words


@pytest.mark.parametrize("look", [SHOW, ("thread", "show", "pi/proposal"), (*SHOW, "--json")])
def test_each_command_that_shows_a_thread_counts(world: World, sigma: Node, pi: Node, look: tuple[str, ...]) -> None:
    case = Case(world, sigma, pi, *look)
    assert "has moved since" in sigma.triage("pi/proposal", "do:merge", check=1).stderr
    sigma.cn(*look)
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, case.second)


def test_a_list_shows_nothing_and_neither_does_another_clone(world: World, sigma: Node, pi: Node) -> None:
    case = Case(world, sigma, pi, *SHOW)
    other = world.second(sigma)
    other.sync()
    for words in (("inbox",), ("thread", "list"), ("status",), (*SHOW, "-q")):
        sigma.cn(*words)
    other.cn(*SHOW)
    assert "has moved since" in sigma.triage("pi/proposal", "do:merge", check=1).stderr
    assert f"head {case.second[:8]}" in other.triage("pi/proposal", "do:merge").stdout
    assert "refs/cn" not in git(sigma.root, "ls-tree", "-r", "--name-only", "main")
    assert git(sigma.root, "status", "--short") == ""


def test_what_no_command_has_shown_is_decided_and_its_head_is_told(world: World, sigma: Node, pi: Node) -> None:
    case = Case(world, sigma, pi)
    told = f"head {case.second[:8]}"
    assert told in sigma.triage("pi/proposal", "do:merge", "--dry-run").stdout
    assert told in sigma.triage("pi/proposal", "do:merge").stdout
    assert f"pi/proposal: delete by sigma; {told}" in sigma.cn("delete", "pi/proposal").stdout


@pytest.mark.parametrize("words", [("inbox", "triage", "pi/proposal", "do:merge"), ("done", "pi/proposal")])
def test_who_says_the_head_decides_about_that_one_alone(
    world: World, sigma: Node, pi: Node, words: tuple[str, ...]
) -> None:
    case = Case(world, sigma, pi, *SHOW)
    done = sigma.cn(*words, "--head", case.first, check=1)
    assert f"pi/proposal is at {case.second[:8]}, not at {case.first[:8]}: nothing was decided" in done.stderr
    for wrong in (case.second[:6], "HEAD", case.second.upper(), ""):
        assert "--head" in sigma.cn(*words, "--head", wrong, check=2).stderr
    assert f"head {case.second[:8]}" in sigma.cn(*words, "--head", case.second[:8]).stdout


def test_several_threads_are_not_decided_by_one_head(world: World, sigma: Node, pi: Node) -> None:
    case = Case(world, sigma, pi)
    assert "--head is for one thread" in sigma.cn("done", "--all", "--yes", "--head", case.second, check=2).stderr


def test_of_several_the_one_that_moved_is_named_and_the_others_are_decided(world: World, sigma: Node, pi: Node) -> None:
    Case(world, sigma, pi, *SHOW)
    world.propose(pi, sigma, "other")
    sigma.sync()
    done = sigma.cn("delete", "--all", "--yes", check=1)
    assert "refused: pi/proposal has moved since it was shown" in done.stderr
    assert "✓ pi/other: delete by sigma" in done.stdout


def test_a_reply_is_held_where_it_ends_the_thread(world: World, sigma: Node, pi: Node) -> None:
    Case(world, sigma, pi, *SHOW)
    assert "✓ pi/proposal: reply by sigma" in sigma.cn("reply", "pi/proposal", "Not so.").stdout, "it goes on waiting"
    message(sigma, "May I have the minutes?")
    sigma.sync()
    sigma.cn("inbox", "show", "pi/hello")
    second = message(sigma, "May I have the key?")
    sigma.sync()
    done = sigma.cn("reply", "pi/hello", "Yes.", check=1)
    assert f"to {second[:8]}; nothing was decided" in done.stderr
    sigma.cn("comment", "pi/hello", "Which one?")
    assert "✓ pi/hello: reply by sigma" in sigma.cn("reply", "pi/hello", "Yes.", "--head", second[:10]).stdout


def test_a_reply_that_waited_for_origin_is_about_what_it_was_written_for(
    world: World, sigma: Node, pi: Node, tmp_path: Path
) -> None:
    message(sigma, "One?")
    sigma.sync()
    sigma.cn("inbox", "show", "pi/hello")
    second = message(sigma, "Two?")
    sigma.sync()
    away = tmp_path / "away.git"
    sigma.home.rename(away)
    assert "nothing was decided" in sigma.cn("reply", "pi/hello", "Yes.", check=1).stderr
    assert "waits here" in sigma.cn("reply", "pi/hello", "Yes.", "--head", second).stdout
    away.rename(sigma.home)
    sigma.sync()
    assert sigma.threads() == [], "it was said about the head that was named"


def test_a_note_that_cannot_be_written_or_read_keeps_nobody_from_looking(world: World, sigma: Node, pi: Node) -> None:
    (sigma.root / ".git/cn").mkdir(exist_ok=True)
    (sigma.root / ".git/cn/shown").write_text("")
    Case(world, sigma, pi, *SHOW)
    sigma.triage("pi/proposal", "do:merge")
    (sigma.root / ".git/cn/shown").unlink()
    (sigma.root / ".git/cn/shown").mkdir()
    (sigma.root / ".git/cn/shown" / sigma.only_thread()).write_bytes(b"\xff nothing\n")
    sigma.triage("pi/proposal", "do:merge")


def test_notes_of_threads_that_are_done_are_swept(world: World, sigma: Node, pi: Node) -> None:
    Case(world, sigma, pi, *SHOW)
    world.propose(pi, sigma, "other")
    sigma.sync()
    sigma.cn("inbox", "show", "pi/other")
    assert len(shown(sigma)) == 2
    sigma.cn("delete", "pi/other", "--reason", "no")
    sigma.cn("inbox", "show", "pi/other")
    memory = sigma.root / ".git/cn/local.json"
    data = json.loads(memory.read_text())
    data["days"] = {}
    memory.write_text(json.dumps(data))
    (sigma.root / ".git/cn/idle").unlink(missing_ok=True)
    world.propose(pi, sigma, "third")
    sigma.sync()
    assert [name.split("-", 1)[1] for name in shown(sigma)] == ["pi-proposal.md"]
