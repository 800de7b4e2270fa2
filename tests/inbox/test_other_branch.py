"""A decision while another branch than main is checked out: it waits where git takes it along, else none is written."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.hubs import commit, git, try_git
from tests.support.world import Node, World, is_in_main


def _steps(said: str) -> list[str]:
    """The commands of a shell and of git that a remedy has, in their order."""
    return re.findall(r"'((?:git|mv) [^']*)'", " ".join(said.split()))


def _type(node: Node, steps: list[str]) -> None:
    for step in steps:
        done = subprocess.run(step, shell=True, cwd=node.root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (step, done.stderr)


def _file(node: Node) -> Path:
    return node.root / "threads/inbox" / node.only_thread()


def test_what_is_decided_where_the_branch_has_mains_file_goes_along(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    git(sigma.root, "switch", "-q", "-c", "mine")
    commit(sigma.root, {"notes.md": "mine\n"}, "mine")
    assert "it waits until HEAD is main again" in sigma.triage("pi/proposal", "do:merge").stdout
    assert _steps(sigma.cn("status").stdout) == ["git switch main"]
    git(sigma.root, "switch", "-q", "main")
    sigma.process()
    assert is_in_main(sigma, head)


@pytest.mark.parametrize("has_it", [False, True], ids=["older than the thread", "older than words in it"])
def test_where_git_takes_no_decision_to_main_nothing_is_written(
    world: World, sigma: Node, pi: Node, *, has_it: bool
) -> None:
    head = world.propose(pi, sigma)
    if not has_it:
        git(sigma.root, "branch", "old")
    sigma.sync()
    if has_it:
        git(sigma.root, "branch", "old")
        sigma.cn("comment", "pi/proposal", "Why?")
    path = _file(sigma).relative_to(sigma.root)
    git(sigma.root, "switch", "-q", "old")
    for words in (["--dry-run"], []):
        for decision in ("do:merge", "defer:later"):
            done = sigma.triage("pi/proposal", decision, *words, check=1)
            assert f"HEAD is old, where {path} is not as in main" in done.stderr
            assert "nothing was decided" in done.stderr
            assert _steps(done.stderr) == ["git switch main"]
            assert git(sigma.root, "status", "--porcelain") == ""
    _type(sigma, _steps(done.stderr))
    sigma.cn("inbox", "show", "pi/proposal")
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)


WAYS = {
    "untracked": (),
    "ignored": (),
    "added": ("add",),
    "removed from the index": ("rm", "-q", "--cached"),
    "edited": (),
    "staged": ("add",),
}
"""What a person did to the file after the decision was written into it, by git."""


@pytest.mark.parametrize("way", WAYS)
def test_what_lies_in_the_way_already_goes_to_main_by_the_steps_that_are_printed(
    world: World, sigma: Node, pi: Node, way: str
) -> None:
    head = world.propose(pi, sigma)
    has_it = way in ("removed from the index", "edited", "staged")
    if has_it:
        sigma.sync()
        git(sigma.root, "branch", "old")
        commit(sigma.root, {str(_file(sigma).relative_to(sigma.root)): f"{_file(sigma).read_text()}\n"}, "touched")
        git(sigma.root, "push", "-q", "origin", "main")
    else:
        git(sigma.root, "branch", "old")
        sigma.sync()
    file = _file(sigma)
    text = file.read_text()
    git(sigma.root, "switch", "-q", "old")
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text(text)
    sigma.write_triage(file.name, "do:merge")
    decided = file.read_text()
    if WAYS[way]:
        git(sigma.root, *WAYS[way], str(file))
    if way == "ignored":
        (sigma.root / ".git/info").mkdir(exist_ok=True)
        (sigma.root / ".git/info/exclude").write_text(f"{file.name}\n")
    if way != "ignored":  # git overwrites it
        assert try_git(sigma.root, "switch", "main").returncode != 0
    refused = sigma.triage("pi/proposal", "defer:later", check=1).stderr
    assert file.read_text() == decided
    steps = _steps(sigma.cn("status").stdout)
    assert steps == _steps(refused)
    assert steps == _steps(sigma.process(check=1).stderr)
    assert "git switch main" in steps
    assert ("git restore" in " ".join(steps)) == (way in ("added", "removed from the index", "staged"))
    _type(sigma, steps)
    assert file.read_text() == decided
    assert "HEAD is" not in sigma.cn("status").stdout
    sigma.process()
    assert is_in_main(sigma, head)
    assert git(sigma.root, "status", "--porcelain") == ""


def test_what_main_has_no_more_is_only_put_aside(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    git(sigma.root, "branch", "old")
    file = _file(sigma)
    sigma.decide("pi/proposal", "delete:no use")
    git(sigma.root, "switch", "-q", "old")
    file.write_text(f"{file.read_text()}\nmine\n")
    assert try_git(sigma.root, "switch", "main").returncode != 0
    steps = _steps(sigma.cn("status").stdout)
    _type(sigma, steps)
    assert not file.exists()
    assert file.with_name(f"{file.name}.kept").read_text().endswith("\nmine\n")
    assert "HEAD is" not in sigma.cn("status").stdout
    sigma.process()


def test_from_a_branch_without_a_commit_goes_what_was_changed_alone(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma, "one")
    head = world.propose(pi, sigma, "two")
    sigma.sync()
    git(sigma.root, "checkout", "-q", "--orphan", "new")
    (file,) = (sigma.root / "threads/inbox").glob("*-pi-two.md")
    sigma.write_triage(file.name, "do:merge")
    decided = file.read_text()
    steps = _steps(sigma.cn("status").stdout)
    assert steps == [f"mv -- {file} {file}.kept", "git switch main", f"mv -- {file}.kept {file}"]
    _type(sigma, steps)
    assert file.read_text() == decided
    sigma.process()
    assert is_in_main(sigma, head)
