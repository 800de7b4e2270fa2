"""Submodules in a project that is a hub: cn brings what main says of them, and leaves what lies in their folders."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.support.hubs import bare, clone, commit, git, push, tip
from tests.support.world import Node, World

MODULE = "vendor/lib"
LET = ("-c", "protocol.file.allow=always")
"""git takes no submodule from this machine without it (CVE-2022-39253)."""


class Project:
    """A hub with a submodule, the repository behind that, and a colleague who works with plain git."""

    def __init__(self, world: World, node: Node) -> None:
        self.node, self.lib = node, bare(world.folder / "lib.git")
        self.work = clone(self.lib, world.folder / "libwork", "lia")
        self.first = self.release("1\n")
        self.other = clone(node.home, world.folder / "colleague", "cora")

    def release(self, text: str) -> str:
        made = commit(self.work, {"l.c": text})
        push(self.work, self.lib, "HEAD:refs/heads/main")
        return made

    def push(self, *words: str) -> None:
        """The colleague does this with git, commits everything and pushes."""
        git(self.other, *words)
        git(self.other, "commit", "-qam", " ".join(words)[:40])
        git(self.other, "push", "-q", "origin", "HEAD:refs/heads/main")

    def add(self) -> None:
        self.push(*LET, "submodule", "add", "-q", str(self.lib), MODULE)

    def bump(self) -> str:
        second = self.release("2\n")
        git(self.other / MODULE, "fetch", "-q", "origin", "main")
        git(self.other / MODULE, "checkout", "-q", second)
        self.push("add", MODULE)
        return second

    def accept(self) -> None:
        """``.gitmodules`` is of those files that a person here accepts."""
        self.node.cn("trust", "--yes", check=None)
        self.node.sync()

    @property
    def status(self) -> str:
        return git(self.node.root, "status", "--porcelain")

    @property
    def folder(self) -> Path:
        return self.node.root / MODULE

    def bring(self) -> None:
        git(self.node.root, *LET, "submodule", "update", "-q", "--init", "--", MODULE)


@pytest.fixture
def project(world: World, sigma: Node) -> Project:
    return Project(world, sigma)


def test_a_new_submodule_has_its_folder_as_after_git_pull(project: Project) -> None:
    project.add()
    project.node.cn("sync", check=None)
    project.accept()
    assert project.status == ""
    assert list(project.folder.iterdir()) == []
    (project.node.root / "mine.txt").write_text("mine\n")
    git(project.node.root, "add", "mine.txt")
    git(project.node.root, "commit", "-qam", "mine")
    project.node.sync()
    assert MODULE in git(project.node.root, "ls-tree", "origin/main", "vendor/")
    project.bring()
    assert (project.folder / "l.c").read_text() == "1\n"


@pytest.mark.parametrize("has_it", [True, False])
def test_what_main_says_of_a_submodule_arrives_whether_it_is_checked_out_or_not(project: Project, has_it: bool) -> None:
    project.add()
    project.node.cn("sync", check=None)
    project.accept()
    if has_it:
        project.bring()
        (project.folder / "mine.c").write_text("mine\n")
    second = project.bump()
    told = project.node.sync().stdout
    assert second in git(project.node.root, "ls-files", "-s", "--", MODULE)
    if has_it:
        assert (project.folder / "l.c").read_text() == "1\n", "as git pull leaves it"
        (step,) = re.findall("'(git submodule update [^']*)'", told)
        git(project.node.root, *LET, *shlex.split(step)[1:])
        assert tip(project.folder) == second
        assert (project.folder / "mine.c").read_text() == "mine\n"
    else:
        assert "submodule" not in told
        assert project.status == ""
    project.node.idle()


@pytest.mark.parametrize("has_it", [True, False])
@pytest.mark.parametrize("new", [{}, {"vendor/lib": "a file\n"}])
def test_what_is_no_submodule_any_more(project: Project, has_it: bool, new: dict[str, str]) -> None:
    project.add()
    project.node.cn("sync", check=None)
    project.accept()
    if has_it:
        project.bring()
        (project.folder / "mine.c").write_text("mine\n")
    git(project.other, "rm", "-qf", MODULE)
    commit(project.other, {**new, "other.txt": "x\n"})
    git(project.other, "push", "-q", "origin", "HEAD:refs/heads/main")
    project.node.cn("sync", check=None)
    project.node.cn("trust", "--yes", check=None)
    told = project.node.cn("sync", check=None).stdout
    assert MODULE not in git(project.node.root, "config", "--file", ".gitmodules", "--list") if has_it else True
    assert (project.node.root / "other.txt").read_text() == "x\n"
    if has_it:
        assert (project.folder / "mine.c").read_text() == "mine\n", "nobody's work goes"
        assert "is no submodule any more; its folder is not empty, and stays" in told
    else:
        assert project.status == ""
        assert project.folder.is_file() if new else not project.folder.exists()
    assert git(project.node.root, "rev-parse", "HEAD") == tip(project.other)


def test_a_submodule_that_somebody_staged_stops_the_run_and_a_commit_helps(project: Project) -> None:
    project.add()
    project.node.cn("sync", check=None)
    project.accept()
    project.bring()
    third = project.release("3\n")
    git(project.folder, "fetch", "-q", str(project.lib), "main")
    git(project.folder, "checkout", "-q", third)
    git(project.node.root, "add", MODULE)
    project.bump()
    assert f"your {MODULE} has local changes" in project.node.cn("sync", check=1).stderr
    git(project.node.root, "commit", "-qm", "third")
    assert f"in {MODULE}" in project.node.cn("sync", check=None).stderr  # both moved it: a person's to mend
