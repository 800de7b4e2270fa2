"""A hub whose configuration or main is not where it belongs: the true reason, and a way back that works."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from hubs import bare, cn, commit, git


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """A hub with an origin, synced twice."""
    cn("init", "sigma", "--path", tmp_path / "sigma", check=0)
    root = tmp_path / "sigma"
    git(root, "remote", "add", "origin", str(bare(tmp_path / "origin.git")))
    commit(root, {"state/note.md": "one\n"})
    cn("sync", root, check=0)
    cn("sync", root, check=0)
    return root


def remedies(text: str) -> list[str]:
    """The commands of git in a remedy, in order; what is in the quotes is what is typed."""
    return re.findall(r"'(git [^']+)'", text)


def typed(root: Path, text: str) -> list[str]:
    """Type every command of the remedy."""
    commands = remedies(text)
    assert commands, text
    for command in commands:
        done = subprocess.run(command, shell=True, cwd=root, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (command, done.stderr)
    return commands


class TestHubYamlIsMissing:
    """The file is gone from the work tree, and main has it."""

    def test_runs_go_on_and_say_so_once(self, hub: Path) -> None:
        (hub / ".cn/hub.yaml").unlink()
        done = cn("inbox", "sync", hub, check=0)
        assert ".cn/hub.yaml is missing from the work tree: what main has is in effect" in done.stdout
        for words in (("inbox", "sync", hub, "-q"), ("inbox", "process", hub, "-q")):
            quiet = cn(*words, check=0)
            assert (quiet.stdout, quiet.stderr) == ("", "")
        typed(hub, done.stdout)
        assert (hub / ".cn/hub.yaml").is_file()
        assert git(hub, "status", "--porcelain") == ""

    def test_status_and_doctor_name_the_way_back(self, hub: Path) -> None:
        (hub / ".cn/hub.yaml").unlink()
        inside = hub / "threads"
        status = cn("status", check=0, cwd=inside).stdout
        typed(hub, status)
        (hub / ".cn/hub.yaml").unlink()
        told = cn("doctor", check=1, cwd=inside).stdout
        command = next(line for line in told.splitlines() if " checkout main " in line).split("→")[1]
        subprocess.run(shlex.split(command), check=True, timeout=60)
        cn("doctor", check=0, cwd=inside)

    def test_no_hub_is_made_inside_of_it(self, hub: Path) -> None:
        for _ in range(2):
            for words in (("init", "pi"), ("init", "pi", "--path", "new/deep")):
                done = cn(*words, check=1, cwd=hub)
                assert f"is inside the hub {hub}" in done.stderr
            (hub / ".cn/hub.yaml").unlink(missing_ok=True)
        cn("init", "pi", "--path", hub.parent / "pi", check=0, cwd=hub)

    def test_a_hub_inside_another_is_not_taken_for_it(self, hub: Path) -> None:
        git(hub, "clone", "-q", ".", "inner")
        (hub / "inner/.cn/hub.yaml").unlink()
        assert "hub.yaml is missing" in cn("sync", check=0, cwd=hub / "inner").stdout

    def test_a_repository_that_is_no_hub_is_none(self, tmp_path: Path) -> None:
        git(tmp_path, "init", "-q", "-b", "main", "plain")
        commit(tmp_path / "plain", {"a": "b"})
        assert "no hub at" in cn("sync", tmp_path / "plain", check=3).stderr
