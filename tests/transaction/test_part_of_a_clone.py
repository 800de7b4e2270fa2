"""A clone that lacks a part of the history, or some objects, decides nothing, and says what completes it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.support.hubs import branches, git, identify, tip
from tests.support.world import Node, World, is_in_main


@pytest.mark.sliced(2)
@pytest.mark.parametrize(("how", "is_a"), [("--depth=1", "is shallow"), ("--filter=blob:none", "a partial clone")])
def test_a_part_of_a_clone_refuses_nothing_and_is_completed_as_told(
    world: World, tmp_path: Path, how: str, is_a: str
) -> None:
    sigma = world.hub("sigma", origin=True)
    pi = world.hub("pi")
    world.link(sigma, pi)
    sigma.write({"docs/start.md": "another\n"})
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    sigma.cn("commit")
    sigma.cn("push")
    git(sigma.home, "config", "uploadpack.allowFilter", "true")
    part = Node("sigma", tmp_path / "part", sigma.home, sigma.url)
    git(tmp_path, "clone", "--quiet", how, sigma.home.as_uri(), str(part.root))
    git(part.root, "update-ref", "refs/cn/trusted", "HEAD")
    identify(part.root, "sigma")
    told, main = branches(pi.home), tip(sigma.home, "main")
    for words in (("sync",), ("inbox", "process")):
        done = part.cn(*words, check=1)
        assert is_a in done.stderr
        assert "refused" not in done.stderr
    assert is_a in part.cn("status", check=None).stdout
    assert is_a in part.cn("doctor", check=1).stdout
    assert (branches(pi.home), tip(sigma.home, "main")) == (told, main)
    remedy = done.stderr.partition("→")[2]
    for command in re.findall("'(git .*?)'", remedy):
        git(part.root, *shlex.split(command)[1:])
    assert "partial" not in git(part.root, "config", "--list", "--local")
    part.process()
    assert is_in_main(part, head)
    assert is_a not in part.cn("doctor", check=None).stdout
    assert not (part.root / ".git/shallow").exists()
