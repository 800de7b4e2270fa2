"""What git-lfs keeps of commits made here goes to origin by ``git push``: cn brings no commit without it."""

from __future__ import annotations

import re
import shlex
import shutil

import pytest

from tests.support.hubs import branches, git
from tests.support.world import Node, World

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 9\n"


@pytest.mark.parametrize("words", [("sync",), ("send", "pi", "words")])
def test_a_commit_with_a_pointer_does_not_go_before_git_has_pushed_it(
    sigma: Node, pi: Node, words: tuple[str, ...]
) -> None:
    sigma.write({"logo.bin": POINTER})  # without git-lfs in this repository that is a text
    sigma.sync()
    git(sigma.root, "config", "filter.lfs.required", "true")
    git(sigma.root, "config", "filter.lfs.clean", "cat")
    git(sigma.root, "config", "filter.lfs.smudge", "cat")
    git(sigma.root, "commit", "-q", "--allow-empty", "-m", "nothing of it")
    sigma.sync()
    (sigma.root / "second.bin").write_text(POINTER)
    git(sigma.root, "add", "second.bin")
    git(sigma.root, "commit", "-qm", "second")
    before = branches(sigma.home)["main"]
    told = sigma.cn(*words, check=1).stderr
    assert "hold files of git-lfs, whose contents cn does not bring to origin: second.bin" in " ".join(told.split())
    assert branches(sigma.home)["main"] == before
    assert "git-lfs" in sigma.cn("status").stdout + sigma.cn("doctor", check=1).stdout
    git(sigma.root, "push", "-q", "origin", "refs/heads/main")
    assert "git-lfs" not in sigma.cn(*words).stderr
    sigma.sync()
    assert "git-lfs" not in sigma.cn("status").stdout


@pytest.mark.skipif(shutil.which("git-lfs") is None, reason="git-lfs is not installed")
def test_the_printed_steps_bring_the_contents(world: World, sigma: Node) -> None:
    git(sigma.root, "remote", "set-url", "origin", f"file://{sigma.home}")
    git(sigma.root, "lfs", "install", "--local")
    sigma.write({".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"})
    sigma.cn("trust", "--yes", check=None)
    sigma.sync()
    (sigma.root / "logo.bin").write_text("what git-lfs keeps\n")
    git(sigma.root, "add", "logo.bin")
    git(sigma.root, "commit", "-qm", "logo")
    told = " ".join(sigma.cn("sync", check=1).stderr.split())
    steps = re.findall(r"'(git (?:lfs )?push [^']*)'", told)
    assert len(steps) == 2
    for step in steps:
        git(sigma.root, *shlex.split(step)[1:])
    sigma.sync()
    other = world.folder / "other"
    git(world.folder, "clone", "-q", "-c", "filter.lfs.required=true", f"file://{sigma.home}", str(other))
    git(other, "lfs", "install", "--local")
    git(other, "lfs", "pull")
    assert (other / "logo.bin").read_text() == "what git-lfs keeps\n"
