"""What a person decides by a command is about what they have read: a branch that moved since is not decided unseen."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cn.git.repository import open_hub
from cn.protocol.layout import MESSAGE
from cn.protocol.message import Message, format_message
from cn.run.shown import read_shown, sweep_shown
from cn.system import session
from cn.values.names import Name
from tests.support.hubs import cn_env, git, push, write_commit
from tests.support.readers import alone, shell
from tests.support.world import Node, World, is_in_main


def message(sigma: Node, text: str) -> str:
    """A message of pi's with these words, in the place of one that is there; its head."""
    created = datetime(2026, 2, 5, 12, 0, tzinfo=UTC)
    mail = Message(MESSAGE, Name("pi"), Name("sigma"), text, created, f"{text}\n")
    head = write_commit(sigma.home, {"message.md": format_message(mail)})
    push(sigma.home, sigma.home, f"+{head}:refs/heads/pi/hello")
    return head


def notes(node: Node) -> Path:
    return node.root / f".git/cn/readers-{os.geteuid()}"


def shown(node: Node) -> list[str]:
    return sorted(path.name for path in notes(node).iterdir()) if notes(node).is_dir() else []


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
    assert f"'cn inbox show pi/proposal' shows what is there now; '--head {case.second}'" in done.stderr
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


@pytest.mark.parametrize("words", [("comment", "pi/proposal"), ("reply", "pi/proposal"), ("reply", "pi/hello")])
def test_what_is_said_is_about_what_was_read(world: World, sigma: Node, pi: Node, words: tuple[str, ...]) -> None:
    case = Case(world, sigma, pi, *SHOW)
    second = case.second
    if "pi/hello" in words:
        message(sigma, "May I have the minutes?")
        sigma.sync()
        sigma.cn("inbox", "show", "pi/hello")
        second = message(sigma, "May I have the key?")
        sigma.sync()
    nothing = "nothing was said" if "comment" in words else "nothing was decided"
    before = sigma.main
    done = sigma.cn(*words, "Yes.", check=1)
    assert f"to {second[:8]}; {nothing}" in done.stderr
    assert "--head" in done.stderr
    assert sigma.main == before
    assert f"is at {second[:8]}, not at" in sigma.cn(*words, "Yes.", "--head", case.first[:9], check=1).stderr
    assert f"✓ {words[1]}: {words[0]} by sigma" in sigma.cn(*words, "Yes.", "--head", second[:10]).stdout


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
    notes(sigma).write_text("")
    Case(world, sigma, pi, *SHOW)
    sigma.triage("pi/proposal", "do:merge")
    notes(sigma).unlink()
    sigma.cn(*SHOW)
    (note,) = (notes(sigma) / sigma.only_thread()).iterdir()
    for data in (b"\xff nothing\n", b"", b"1", b"x" * 500):
        note.write_bytes(data)
        sigma.triage("pi/proposal", "do:merge")


MERGE = ("inbox", "triage", "pi/proposal", "do:merge")


def test_what_a_program_was_shown_is_nothing_that_a_person_has_read(world: World, sigma: Node, pi: Node) -> None:
    first = world.propose(pi, sigma, files={"docs/a.md": "good\n"})
    sigma.sync()
    with shell(sigma.root) as person:
        assert "good" in person.cn(*SHOW).text
        second = world.propose(pi, sigma, files={"docs/a.md": "evil\n"}, force=True)
        sigma.sync()
        with shell(sigma.root) as program:
            assert "evil" in program.cn(*SHOW).text
            assert f"from {first[:8]} to {second[:8]}" in person.cn(*MERGE).text
        assert "evil" in alone(sigma.root, *SHOW).text
        for words in (MERGE, ("comment", "pi/proposal", "Yes."), ("done", "pi/proposal")):
            refused = person.cn(*words)
            assert refused.code == 1
            assert f"from {first[:8]} to {second[:8]}" in refused.text
        person.cn(*SHOW)
        assert person.cn(*MERGE).code == 0


def test_what_a_wake_looks_at_it_has_read_alone(world: World, sigma: Node, pi: Node) -> None:
    look = f"'{sys.executable}' -m cn inbox show pi/proposal"
    decide = f"'{sys.executable}' -m cn inbox triage pi/proposal do:merge --actor sigma"
    first = world.propose(pi, sigma, files={"docs/a.md": "good\n"})
    sigma.sync()
    alone(sigma.root, *SHOW)
    git(sigma.root, "config", "cn.wake", f"{look} && setsid -w {look}")
    second = world.propose(pi, sigma, files={"docs/a.md": "evil\n"}, force=True)
    assert "woke the agent" in sigma.sync().stdout
    refused = alone(sigma.root, *MERGE)
    assert (refused.code, f"from {first[:8]} to {second[:8]}" in refused.text) == (1, True)
    git(sigma.root, "config", "cn.wake", f"setsid -w {look} && setsid -w {decide}")
    third = world.propose(pi, sigma, files={"docs/a.md": "third\n"}, force=True)
    assert "woke the agent" in sigma.sync().stdout, "a wake is one reader, whatever sessions it starts"
    sigma.process()
    assert is_in_main(sigma, third)


def test_commands_that_each_have_a_session_are_one_reader(world: World, sigma: Node, pi: Node) -> None:
    first = world.propose(pi, sigma, files={"docs/a.md": "good\n"})
    sigma.sync()
    alone(sigma.root, *SHOW)
    second = world.propose(pi, sigma, files={"docs/a.md": "evil\n"}, force=True)
    sigma.sync()
    assert f"from {first[:8]} to {second[:8]}" in alone(sigma.root, *MERGE).text
    alone(sigma.root, *SHOW)
    assert alone(sigma.root, *MERGE).code == 0
    assert len(list((notes(sigma) / sigma.only_thread()).iterdir())) <= 2


def test_where_sessions_that_live_were_shown_different_heads_who_saw_none_says_which(
    world: World, sigma: Node, pi: Node
) -> None:
    first = world.propose(pi, sigma, files={"docs/a.md": "good\n"})
    sigma.sync()
    with shell(sigma.root) as person:
        person.cn(*SHOW)
        second = world.propose(pi, sigma, files={"docs/a.md": "evil\n"}, force=True)
        sigma.sync()
        alone(sigma.root, *SHOW)
        refused = alone(sigma.root, *MERGE)
        assert f"from {first[:8]} to {second[:8]}" in refused.text
        assert f"--head {second[:8]}" in refused.text
        assert alone(sigma.root, *MERGE, "--head", second[:8]).code == 0
    assert alone(sigma.root, *MERGE).code == 0, "that session is gone, and was not the latest"


def test_a_process_whose_shell_is_gone_is_in_its_session_still(world: World, sigma: Node, pi: Node) -> None:
    """As a wake command that works in the background does."""
    world.propose(pi, sigma, files={"docs/a.md": "good\n"})
    sigma.sync()
    cn, go, said = f"'{sys.executable}' -m cn", world.folder / "go", world.folder / "said"
    turn = f"{cn} inbox show pi/proposal; mkfifo '{go}'; read x < '{go}'; {cn} {' '.join(MERGE)}; echo end"
    words = ["sh", "-c", f"({turn}) > '{said}' 2>&1 & while ! [ -p '{go}' ]; do sleep 0.1; done"]
    subprocess.run(words, cwd=sigma.root, env=cn_env(), start_new_session=True, check=True)
    world.propose(pi, sigma, files={"docs/a.md": "evil\n"}, force=True)
    sigma.sync()
    with shell(sigma.root) as person:
        person.cn(*SHOW)
        go.write_text("go\n")
        while "\nend\n" not in said.read_text():
            time.sleep(0.05)
        assert "has moved since it was shown" in said.read_text()
        assert person.cn(*MERGE).code == 0


def test_what_another_user_was_shown_nobody_else_has_read(
    world: World, sigma: Node, pi: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    sigma.cn(*SHOW)
    hub, thread = open_hub(sigma.root), sigma.only_thread()
    assert len(read_shown(hub, thread)) == 1
    assert stat.S_IMODE(notes(sigma).stat().st_mode) == 0o700
    (note,) = (notes(sigma) / thread).iterdir()
    assert stat.S_IMODE(note.stat().st_mode) == 0o600
    monkeypatch.setattr(session, "user", lambda: 54321)
    assert read_shown(hub, thread) == frozenset()
    notes(sigma).rename(sigma.root / ".git/cn/readers-54321")
    assert read_shown(hub, thread) == frozenset(), "what somebody else put there is no note of ours"


def test_notes_for_a_whole_clone_of_an_older_cn_are_not_read_and_go(world: World, sigma: Node, pi: Node) -> None:
    Case(world, sigma, pi)
    (sigma.root / ".git/cn/trust-shown").write_text(f"{'0' * 64}\n")
    (sigma.root / ".git/cn/shown").mkdir()
    (sigma.root / ".git/cn/shown" / sigma.only_thread()).write_text(f"{'0' * 40}\n")
    sigma.triage("pi/proposal", "do:merge")
    sweep_shown(open_hub(sigma.root), ())
    assert not list((sigma.root / ".git/cn").glob("*shown"))


def test_notes_of_threads_that_are_done_are_swept(world: World, sigma: Node, pi: Node) -> None:
    Case(world, sigma, pi, *SHOW)
    for _ in range(3):
        alone(sigma.root, *SHOW)
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
