"""A push to origin that breaks off once says nothing of what this clone may do there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.hubs import git
from tests.support.servers import serve
from tests.support.world import World


@pytest.mark.parametrize("hook", ["post-receive", "pre-receive"])
def test_one_fault_in_a_push_leaves_no_word_about_pins_and_rights(world: World, tmp_path: Path, hook: str) -> None:
    """Origin's receive-pack is killed once, behind the change of main and pins or before it."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    sigma.cn("peer", "add", "pi", pi.url)
    with serve("git", tmp_path / "served", tmp_path / "scratch") as remote:
        url = remote.repo("sigma")
        git(sigma.root, "remote", "set-url", "origin", url)
        git(sigma.root, "push", "-q", "origin", "main")
        sigma.sync()
        program = remote.path("sigma") / "hooks" / hook
        program.parent.mkdir(exist_ok=True)
        program.write_text('#!/bin/sh\nif grep -q refs/cn/pins; then rm "$0"; kill -9 $PPID; fi\n')
        program.chmod(0o755)
        said = sigma.cn("send", "pi", "hello", check=None)
        assert not program.exists(), "the fault came"
        status = sigma.cn("status").stdout
        pins = git(sigma.root, "for-each-ref", "--format=%(objectname)\t%(refname)", "refs/cn/pins").split("\n")
        there = git(sigma.root, "ls-remote", "origin", "refs/cn/pins/*").split("\n")
    assert pins == there != [""]
    for words in ("stay in this clone", "refs/cn/*", "pins"):
        assert words not in status + said.stdout + said.stderr
