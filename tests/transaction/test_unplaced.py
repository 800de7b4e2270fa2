"""What cannot be brought to the work tree is remembered, told once, and brought there later."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack

import pytest

from tests.loop.test_idle_check import is_short, note
from tests.support.hubs import git, read
from tests.support.permission import closed, obedient
from tests.support.world import Node, World, content

PLACES = ("threads/inbox", "threads/inbox/done", "logs/inbox", "docs")


def decided(world: World, sigma: Node, pi: Node, decision: str = "do:merge") -> str:
    """A thread that waits to be executed; its name."""
    world.propose(pi, sigma)
    sigma.sync()
    name = sigma.only_thread()
    sigma.triage("pi/proposal", decision)
    return name


def standing(node: Node) -> list[str]:
    return [one["text"] for one in json.loads(node.cn("status", "--json").stdout)["standing"]]


def test_folders_that_cannot_be_written_are_caught_up_with(world: World, sigma: Node, pi: Node) -> None:
    """One by one: test_a_place_without_permission_is_an_error_and_nothing_more."""
    decided(world, sigma, pi)
    with ExitStack() as stack:
        for place in PLACES:
            stack.enter_context(closed(sigma.root / place))
        done = obedient(sigma, "inbox", "process")
        assert done.returncode == 1
        assert [f"let cn write in {place}/" for place in PLACES if place not in done.stderr] == []
        again = obedient(sigma, "inbox", "process")
        assert (again.returncode, again.stderr) == (0, ""), "told once"
        assert len(standing(sigma)) == len(PLACES)
        assert json.loads(sigma.cn("status", "--json").stdout)["unknown_files"] == [], "what is cn's own"
        assert "is no thread cn knows" not in sigma.cn("doctor", check=None).stdout
        assert all(text.startswith("the work tree is behind main at ") for text in standing(sigma))
    assert "brought to the work tree after all" in sigma.cn("inbox", "process").stdout
    assert git(sigma.root, "status", "--porcelain") == ""
    assert standing(sigma) == []
    assert [row[2] for row in sigma.rows() if row[1] == "do:merge"] == ["✓ merged SHA"]
    assert sigma.threads() == []
    assert not (sigma.root / ".git/cn/unplaced").exists()


def test_what_a_person_puts_there_meanwhile_stays(world: World, sigma: Node, pi: Node) -> None:
    decided(world, sigma, pi)
    with closed(sigma.root / "docs"):
        obedient(sigma, "inbox", "process")
    (sigma.root / "docs/proposal.md").write_text("mine\n")
    told = sigma.process().stdout
    assert "docs/proposal.md was changed here meanwhile: your text stays" in told
    assert "brought to the work tree after all: docs/proposal.md" not in told
    assert (sigma.root / "docs/proposal.md").read_text() == "mine\n"
    assert content(sigma, "docs/proposal.md") == b"proposal\n"
    assert sigma.process().stdout == ""


def test_a_decision_on_what_main_has_is_told_as_nothing_else(world: World, sigma: Node, pi: Node) -> None:
    name = decided(world, sigma, pi, "defer:later")
    with closed(sigma.root / "threads/inbox"):
        obedient(sigma, "inbox", "process")
    sigma.triage("pi/proposal", "delete:no")
    text = (sigma.root / "threads/inbox" / name).read_bytes()
    main = read(sigma.root, f"main:threads/inbox/{name}").partition(b"<!--")[0]
    assert text.startswith(main.rstrip()), "an edit of main's"
    done = sigma.process()
    assert "meanwhile" not in done.stdout
    assert "after all" not in done.stdout
    assert [row[2] for row in sigma.rows() if row[1] == "delete:no"] == ["✓ discarded"]
    assert standing(sigma) == []
    assert git(sigma.root, "status", "--porcelain") == ""


ORDINARY = (
    ["commit", "--quiet", "--all", "--allow-empty", "--message", "mine"],
    ["add", "--all"],
    ["commit", "--quiet", "--allow-empty", "--message", "mine"],
    ["stash", "--quiet"],
    ["stash", "pop", "--quiet"],
    ["checkout", "--quiet", "--", "."],
    ["reset", "--quiet", "--hard"],
    ["switch", "--quiet", "--create", "aside"],
    ["switch", "--quiet", "main"],
    ["commit", "--quiet", "--all", "--allow-empty", "--message", "mine"],
)


@pytest.mark.sliced(2)
@pytest.mark.parametrize("old", [False, True], ids=["new", "old"])
def test_no_ordinary_git_command_takes_out_of_main_what_was_never_placed(
    world: World, sigma: Node, pi: Node, old: bool
) -> None:
    """Neither the file that is absent here, nor the newer version of one that lies here."""
    path = "docs/start.md" if old else "docs/proposal.md"
    world.propose(pi, sigma, "proposal", {path: "new\n", "docs/other.md": "new\n"})
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    with closed(sigma.root / "docs"):
        obedient(sigma, "inbox", "process")
        assert git(sigma.root, "status", "--porcelain") == "", "not even a person who looks thinks of an edit"
        for words in ORDINARY:
            if words[0] != "switch" and "pop" not in words:
                (sigma.root / "spec/SOUL.md").write_text(f"# {words}\n")
            git(sigma.root, *words)
            obedient(sigma, "inbox", "process")
            obedient(sigma, "save")
        assert content(sigma, path) == content(sigma, "docs/other.md") == b"new\n"
    sigma.process()
    assert (sigma.root / path).read_text() == (sigma.root / "docs/other.md").read_text() == "new\n"
    assert "S " not in git(sigma.root, "ls-files", "-t"), "what lies here is git's to watch again"
    assert git(sigma.root, "status", "--porcelain") == ""
    (sigma.root / path).write_text("mine\n")
    assert path in git(sigma.root, "status", "--porcelain")


@pytest.mark.full
def test_what_main_changes_meanwhile_is_what_is_brought(world: World, sigma: Node, pi: Node) -> None:
    decided(world, sigma, pi)
    with closed(sigma.root / "docs"):
        obedient(sigma, "inbox", "process")
        world.propose(pi, sigma, "more", {"docs/proposal.md": "better\n"})
        obedient(sigma, "sync")
        sigma.triage("pi/more", "do:merge")
        done = obedient(sigma, "inbox", "process")
        assert "pi/more: do:merge" in done.stdout, (done.stdout, done.stderr)
    sigma.process()
    assert (sigma.root / "docs/proposal.md").read_text() == "better\n"
    assert git(sigma.root, "status", "--porcelain") == ""


def test_an_old_thread_that_could_not_be_replaced_decides_nothing_and_is_not_committed(
    world: World, sigma: Node, pi: Node
) -> None:
    name = decided(world, sigma, pi, "defer:later")
    path = f"threads/inbox/{name}"
    with closed(sigma.root / "threads/inbox"):
        obedient(sigma, "inbox", "process")
        main = read(sigma.root, f"main:{path}")
        assert (sigma.root / path).read_bytes() != main
        obedient(sigma, "inbox", "process")
        assert "nothing to commit" in obedient(sigma, "commit").stdout
        assert read(sigma.root, f"main:{path}") == main
    sigma.process()
    assert [row[2] for row in sigma.rows() if row[1] == "defer:later"] == ["✓ deferred"]
    assert (sigma.root / path).read_bytes() == main


def test_a_thread_that_arrives_where_nobody_can_write(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    with closed(sigma.root / "threads/inbox"):
        done = obedient(sigma, "sync")
        assert done.returncode == 1
        assert "received pi/proposal" in done.stdout
        for _ in range(2):
            assert obedient(sigma, "sync").returncode == 0, "told once"
        assert not note(sigma).exists(), "what could not be written keeps the runs ordinary"
    for _ in range(3):
        sigma.sync()
    assert len(sigma.threads()) == 1
    assert is_short(sigma)


@pytest.mark.full
def test_a_folder_that_cannot_even_be_looked_into(world: World, sigma: Node, pi: Node) -> None:
    decided(world, sigma, pi)
    with closed(sigma.root / "docs", 0o000):
        # What lies there may be anybody's: the merge waits.
        done = obedient(sigma, "inbox", "process")
        assert done.returncode == 1
        assert "docs/proposal.md" in done.stderr
    sigma.process()
    assert git(sigma.root, "status", "--porcelain") == ""
    assert (sigma.root / "docs/proposal.md").read_text() == "proposal\n"


@pytest.mark.sliced(3)
@pytest.mark.parametrize("kind", ["folder", "symlink", "pipe"])
def test_what_is_no_file_in_the_place_of_a_thread_is_told_once_and_stands(
    world: World, sigma: Node, pi: Node, kind: str
) -> None:
    world.propose(pi, sigma)
    for _ in range(3):
        sigma.sync()
    assert is_short(sigma)
    path = sigma.root / "threads/inbox" / sigma.only_thread()
    text = path.read_bytes()
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/etc/hostname")
    told = sigma.sync(check=1).stderr
    name = {"pipe": "no file"}.get(kind, f"a {kind}")
    assert f"threads/inbox/{path.name} is {name} in the work tree" in told
    assert f"move threads/inbox/{path.name} out of the way" in told
    assert sigma.sync().stderr == "", "told once"
    assert sigma.cn("inbox", "process").stderr == ""
    (stands,) = standing(sigma)
    assert stands.startswith(f"threads/inbox/{path.name} is ")
    path.rename(sigma.root / "docs-aside")
    sigma.sync()
    assert path.read_bytes() == text
    assert standing(sigma) == []
