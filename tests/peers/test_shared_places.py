"""Repositories on this machine in which others may write."""

from __future__ import annotations

import pytest

from cn.git.process import Done
from tests.support.hubs import git
from tests.support.world import World


@pytest.mark.parametrize("part", ["", "objects", "refs", "config"])
def test_a_local_remote_that_others_may_write_is_named(world: World, part: str) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    said = sigma.cn("peer", "add", "pi", pi.url, "--check").stdout
    assert "others may write" not in said + sigma.cn("doctor", check=None).stdout
    for node in (sigma, pi):
        place = node.home / part
        place.chmod(place.stat().st_mode | 0o020)
    found = sigma.cn("doctor", check=None).stdout
    assert found.count("others may write") == 2, found
    assert "over ssh as another user" in found
    sigma.cn("peer", "remove", "pi")
    again = sigma.cn("peer", "add", "pi", pi.url, "--check")
    assert "others may write" in again.stdout + again.stderr
    assert (sigma.root / ".git/cn/local.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("word", ["unexpected", "unterminated"])
def test_no_row_of_a_broken_list_of_refs_is_told(word: str) -> None:
    done = Done((), 128, b"", f"fatal: {word} line in /x/packed-refs: SECRET of mine")
    assert done.reason == f"fatal: {word} line in /x/packed-refs"


@pytest.mark.parametrize("section", ["user", "committer"])
def test_no_name_of_a_local_remote_stands_in_its_reflogs(world: World, section: str) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    git(sigma.home, "config", f"{section}.name", "evil; command")
    git(sigma.home, "config", "core.logAllRefUpdates", "true")
    log = sigma.home / "logs/refs/heads/main"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("")
    sigma.cn("send", "pi", "hello")
    sigma.sync()
    assert "cn <cn@localhost>" in log.read_text()
    assert "evil" not in log.read_text()
