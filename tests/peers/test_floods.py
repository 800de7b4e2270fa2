"""What takes all the time, or all the room, of one peer's takes none of another's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from cn.git import read_branches
from cn.git.objects import merge_bases
from cn.git.process import Git
from cn.git.read_branches import Patience, read_histories, read_proposals
from cn.git.remote import LISTING_BYTES
from cn.protocol.hub_config import Limits
from cn.values.names import Oid
from tests.support.hubs import clone, commit, git, try_git, work
from tests.support.world import Node, World

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
    assert sorted(name.split("-", 1)[1].removesuffix(".md") for name in sigma.threads()) == ["omega-good", "pi-one"]
    # It waits for its turn, and costs the next run nothing.
    world.propose(pi, sigma, "two")
    done = sigma.cn("sync", env=env)
    assert "20261" not in done.stderr
    assert "received pi/two" in done.stdout


def test_a_host_that_broke_off_one_branch_of_several_is_told_as_that(world: World, tmp_path: Path) -> None:
    sigma, pi = world.hub("sigma", config=CONFIG), world.hub("pi")
    world.link(sigma, pi)
    world.propose(pi, sigma, "good")
    bad = world.propose(pi, sigma, "bad")
    env = host_that_hangs(tmp_path, bad)
    script = tmp_path / "pack-objects"
    script.write_text(script.read_text().replace("exec sleep 60", "kill -9 $PPID"))
    done = sigma.cn("sync", check=1, env=env)
    assert "received pi/good" in done.stdout
    for text in (done.stderr, sigma.cn("status").stdout):
        assert "pi/bad cannot be fetched: " in text
        assert "→ 'cn peer sync pi' tries again; else the next sync asks it" in text
        assert "push it again" not in text
    world.propose(pi, sigma, "better")
    assert "received pi/better" in sigma.cn("sync", check=None, env=env).stdout
    rarely = "else it is asked less and less often; if it stays so, its creator must push it again"
    assert f"'cn peer sync pi' tries again; {rarely}" in " ".join(sigma.cn("status").stdout.split())
    assert "received" not in sigma.cn("sync", check=None).stdout, "it is left alone for a while"
    assert "received pi/bad" in sigma.cn("peer", "sync", "pi").stdout
    assert "cannot be fetched" not in sigma.cn("status").stdout


def test_a_host_that_hangs_for_everybody_is_told_as_that(world: World, tmp_path: Path) -> None:
    sigma = world.hub("sigma", config=CONFIG)
    pi, omega = world.hub("pi"), world.hub("omega")
    world.link(sigma, pi)
    world.link(sigma, omega)
    heads = [world.propose(creator, sigma, topic) for creator in (pi, omega) for topic in ("a", "b")]
    done = sigma.cn("sync", check=1, env=host_that_hangs(tmp_path, *heads))
    assert "the mailbox does not send its branches" in done.stderr
    assert "cannot be fetched" not in done.stderr


def test_hosts_that_hang_are_asked_less_and_less_often(world: World, tmp_path: Path) -> None:
    sigma, pi = world.hub("sigma", config=CONFIG), world.hub("pi")
    world.link(sigma, pi, "pickup")
    env = host_that_hangs(tmp_path, world.propose(pi, sigma, "a"))
    said = [sigma.cn("sync", check=None, env=env) for _ in range(2)]
    assert ["pi does not send its branches" in done.stderr for done in said] == [True, False], "told once"
    assert "pi does not send its branches" in sigma.cn("status").stdout
    assert "received" not in sigma.cn("sync", check=None).stdout, "it is left alone for a while"
    assert "received pi/a" in sigma.cn("peer", "sync", "pi").stdout
    assert "does not send" not in sigma.cn("status").stdout


def test_a_host_whose_git_dies_for_everybody_is_told_as_that_and_blames_no_branch(world: World, tmp_path: Path) -> None:
    sigma = world.hub("sigma", config="mailbox_trusted: true\n")
    pi, omega = world.hub("pi"), world.hub("omega")
    world.link(sigma, pi)
    world.link(sigma, omega)
    for creator in (pi, omega):
        world.propose(creator, sigma, "a")
    script = tmp_path / "pack-objects"
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o755)
    config = tmp_path / "gitconfig"
    config.write_text(f"[uploadpack]\n\tpackObjectsHook = {script}\n")
    said = [sigma.cn("sync", check=None, env={"GIT_CONFIG_GLOBAL": str(config)}).stderr for _ in range(3)]
    assert "the mailbox does not send its branches" in said[0]
    assert "push it again" not in "".join(said)
    assert "the next sync asks it" in sigma.cn("status").stdout
    done = sigma.cn("sync")
    assert "received pi/a" in done.stdout, "an answer that came at once makes nobody wait"
    assert "received omega/a" in done.stdout
    assert "does not send" not in sigma.cn("status").stdout


def flood(repo: Path, prefix: str) -> None:
    """More branches under ``prefix`` than a listing may hold."""
    tip = git(repo, "rev-parse", "main")
    git(repo, "pack-refs", "--all")
    names = (f"refs/heads/{prefix}/{'x' * 200}{n:05}" for n in range(LISTING_BYTES // 240))
    with (repo / "packed-refs").open("a") as file:
        file.writelines(f"{tip} {name}\n" for name in names)
    header, *rows = (repo / "packed-refs").read_text().splitlines()
    (repo / "packed-refs").write_text("\n".join([header, *sorted(rows, key=lambda row: row[41:]), ""]))


@pytest.mark.parametrize("prefix", ["omega", "nobody"])
@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
def test_a_flood_of_branches_hides_no_other_peers(world: World, prefix: str, far: bool) -> None:
    sigma, pi, omega = (world.hub(name) for name in ("sigma", "pi", "omega"))
    world.link(sigma, pi)
    world.link(sigma, omega)
    if far:  # listed by git's own protocol
        git(sigma.root, "remote", "set-url", "origin", f"file://{sigma.url}")
    world.propose(pi, sigma, "one")
    flood(sigma.home, prefix)
    flood(pi.home, "nobody")
    sigma.cn("send", "pi", "hello", "--body", "Read this.", check=None)
    done = sigma.cn("sync", check=None)
    text = "the mailbox has more branches under omega/ than cn reads"
    assert (text in done.stderr) == (prefix == "omega"), done.stderr
    assert (text in sigma.cn("status").stdout) == (prefix == "omega")
    assert "received pi/one" in done.stdout
    done = pi.cn("sync", check=None)
    assert any("hello" in name for name in pi.threads()), (done, sigma.cn("status").stdout, sigma.sent())
    git(sigma.home, "for-each-ref", "--count=1")
    rows = [row for row in (sigma.home / "packed-refs").read_text().splitlines() if "xxx" not in row]
    (sigma.home / "packed-refs").write_text("\n".join([*rows, ""]))
    sigma.sync()
    assert text not in sigma.cn("status").stdout


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
    asked = merge_bases

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


def test_differences_that_take_long_are_left_out_for_that_peer_and_its_new_texts_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = work(tmp_path / "repo")
    main = Oid(commit(repo, {f"f{n}": "old\n" for n in range(4)}))
    heads = []
    for n in range(4):
        git(repo, "checkout", "-q", "-b", f"b{n}", "main")
        heads.append(Oid(commit(repo, {f"f{n}": "new\n"})))
    monkeypatch.setattr(read_branches, "_HEADS", 1)  # each is asked for by itself
    monkeypatch.setattr(read_branches, "_SECONDS", 0.5)
    asked = read_branches._read_patches

    def slow(git_: Git, drafts: Sequence[read_branches._Draft]) -> list[tuple[Oid, read_branches._Patches]]:
        time.sleep(0.6)
        return asked(git_, drafts)

    monkeypatch.setattr(read_branches, "_read_patches", slow)
    owners = {head: {"pi" if head == heads[2] else "omega"} for head in heads}
    patience = Patience(lambda head: owners[head])
    histories = read_histories(Git(repo), main, heads, Patience())
    found = dict(read_proposals(Git(repo), [histories[head] for head in heads], Limits(), patience))
    assert [found[head].texts[0].patch is not None for head in heads] == [True, False, True, False]
    assert [found[head].texts[0].text for head in heads] == ["new\n"] * 4
    assert patience.left == set()


def test_a_shallow_repository_brings_no_commit_whose_parent_is_missing(world: World, sigma: Node, pi: Node) -> None:
    """git takes such objects, and says so only in a warning; then nothing that has them can be pushed."""
    world.propose(pi, sigma, "one")
    omega = world.hub("omega")
    whole = clone(sigma.url, world.folder / "whole")
    git(whole, "checkout", "-q", "-b", "sigma/two")
    commit(whole, {"docs/two.md": "2\n"}, "below")
    head = commit(whole, {"docs/two.md": "two\n"}, "above")
    shallow = world.folder / "shallow.git"
    git(world.folder, "clone", "-q", "--bare", "--depth=1", "--branch=sigma/two", f"file://{whole}", str(shallow))
    assert (shallow / "shallow").read_text().split() == [head]
    sigma.add_peer(omega, "pickup", url=str(shallow))
    done = sigma.sync(check=1)
    assert "omega/two (there sigma/two) cannot be fetched: the repository there is shallow" in done.stderr
    assert "received pi/one" in done.stdout
    assert try_git(sigma.root, "cat-file", "-e", head).returncode != 0
    assert not (sigma.root / ".git/shallow").exists()


def test_a_flood_of_names_outside_the_grammar_is_told_once_in_few_lines(sigma: Node, pi: Node) -> None:
    head = git(sigma.home, "rev-parse", "main")
    lines = b"".join(b"create refs/heads/pi/\xff%04d %s\n" % (i, head.encode()) for i in range(6000))
    git(sigma.home, "update-ref", "--stdin", stdin=lines)
    first = sigma.cn("sync", check=1)
    assert first.stderr.count("valid-name") == 101
    assert "pi has 5900 more branches whose names are refused" in first.stderr
    again = sigma.cn("sync", check=None)
    assert (again.stdout, again.stderr) == ("", "")
    assert "5900 more branches" in sigma.cn("status").stdout
