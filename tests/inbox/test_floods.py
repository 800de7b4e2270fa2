"""What takes all the time, or all the room, of one peer's takes none of another's."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cn.git import read_branches
from cn.git.process import Git
from cn.git.read_branches import Patience, read_histories
from cn.values.names import Oid
from tests.support.hubs import commit, git, work
from tests.support.world import World

CONFIG = "mailbox_trusted: true\nlimits:\n  peer_seconds: 2\n"


def host_that_hangs(folder: Path, *heads: str) -> dict[str, str]:
    """The environment of a user whose git sends all packs but those with one of these heads (git-config(1),
    ``uploadpack.packObjectsHook``)."""
    cases = "|".join(f"*{head}*" for head in heads)
    script = folder / "pack-objects"
    script.write_text(
        f'#!/bin/sh\nasked=$(cat)\ncase "$asked" in {cases}) exec sleep 60;; esac\nprintf "%s\\n" "$asked" | "$@"\n'
    )
    script.chmod(0o755)
    config = folder / "gitconfig"
    config.write_text(f"[uploadpack]\n\tpackObjectsHook = {script}\n")
    return {"GIT_CONFIG_GLOBAL": str(config)}


def test_a_branch_that_takes_all_the_time_keeps_no_other_out(world: World, tmp_path: Path) -> None:
    sigma = world.hub("sigma", config=CONFIG)
    pi, omega = world.hub("pi"), world.hub("omega")
    world.link(sigma, pi)
    world.link(sigma, omega)
    world.propose(pi, sigma, "one")
    world.propose(omega, sigma, "good")
    bad = world.propose(omega, sigma, "bad")
    env = host_that_hangs(tmp_path, bad)
    done = sigma.cn("sync", check=1, env=env)
    assert "omega/bad cannot be fetched: no answer within the time limit" in done.stderr, done.stderr
    assert sorted(name.split("-", 1)[1] for name in sigma.threads()) == ["omega-good", "pi-one"]
    # It waits for its turn, and costs the next run nothing.
    world.propose(pi, sigma, "two")
    done = sigma.cn("sync", check=1, env=env)
    assert "20261" not in done.stderr
    assert "received pi/two" in done.stdout


def test_a_host_that_hangs_for_everybody_is_told_as_that(world: World, tmp_path: Path) -> None:
    sigma = world.hub("sigma", config=CONFIG)
    pi, omega = world.hub("pi"), world.hub("omega")
    world.link(sigma, pi)
    world.link(sigma, omega)
    heads = [world.propose(creator, sigma, topic) for creator in (pi, omega) for topic in ("a", "b")]
    done = sigma.cn("sync", check=1, env=host_that_hangs(tmp_path, *heads))
    assert "the mailbox does not send its branches" in done.stderr
    assert "cannot be fetched" not in done.stderr


@pytest.mark.parametrize("shared", [False, True])
def test_a_peer_whose_histories_take_long_has_so_many_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """What is left of it is shown as unreadable; what another peer shows too is read."""
    repo = work(tmp_path / "repo")
    main = Oid(commit(repo, {"a": "1"}))
    heads = []
    for n in range(4):
        git(repo, "checkout", "-q", "-b", f"b{n}", "main")
        for step in range(3):
            commit(repo, {f"b{n}": f"{step}"})
        heads.append(Oid(git(repo, "rev-parse", "HEAD")))
    monkeypatch.setattr(read_branches, "_WALKED", 1)  # longer ones are read alone
    monkeypatch.setattr(read_branches, "_SECONDS", 0.5)
    asked = read_branches.merge_bases

    def slow(git_: Git, *args: Oid) -> list[Oid]:
        time.sleep(0.6)
        return asked(git_, *args)

    monkeypatch.setattr(read_branches, "merge_bases", slow)
    owners = {
        heads[0]: {"omega"},
        heads[1]: {"omega"},
        heads[2]: {"pi"},
        heads[3]: {"omega", "pi"} if shared else {"omega"},
    }
    found = read_histories(Git(repo), main, heads, Patience(lambda head: owners[head]))
    assert set(found) == {heads[0], heads[2]}
