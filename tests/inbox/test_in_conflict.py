"""A stash met a colleague's change in a thread: what became void is named, and so is what settles the conflict."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from cn.git.repository import open_hub
from cn.git.unmerged import find_unmerged
from tests.support.hubs import commit, fetch, git, push
from tests.support.world import Node, World

IN_CONFLICT = "is in conflict in git's index: git commits and pulls nothing before that is settled"


@pytest.fixture
def colleague(world: World, sigma: Node, pi: Node) -> Node:
    """Another clone of sigma's; in both the same thread waits, and was shown."""
    world.propose(pi, sigma, "fix")
    sigma.sync()
    two = world.second(sigma)
    for node in (sigma, two):
        node.cn("inbox", "show", "pi/fix")
    return two


def pull(node: Node) -> None:
    """As people do who have an edit lying about."""
    words = ("pull", "--quiet", "--rebase", "--autostash", "origin", "main")
    done = subprocess.run(["git", *words], cwd=node.root, capture_output=True, text=True, timeout=60, check=False)
    assert "Applying autostash resulted in conflicts" in done.stdout + done.stderr


def told(node: Node, path: str) -> str:
    """The step that status and doctor name, which is one."""
    status = " ".join(node.cn("status").stdout.split())
    doctor = " ".join(node.cn("doctor", check=1).stdout.split())
    assert node.cn("status", "--check", check=1)
    found = [
        re.search(rf"{re.escape(path)} {IN_CONFLICT}.*?→ (.*?) (?:\d pending|nothing|info)", said)
        for said in (status, doctor)
    ]
    steps = [match[1] for match in found if match]
    assert len(steps) == 2, (status, doctor)
    assert steps[0].startswith(steps[1]) or steps[1].startswith(steps[0]), steps
    return steps[0]


def is_settled(node: Node) -> None:
    """Nothing is told any more, and git commits."""
    assert IN_CONFLICT not in node.cn("status").stdout + node.cn("doctor").stdout
    assert find_unmerged(open_hub(node.root)) == []
    commit(node.root, {"docs/mine.md": "mine\n"}, "Mine")


def test_the_decision_that_became_void_is_refused_and_logged_and_not_the_one_that_was_executed(
    sigma: Node, colleague: Node
) -> None:
    sigma.triage("pi/fix", "delete:nope")
    colleague.decide("pi/fix", "defer:hold", "--until", "3d")
    pull(sigma)
    (name,) = [path.name for path in (sigma.root / "threads/inbox").glob("*-pi-fix.md")]
    assert "'cn inbox process' settles it" in told(sigma, f"threads/inbox/{name}")
    done = sigma.process(check=1)
    assert "pi/fix: delete:nope is refused: valid-triage: void: git left the marks of a conflict" in done.stderr
    assert "stays staged" not in done.stdout + done.stderr
    rows = git(sigma.root, "show", "-p", "--format=", "HEAD", "--", "logs")
    assert "| delete:nope | refused: valid-triage" in rows
    assert "defer:hold" not in "".join(line for line in rows.splitlines() if line.startswith("+"))
    text = sigma.thread(name)
    assert "> decision: delete:nope" in text
    assert "✓ deferred" in text
    sigma.sync()
    sigma.idle()
    is_settled(sigma)


def test_a_conflict_that_somebody_mended_in_the_thread_is_settled_by_the_decision(sigma: Node, colleague: Node) -> None:
    sigma.triage("pi/fix", "delete:nope")
    colleague.decide("pi/fix", "defer:hold", "--until", "3d")
    pull(sigma)
    (path,) = (sigma.root / "threads/inbox").glob("*-pi-fix.md")
    main = git(sigma.root, "show", f"main:threads/inbox/{path.name}") + "\n"
    path.write_text(main)
    assert told(sigma, f"threads/inbox/{path.name}").startswith(f"'git add -- threads/inbox/{path.name}' settles it")
    sigma.cn("inbox", "show", "pi/fix")
    sigma.decide("pi/fix", "delete:nope")
    assert path.name in sigma.done()
    is_settled(sigma)


def test_of_a_thread_that_ended_meanwhile_the_decision_and_the_way_back_to_main_are_named(
    sigma: Node, colleague: Node
) -> None:
    sigma.triage("pi/fix", "do:merge")
    colleague.decide("pi/fix", "delete:no")
    pull(sigma)
    (path,) = (sigma.root / "threads/inbox/done").glob("*-pi-fix.md")
    step = told(sigma, f"threads/inbox/done/{path.name}")
    assert "do:merge in it decides nothing, the thread has ended" in sigma.cn("status").stdout
    (restore,) = re.findall(r"'(git restore [^']+)'", step)
    sigma.process()
    subprocess.run(restore.split(), cwd=sigma.root, check=True, timeout=60)
    assert "<<<<<<<" not in path.read_text()
    assert "decision: do:merge" in git(sigma.root, "stash", "show", "-p"), "nothing is lost"
    is_settled(sigma)


def test_a_thread_of_ours_is_mended_and_added(sigma: Node, colleague: Node) -> None:
    sigma.cn("adhoc", "Plans")
    (path,) = (sigma.root / "threads/adhoc").glob("*plans*.md")
    here = str(path.relative_to(sigma.root))
    fetch(colleague.root, colleague.url, "main")
    git(colleague.root, "reset", "-q", "--hard", "FETCH_HEAD")
    commit(colleague.root, {here: path.read_text() + "theirs\n"}, "Theirs")
    push(colleague.root, colleague.url, "main")
    path.write_text(path.read_text() + "mine\n")
    pull(sigma)
    step = told(sigma, here)
    assert step.startswith(f"take git's marks out of it, then 'git add -- {here}' settles it")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if line[:7] not in ("<" * 7, "=" * 7, ">" * 7)))
    assert told(sigma, here).startswith(f"'git add -- {here}' settles it")
    git(sigma.root, "add", "--", here)
    is_settled(sigma)


def test_every_format_of_an_index_is_read(sigma: Node, colleague: Node, tmp_path: Path) -> None:
    colleague.decide("pi/fix", "defer:hold", "--until", "3d")
    sigma.triage("pi/fix", "delete:nope")
    pull(sigma)
    (path,) = (sigma.root / "threads/inbox").glob("*-pi-fix.md")
    for version in ("2", "3", "4"):
        git(sigma.root, "update-index", "--index-version", version)
        assert find_unmerged(open_hub(sigma.root)) == [f"threads/inbox/{path.name}"]


def test_a_merge_that_is_open_is_told_as_that_alone(sigma: Node, colleague: Node) -> None:
    sigma.cn("adhoc", "Plans")
    (path,) = (sigma.root / "threads/adhoc").glob("*plans*.md")
    base, here = git(sigma.root, "rev-parse", "HEAD"), str(path.relative_to(sigma.root))
    commit(sigma.root, {here: "mine\n"}, "Mine")
    git(sigma.root, "branch", "mine")
    git(sigma.root, "reset", "-q", "--hard", base)
    commit(sigma.root, {here: "theirs\n"}, "Theirs")
    subprocess.run(["git", "merge", "-q", "mine"], cwd=sigma.root, capture_output=True, timeout=60, check=False)
    assert find_unmerged(open_hub(sigma.root)) == [here]
    said = sigma.cn("status", check=None).stdout + sigma.cn("doctor", check=1).stdout
    assert IN_CONFLICT not in said
    assert "a merge is open" in said


@pytest.mark.parametrize(
    "words", [("inbox", "process"), ("inbox", "triage", "pi/fix", "do:merge"), ("comment", "pi/fix", "Yes")]
)
def test_a_note_that_came_back_in_conflict_is_kept_and_the_thread_is_written_anew(
    sigma: Node, colleague: Node, words: tuple[str, ...]
) -> None:
    (path,) = (sigma.root / "threads/inbox").glob("*-pi-fix.md")
    path.write_text(path.read_text().replace("<!-- To decide", "A note of mine.\n\n<!-- To decide"))
    colleague.cn("comment", "pi/fix", "Why?", check=0)
    pull(sigma)
    assert "<<<<<<<" in path.read_text()
    assert "'cn inbox process' settles it" in told(sigma, f"threads/inbox/{path.name}")
    done = sigma.cn(*words, check=1 if words[-1] == "do:merge" else 0)  # a comment decides nothing, and goes out
    assert "git left the marks of a conflict in the thread" in done.stdout + done.stderr
    if words[-1] == "do:merge":  # it writes the file alone
        step = f"git add -- threads/inbox/{path.name}"
        assert f"'{step}' settles it" in " ".join(sigma.cn("status").stdout.split())
        git(sigma.root, *step.split()[1:])
    text = path.read_text()
    assert "> A note of mine." in text
    assert text.count("\n> Why?\n") == 1
    assert "<<<<<<<" not in text
    assert text.count("<!-- To decide") == 1
    sigma.sync()
    is_settled(sigma)
    sigma.decide("pi/fix", "do:merge")
    assert not sigma.threads()
