"""A clone from before its project became a hub: whatever is asked there names the one step, and it works."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.hubs import bare, clone, cn, commit, git, tip, work

COMMANDS = (("status",), ("sync",), ("doctor",), ("init", "proj", "--here"), ("inbox",))


def remedies(text: str) -> list[str]:
    """The commands of git in it."""
    return re.findall(r"'(git pull --[^']*)'", text)


@pytest.fixture(params=["main", "master"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The clone; the project is a hub at origin since, and the clone has fetched nothing of it."""
    branch: str = request.param
    host, root = bare(tmp_path / "host/project.git", branch), work(tmp_path / "first", "Alice", branch)
    commit(root, {"app.py": "app\n"}, "Begin")
    git(root, "remote", "add", "origin", str(host))
    git(root, "push", "-q", "-u", "origin", branch)
    clone(host, tmp_path / "project", "Dan")
    cn("init", "proj", "--here", cwd=root, check=0)
    return tmp_path / "project"


def pulls(old: Path) -> None:
    """Type what is printed, and work."""
    branch = git(old, "symbolic-ref", "--short", "HEAD")
    cn("trust", cwd=old, check=1)
    cn("trust", "--yes", cwd=old, check=0)
    cn("sync", cwd=old, check=0)
    assert f"proj: {branch} at" in cn("status", cwd=old, check=0).stdout


@pytest.mark.parametrize("words", COMMANDS)
def test_what_was_fetched_is_named_with_the_pull_that_brings_it(old: Path, words: tuple[str, ...]) -> None:
    git(old, "fetch", "-q")
    branch = git(old, "symbolic-ref", "--short", "HEAD")
    done = cn(*words, cwd=old, check=3)
    assert f"{branch} here has no .cn/hub.yaml, and origin's has one" in done.stdout + done.stderr
    pull = f"git pull --no-rebase origin refs/heads/{branch}"
    assert pull in remedies(done.stdout + done.stderr)
    subprocess.run(pull.split(), cwd=old, check=True, capture_output=True, timeout=60)
    pulls(old)


def test_what_was_accepted_before_it_was_pulled_stays_accepted(old: Path) -> None:
    git(old, "fetch", "-q")
    cn("trust", cwd=old, check=1)
    cn("trust", "--yes", cwd=old, check=0)
    git(old, "pull", "-q", "--no-rebase", "origin", "HEAD")
    cn("sync", cwd=old, check=0)


def test_where_nothing_was_fetched_git_pull_is_named_and_init_makes_no_second_hub(old: Path) -> None:
    branch, before = git(old, "symbolic-ref", "--short", "HEAD"), tip(old)
    for words in (("status",), ("trust",), ("doctor",)):
        done = cn(*words, cwd=old, check=3)
        assert "where this project is a hub, 'git pull' brings what makes it one here" in done.stderr
    refused = cn("init", "proj", "--here", cwd=old, check=1).stderr
    assert f"{branch} at origin is a hub already" in refused
    assert tip(old) == before
    assert "no hub at" in cn("doctor", cwd=old, check=3).stderr, "what was refused left no trace of a hub"
    assert remedies(refused) == [f"git pull --no-rebase origin refs/heads/{branch}"]
    git(old, *remedies(refused)[0].split()[1:])
    pulls(old)


def test_a_project_that_is_no_hub_and_has_other_files_for_cn_is_pulled_before_it_becomes_one(tmp_path: Path) -> None:
    host, root = bare(tmp_path / "host/project.git", "main"), work(tmp_path / "first", "Alice", "main")
    commit(root, {"app.py": "app\n"}, "Begin")
    git(root, "remote", "add", "origin", str(host))
    git(root, "push", "-q", "-u", "origin", "main")
    other = clone(host, tmp_path / "other", "Dan")
    commit(root, {"spec/USER.md": "ours\n"}, "A page")
    git(root, "push", "-q", "origin", "main")
    refused = cn("init", "proj", "--here", cwd=other, check=1).stderr
    assert "origin's main has what was never here: protected files changed elsewhere" in refused
    assert remedies(refused) == ["git pull --no-rebase origin refs/heads/main"]
    git(other, *remedies(refused)[0].split()[1:])
    cn("init", "proj", "--here", cwd=other, check=0)
    cn("sync", cwd=other, check=0)
