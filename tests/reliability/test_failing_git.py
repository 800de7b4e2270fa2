"""A git that was killed, or had no memory or disk, has answered nothing: neither yes nor no."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from tests.support.hubs import blob, branches, cn_env, git
from tests.support.world import Node, World, is_in_main

DIES = {
    "killed": "kill -9 $$",
    "out of memory": "echo 'fatal: Out of memory, malloc failed (tried to allocate 8 bytes)' >&2; exit 128",
}


def failing(folder: Path, verb: str, how: str) -> dict[str, str]:
    """An environment in which ``git VERB`` fails; everything else is git."""
    folder.mkdir()
    found = f'for word; do [ "$word" = {verb} ] && {{ {how}; }}; done'
    script = f'#!/bin/sh\n{found}\nexec {shutil.which("git")} "$@"\n'
    (folder / "git").write_text(script)
    (folder / "git").chmod(0o755)
    return {"PATH": f"{folder}:/usr/local/bin:/usr/bin:/bin"}


@pytest.mark.sliced(6)
@pytest.mark.parametrize("how", DIES)
@pytest.mark.parametrize("verb", ["diff-tree", "rev-list", "ls-tree"])
def test_a_merge_that_git_could_not_try_is_not_refused(
    world: World, sigma: Node, pi: Node, tmp_path: Path, verb: str, how: str
) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    done = sigma.cn("inbox", "process", check=None, env=failing(tmp_path / "bin", verb, DIES[how]))
    assert done.returncode == (0 if is_in_main(sigma, head) else 1), done
    assert "refused" not in done.stderr
    assert "internal error" not in done.stderr
    assert [r[2] for r in sigma.rows() if r[2].startswith("refused")] == []
    sigma.process()
    assert is_in_main(sigma, head)
    assert sorted(branches(pi.home)) == ["main", "sigma/notice-proposal"]
    assert [r[2] for r in sigma.rows() if r[1] == "do:merge"] == ["✓ merged SHA"]


@pytest.mark.parametrize("verb", ["log", "diff-tree"])
def test_a_branch_is_shown_by_the_run_whose_git_lives(
    world: World, sigma: Node, pi: Node, tmp_path: Path, verb: str
) -> None:
    world.propose(pi, sigma)
    done = sigma.cn("inbox", "sync", check=1, env=failing(tmp_path / "bin", verb, DIES["killed"]))
    assert "ended by SIGKILL" in done.stderr
    assert sigma.threads() == []
    sigma.sync()
    assert "> - added docs/proposal.md" in sigma.thread(sigma.only_thread())


def test_it_is_told_once_and_tried_again(world: World, sigma: Node, pi: Node, tmp_path: Path) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    env = failing(tmp_path / "bin", "diff-tree", DIES["out of memory"])
    first = sigma.cn("inbox", "process", check=1, env=env)
    assert "could not be done: git diff-tree failed: fatal: Out of memory" in first.stderr
    assert "→ it is tried again" in first.stderr
    assert sigma.cn("inbox", "process", env=env).stderr == ""
    sigma.process()
    assert sigma.threads() == []


REACHED = {"locked": ": >$main.lock", "written": 'echo "$new" >$main.lock', "moved": 'echo "$new" >$main'}
"""How far an update-ref of main came; it has locked HEAD too, for the reflog."""


@pytest.mark.sliced(4)
@pytest.mark.parametrize("reached", REACHED)
def test_an_update_ref_that_is_killed_alone_leaves_no_lock(
    world: World, sigma: Node, pi: Node, tmp_path: Path, reached: str
) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    dies = (
        f'case "$*" in *refs/heads/main*) eval "new=\\${{$(($# - 1))}}"; '
        f"main={sigma.root}/.git/refs/heads/main; "
        f"{REACHED[reached]}; : >{sigma.root}/.git/HEAD.lock; kill -9 $$; esac"
    )
    done = sigma.cn("inbox", "process", check=None, env=failing(tmp_path / "bin", "update-ref", dies))
    assert done.returncode == (0 if reached == "moved" else 1), done
    assert "internal error" not in done.stderr
    assert [*sigma.root.glob(".git/**/*.lock")] == []
    sigma.process()
    assert is_in_main(sigma, head)
    assert sorted(branches(pi.home)) == ["main", "sigma/notice-proposal"]
    assert [r[2] for r in sigma.rows() if r[1] == "do:merge"] == ["✓ merged SHA"]


def test_packing_costs_no_run_its_answer(world: World, sigma: Node, pi: Node, tmp_path: Path) -> None:
    """The report is out before objects are packed, and stands when git is killed over it."""
    world.propose(pi, sigma)
    for number in range(101):
        blob(sigma.root, f"loose {number}")
    shown, late = tmp_path / "shown", tmp_path / "late"
    wait = f"i=0; until [ -e {shown} ]; do i=$((i+1)); [ $i = 400 ] && : >{late} && break; sleep .05; done"
    env = failing(tmp_path / "bin", "repack", f"{wait}; kill -9 $$")
    with subprocess.Popen(
        [sys.executable, "-m", "cn", "--hub", str(sigma.root), "inbox", "sync"],
        env=cn_env(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        assert "pi/proposal" in run.stdout.readline()
        shown.touch()
        assert (run.wait(60), run.stderr.read()) == (0, "")
    assert not late.exists()
    assert len(sigma.threads()) == 1


def deep_tree(repo: Path, depth: int) -> str:
    """A commit whose tree holds so many folders in each other, as git's own checks accept it."""
    oid = git(repo, "hash-object", "-w", "--stdin", stdin="deep\n")
    mode, name = b"100644", b"f"
    for _ in range(depth):
        data = mode + b" " + name + b"\0" + bytes.fromhex(oid)
        whole = b"tree %d\0" % len(data) + data
        oid = hashlib.sha1(whole).hexdigest()
        path = repo / ".git/objects" / oid[:2] / oid[2:]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(zlib.compress(whole, 1))
        mode, name = b"40000", b"a"
    return git(repo, "commit-tree", oid, "-p", "main", "-m", "deep")


def test_a_tree_that_brings_git_down_is_named_and_keeps_nobody_out(world: World) -> None:
    sigma = world.hub("sigma", config="mailbox_trusted: true\n")
    pi, omega = world.hub("pi"), world.hub("omega")
    for peer in (pi, omega):
        world.link(sigma, peer)
    work = world.person(pi, sigma)
    git(work, "push", "-q", "origin", f"{deep_tree(work, 20_000)}:refs/heads/pi/deep")
    world.propose(pi, sigma, "fine")
    world.propose(omega, sigma, "other")
    done = sigma.cn("inbox", "sync", check=None)
    assert {name[9:] for name in sigma.threads()} >= {"pi-fine.md", "omega-other.md"}
    assert "internal error" not in done.stderr
    (deep,) = [name for name in sigma.threads() if "pi-deep" in name]
    assert "cannot be shown" in sigma.thread(deep)
    sigma.sync()
    sigma.triage("pi/deep", "do:merge")
    sigma.triage("omega/other", "do:merge")
    merged = sigma.cn("inbox", "process", check=None)
    assert "pi/deep" in merged.stderr
    assert (sigma.root / "docs/other.md").exists()
