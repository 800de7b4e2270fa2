"""The name of a clone: one for each, also of a folder that was copied, and the same where it was moved."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cn.git.repository import open_hub
from cn.transaction.push import clone_id
from tests.support.hubs import git
from tests.support.world import Node


@pytest.fixture
def name(sigma: Node) -> str:
    return clone_id(open_hub(sigma.root))


def test_it_stays(sigma: Node, name: str) -> None:
    assert len(name) == 8
    assert clone_id(open_hub(sigma.root)) == name == clone_id(open_hub(sigma.root), make=False)


def test_a_copy_gets_one_of_its_own(sigma: Node, name: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(sigma.root, copy, symlinks=True)
    assert clone_id(open_hub(copy), make=False) == ""
    hub = open_hub(copy)
    new = clone_id(hub)
    assert new != name
    assert clone_id(hub) == new, "asked twice in a run"
    assert clone_id(open_hub(copy)) == new
    assert clone_id(open_hub(sigma.root)) == name


def test_a_hub_that_is_moved_keeps_it(sigma: Node, name: str, tmp_path: Path) -> None:
    moved = sigma.root.rename(tmp_path / "moved")
    assert clone_id(open_hub(moved)) == name
    # Another one at the old place changes nothing.
    shutil.copytree(moved, sigma.root, symlinks=True)
    git(sigma.root, "config", "cn.clone", "00000000")
    assert clone_id(open_hub(moved)) == name


def test_all_work_trees_of_a_clone_have_one(sigma: Node, name: str, tmp_path: Path) -> None:
    git(sigma.root, "worktree", "add", "-q", "--detach", str(tmp_path / "tree"))
    assert clone_id(open_hub(tmp_path / "tree")) == name
