"""``cn init``: a hub in a folder that somebody prepared keeps what was prepared."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from cn.actions.init import init
from cn.values.names import parse_name
from cn.values.report import Report
from tests.support.hubs import bare, branches, checkout, clone, cn, commit, fetch, git, paths, tip, work
from tests.support.world import picture


def test_an_empty_folder_keeps_its_mode(tmp_path: Path) -> None:
    hub = tmp_path / "hub"
    hub.mkdir(mode=0o700)
    init(parse_name("sigma"), hub, Report())
    assert (hub / ".cn/hub.yaml").is_file()
    assert stat.S_IMODE(hub.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("core.excludesFile", "~/ignored"),
        ("core.safecrlf", "true"),
        ("core.autocrlf", "true"),
        ("commit.gpgSign", "false"),
    ],
)
def test_the_users_own_git_config_changes_nothing_in_the_first_commit(
    tmp_path: Path, home: Path, setting: str, value: str
) -> None:
    (home / "ignored").write_text("state/\n*.yaml\nthreads\n")
    git(home, "config", "--global", setting, value)
    if setting == "core.safecrlf":
        git(home, "config", "--global", "core.autocrlf", "input")
    hub = tmp_path / "hub"
    init(parse_name("sigma"), hub, Report())
    listed = git(hub, "ls-tree", "-r", "--name-only", "main").split("\n")
    assert {".cn/hub.yaml", ".cn/agent.yaml", "state/peers.md", ".gitignore", ".gitattributes"} <= set(listed)
    there = {p.relative_to(hub).as_posix() for p in hub.rglob("*") if p.is_file() and ".git/" not in f"{p}/"}
    assert there == set(listed)
    assert git(hub, "status", "--porcelain") == ""
    assert git(hub, "log", "--format=%an %ae %s", "main") == "sigma sigma@cn.invalid Hub of sigma"


def test_the_next_step_is_told(tmp_path: Path) -> None:
    said = cn("init", "sigma", cwd=tmp_path, check=0).stdout
    assert "next: 'cd cn-sigma', 'git remote add origin URL', 'git push -u origin main', then 'cn peer add" in said


# In a repository that is there.

FILES = {"src/app.py": "print('hi')\n", "README.md": "# Project\n", ".gitignore": "logs/\n*.pyc\n"}


def project(folder: Path, branch: str, files: Mapping[str, str] = FILES) -> tuple[Path, Path]:
    """A project's clone and its origin, with one commit."""
    host = bare(folder / "host/project.git", branch)
    root = work(folder / "project", "Alice", branch)
    commit(root, files, "Begin")
    git(root, "remote", "add", "origin", str(host))
    git(root, "push", "--quiet", "-u", "origin", branch)
    git(root, "remote", "set-head", "origin", branch)
    return root, host


@pytest.mark.sliced(2)
@pytest.mark.parametrize("branch", ["master", "main"])
def test_a_project_becomes_a_hub_by_one_commit_beside_what_is_there(tmp_path: Path, branch: str) -> None:
    root, host = project(tmp_path, branch)
    before = tip(root)
    (root / "staged.txt").write_text("staged\n")
    git(root, "add", "staged.txt")
    (root / "README.md").write_text("# Edited\n")
    (root / "logs").mkdir()
    (root / "logs/run.log").write_text("run\n")
    status = git(root, "status", "--porcelain")
    dry = picture(root, host)
    assert "would write .cn/hub.yaml" in cn("init", "proj", "--here", "--dry-run", cwd=root, check=0).stdout
    assert picture(root, host) == dry
    planned = cn("init", "proj", "--here", "--dry-run", cwd=root, check=0).stdout
    assert f"commit that on {branch} in {root}, and push {branch} to origin" in planned
    said = cn("init", "proj", "--here", cwd=root / "src", check=0).stdout
    assert f"on {branch} added its folders, and is pushed to origin" in said
    assert "next: 'cn peer add NAME URL --check'" in said
    assert "of yours" not in said
    assert git(root, "status", "--porcelain") == status
    assert git(root, "rev-parse", f"{branch}~1") == before
    changed = git(root, "diff", "--name-status", before, branch).split("\n")
    assert {line[0] for line in changed} == {"A"}
    assert branches(host) == {branch: tip(root, branch)}
    assert (root / "logs/run.log").read_text() == "run\n"
    assert f"proj: {branch} at" in cn("status", cwd=root, check=0).stdout
    assert "problem" not in cn("doctor", cwd=root, check=0).stdout
    assert "is a hub already" in cn("init", "proj", "--here", cwd=root, check=1).stderr


def test_what_goes_to_origin_with_it_is_told(tmp_path: Path) -> None:
    root, host = project(tmp_path, "main")
    commit(root, {"mine.py": "mine\n"}, "Not pushed")
    said = cn("init", "proj", "--here", cwd=root, check=0).stdout
    assert "is pushed to origin with 1 commit of yours that origin did not have" in said
    assert branches(host) == {"main": tip(root, "main")}


def test_the_loop_works_in_a_project_and_merges_change_its_files_safely(tmp_path: Path) -> None:
    root, host = project(tmp_path, "master")
    cn("init", "proj", "--here", cwd=root, check=0)
    pi = tmp_path / "cn-pi"
    cn("init", "pi", "--path", pi, check=0)
    cn("peer", "add", "proj", host, hub=pi, check=0)
    cn("peer", "add", "pi", pi, cwd=root, check=0)
    desk = clone(host, tmp_path / "desk", "Pia")
    checkout(desk, "fix", "HEAD")
    head = commit(desk, {"src/app.py": "print('hello')\n"}, "Say hello")
    cn("propose", "fix", "--hub", pi, cwd=desk, check=0)
    cn("sync", cwd=root, check=0)
    cn("inbox", "triage", "pi/fix", "do:merge", cwd=root, check=0)
    (root / "src/app.py").write_text("print('draft')\n")
    assert "your src/app.py has local changes" in cn("inbox", "process", cwd=root, check=1).stderr
    assert (root / "src/app.py").read_text() == "print('draft')\n"
    git(root, "checkout", "--quiet", "src/app.py")
    cn("inbox", "process", cwd=root, check=0)
    assert (root / "src/app.py").read_text() == "print('hello')\n"
    assert head in git(root, "rev-list", "origin/master").split()
    assert git(root, "status", "--porcelain") == ""
    cn("sync", cwd=desk, check=0)
    assert set(branches(host)) == {"master"}


@pytest.mark.parametrize(
    ("taken", "told"),
    [
        ({"logs/x.md": "x\n"}, "the project has logs in main, which cn needs for itself"),
        ({"State": "x\n"}, "the project has State in main"),
        ({".cn/hub": "x\n"}, "the project has .cn in main"),
    ],
)
def test_where_the_project_has_something_in_cns_place_nothing_is_done(
    tmp_path: Path, taken: dict[str, str], told: str
) -> None:
    root, _ = project(tmp_path, "main", {**FILES, **taken})
    before = picture(root / "src"), git(root, "for-each-ref")
    refused = cn("init", "proj", "--here", cwd=root, check=1).stderr
    assert told in refused
    assert "'cn init proj'" in refused
    assert (picture(root / "src"), git(root, "for-each-ref")) == before


def test_pages_of_the_project_stay_as_they_are(tmp_path: Path) -> None:
    root, _ = project(tmp_path, "main", {**FILES, "spec/SOUL.md": "ours\n"})
    said = cn("init", "proj", "--here", cwd=root, check=0).stdout
    assert "spec/ is the project's" in said
    assert paths(root, "main:spec") == ["SOUL.md"]
    assert (root / "spec/SOUL.md").read_text() == "ours\n"
    assert "skills/agent-ops/SKILL.md" in paths(root, "main")


def test_a_hub_is_made_on_the_main_branch_alone(tmp_path: Path) -> None:
    root, _ = project(tmp_path, "master")
    checkout(root, "fix", "master")
    refused = cn("init", "proj", "--here", cwd=root, check=1).stderr
    assert "HEAD is fix, and the main branch of" in refused
    assert "'git switch master'" in refused
    empty = work(tmp_path / "empty")
    assert "has no commit" in cn("init", "proj", "--here", cwd=empty, check=1).stderr
    assert "is in no work tree of git" in cn("init", "proj", "--here", cwd=tmp_path, check=1).stderr
    assert "--here takes neither" in cn("init", "proj", "--here", "--path", "x", cwd=root, check=2).stderr


@pytest.mark.parametrize("head", ["main", "trunk"])
def test_no_second_main_is_made_beside_the_one_at_origin(tmp_path: Path, head: str) -> None:
    """The clone of an empty repository may begin on another branch than the host's HEAD names."""
    host = bare(tmp_path / "host/project.git", head)
    root = work(tmp_path / "project", "Alice", "master")
    commit(root, FILES, "Begin")
    git(root, "remote", "add", "origin", str(host))
    git(root, "push", "--quiet", str(host), "HEAD:main")
    refused = cn("init", "proj", "--here", cwd=root, check=1).stderr
    assert f"HEAD is master, and the main branch of {root} is main, as at origin" in refused
    assert "'git fetch origin', then 'git switch main', then run it again" in refused
    assert set(branches(host)) == {"main"}
    git(root, "fetch", "--quiet", "origin")
    git(root, "switch", "--quiet", "main")
    cn("init", "proj", "--here", cwd=root, check=0)
    assert branches(host) == {"main": tip(root, "main")}


def test_a_hub_is_made_on_the_branch_that_origin_has_where_its_head_names_none(tmp_path: Path) -> None:
    root, host = project(tmp_path, "master")
    git(host, "symbolic-ref", "HEAD", "refs/heads/main")
    assert "commit" in cn("init", "proj", "--here", cwd=root, check=0).stdout
    assert branches(host) == {"master": tip(root, "master")}


@pytest.mark.parametrize("pushed", [False, True])
def test_a_branch_that_is_worked_on_becomes_no_main_by_a_guess(tmp_path: Path, *, pushed: bool) -> None:
    root, host = project(tmp_path, "develop")
    git(host, "symbolic-ref", "HEAD", "refs/heads/main")
    git(root, "remote", "set-head", "origin", "--delete")
    checkout(root, "feature/x", "develop")
    commit(root, {"src/app.py": "half\n"}, "Half done")
    before = branches(host)
    if pushed:
        git(root, "push", "--quiet", "origin", "feature/x")
        before = branches(host)
        told = " ".join(cn("init", "proj", "--here", cwd=root, check=1).stderr.split())
        assert "origin has develop, feature/x, its HEAD names none of them" in told
        git(root, "remote", "set-head", "origin", "develop")  # as told
    told = cn("init", "proj", "--here", cwd=root, check=1).stderr
    assert "'git switch develop', then run it again" in told
    assert branches(host) == before
    git(root, "switch", "--quiet", "develop")
    cn("init", "proj", "--here", cwd=root, check=0)
    assert branches(host) == {**before, "develop": tip(root, "develop")}


def test_a_fork_proposes_from_a_branch_and_its_own_main_moves_beside(tmp_path: Path) -> None:
    """Another branch is checked out meanwhile, with edits: nothing of that is touched."""
    root, host = project(tmp_path, "main")
    cn("init", "proj", "--here", cwd=root, check=0)
    fork = tmp_path / "fork"
    ours = bare(tmp_path / "host/fork.git")
    clone(host, fork, "Pia")
    git(fork, "reset", "--quiet", "--hard", "main~1")
    git(fork, "remote", "set-url", "origin", str(ours))
    git(fork, "push", "--quiet", "origin", "main")
    cn("init", "pi", "--here", cwd=fork, check=0)
    cn("peer", "add", "proj", host, cwd=fork, check=0)
    fetch(fork, host, "main")
    checkout(fork, "fix", "FETCH_HEAD")
    head = commit(fork, {"src/app.py": "print('hello')\n"}, "Say hello")
    (fork / "README.md").write_text("draft\n")
    said = cn("propose", "fix", cwd=fork, check=0).stdout
    assert "not part of it: README.md" in said
    assert branches(host)["pi/fix"] == head
    assert (git(fork, "symbolic-ref", "HEAD"), tip(fork)) == ("refs/heads/fix", head)
    assert git(fork, "status", "--porcelain") == " M README.md"
    assert tip(fork, "main") == branches(ours)["main"]
    assert "propose | ✓ delivered" in git(fork, "log", "-p", "-1", "--format=", "main")
    assert "HEAD is fix" in cn("sync", cwd=fork, check=1).stderr
    git(fork, "checkout", "--quiet", "README.md")
    checkout(fork, "main")
    assert git(fork, "status", "--porcelain") == ""
    cn("sync", cwd=fork, check=0)
    refused = cn("propose", "own", "--commit", "main", cwd=fork, check=1).stderr
    assert "protected-paths" in refused
    other = tmp_path / "other"
    git(fork, "worktree", "add", "--quiet", "-b", "more", str(other), "fix")
    more = commit(other, {"src/more.py": "more\n"})
    assert "your branch fix is at" in cn("propose", "fix", cwd=other, check=2).stderr
    assert branches(host)["pi/fix"] == head
    cn("propose", "fix", "--commit", "HEAD", cwd=other, check=0)
    assert branches(host)["pi/fix"] == more
    assert git(fork, "status", "--porcelain") == ""
