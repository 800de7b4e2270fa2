"""A hub of another user's: git refuses to work there, and so does cn."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.hubs import cn, git
from tests.support.world import Node

OTHER = 4_000_001
"""The id of a user that nobody is."""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


def give(node: Node, *files: Path) -> None:
    """The hub is the other user's now, or only these of its files."""
    for path in files or [node.root, *node.root.rglob("*")]:
        os.lchown(path, OTHER, OTHER)


@pytest.mark.parametrize("part", [(), ("",), (".git",)], ids=["all", "folder", "repository"])
def test_what_another_user_configured_is_not_run(sigma: Node, tmp_path: Path, part: tuple[str, ...]) -> None:
    mark = tmp_path / "ran"
    git(sigma.root, "config", "cn.wake", f"touch {mark}")
    for _ in range(3):
        sigma.sync()
    mark.unlink(missing_ok=True)
    give(sigma, *(sigma.root / name for name in part))
    for words in (["sync"], ["status"], ["doctor"], ["agent"], ["inbox", "process"]):
        done = sigma.cn(*words, check=3)
        assert "dubious ownership" in done.stderr, done.stderr
        assert f"'git config --global --add safe.directory {sigma.root}'" in done.stderr
        assert done.stdout == ""
    assert not mark.exists()


def test_a_hub_that_is_said_to_be_safe_is_worked_in(sigma: Node, tmp_path: Path) -> None:
    give(sigma)
    config = tmp_path / "gitconfig"
    subprocess.run(["git", "config", "--file", config, "safe.directory", str(sigma.root)], check=True, timeout=60)
    sigma.cn("status", env={"GIT_CONFIG_GLOBAL": str(config)}, check=0)


def test_a_folder_above_that_is_another_users_is_not_searched(sigma: Node) -> None:
    (sigma.root / ".cn/hub.yaml").unlink()
    give(sigma)
    (below := sigma.root / "below").mkdir()
    assert "no hub at" in cn("status", cwd=below, check=3).stderr


@pytest.mark.parametrize("with_repository", [False, True])
def test_a_file_of_another_users_in_a_folder_above_makes_no_hub(tmp_path: Path, with_repository: bool) -> None:
    (tmp_path / ".cn").mkdir()
    (tmp_path / ".cn/hub.yaml").touch()
    if with_repository:
        git(tmp_path, "init", "-q")
    for path in (tmp_path / ".cn", *tmp_path.rglob("*")):
        os.lchown(path, OTHER, OTHER)
    cn("init", "foo", cwd=tmp_path, check=0)
    assert (tmp_path / "cn-foo/.cn/hub.yaml").is_file()
