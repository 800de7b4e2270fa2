"""Copies of a repository behind one name: one lists what the other does not send."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.hubs import git, tip
from tests.support.world import World

SSH = """#!/bin/sh
[ "$1" = -G ] && exit 1
[ -e {0}/listed ] && [ ! -e {0}/well ] && exec git upload-pack {0}/behind.git
touch {0}/listed
exec git upload-pack {1}
"""
"""A run's first connection meets the one copy, those after it the other, until all is well."""


def test_a_branch_that_is_listed_and_not_sent_is_shown_until_the_copies_agree(world: World, tmp_path: Path) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    sigma.add_peer(pi, "pickup", url="ssh://host/pi.git")
    pi.add_peer(sigma, "pickup")
    old = tip(pi.home, "main")
    shutil.copytree(pi.home, tmp_path / "behind.git")
    git(tmp_path / "behind.git", "update-ref", "refs/heads/sigma/idea", old)
    world.propose(pi, sigma, "idea", start="origin/main")
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH.format(tmp_path, pi.home))
    ssh.chmod(0o755)
    env = {"GIT_SSH_COMMAND": str(ssh)}
    said = sigma.cn("sync", env=env)
    (tmp_path / "listed").unlink()
    assert "was listed at" in said.stdout
    text = "its host lists it, and sends another state of the branch"
    said = sigma.cn("sync", env=env, check=1)
    (tmp_path / "listed").unlink()
    assert text in said.stderr
    assert "must push it again" not in said.stderr
    assert text in sigma.cn("status").stdout
    assert text in sigma.cn("doctor", check=1).stdout
    sigma.cn("sync", env=env, check=None)  # it is left alone for a while now
    (tmp_path / "well").touch()
    assert "received pi/idea" in sigma.cn("peer", "sync", "pi", env=env).stdout
    assert text not in sigma.cn("status").stdout
