"""How often a command connects to a remote: people wait for each of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cn.git.remote import Listing, Looked
from cn.git.repository import open_hub
from cn.loop import sync as loop
from cn.run.settings import MAILBOX_KEY
from cn.values.names import Oid
from tests.support.hubs import branches, clone, force_push, git_bytes, identify
from tests.support.world import Node, World, is_in_main

_COUNTS = """\
#!/bin/sh
for word in "$@"; do
  case $word in fetch|ls-remote|push) echo "$word" >> {log} ;; esac
done
exec {git} "$@"
"""


@pytest.fixture
def connected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """What connected since it was asked last."""
    program, log = tmp_path / "bin/git", tmp_path / "connections"
    program.parent.mkdir()
    log.touch()
    program.write_text(_COUNTS.format(log=log, git=shutil.which("git")))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")

    def read() -> list[str]:
        words = log.read_text().split()
        log.write_text("")
        return words

    return read


@pytest.fixture
def sigma(world: World) -> Node:
    return world.far_hub("sigma")


@pytest.fixture
def pi(world: World, sigma: Node) -> Node:
    node = world.far_hub("pi")
    world.link(sigma, node)
    for one in (sigma, node):
        one.sync()
    return node


def test_what_people_wait_for_connects_so_often_at_most(
    world: World, sigma: Node, pi: Node, connected: Callable[[], list[str]]
) -> None:
    head = world.propose(pi, sigma)
    connected()
    assert pi.cn("send", "sigma", "hi").returncode == 0
    assert connected() == ["push", "fetch", "push", "push"], "at the first delivery the peer's main is looked at"
    assert pi.cn("send", "sigma", "hello").returncode == 0
    assert connected() == ["push"] * 3
    assert "pi/hello" in branches(sigma.home)

    connected()
    sigma.sync()
    assert sorted(connected()) == ["fetch", "ls-remote", "push"], "what is new comes with the list"
    assert len(sigma.threads()) == 3
    for _ in range(2):
        sigma.sync()
        assert sorted(connected()) == ["fetch", "ls-remote"]
    world.propose(pi, sigma, "more")
    connected()
    sigma.sync()
    assert sorted(connected()) == ["fetch", "ls-remote", "push"], "the idle check brought it"
    assert len(sigma.threads()) == 4

    sigma.triage("pi/proposal", "do:merge")
    assert connected() == []
    sigma.process()
    assert len(connected()) <= 5, "the fifth looks at pi's main, at the first delivery"
    assert is_in_main(sigma, head)
    assert "sigma/notice-proposal" in branches(pi.home)


def test_what_is_sent_upon_an_old_main_is_planned_again(world: World, sigma: Node, pi: Node) -> None:
    """Another clone was at work meanwhile: the lease of the push says so."""
    second = Node("sigma", clone(sigma.home, world.folder / "second", trusted=True), sigma.home, sigma.url)
    identify(second.root, "sigma", "sigma@cn.invalid")
    second.cn("send", "pi", "from there")
    sigma.cn("send", "pi", "from here")
    assert {"sigma/from-there", "sigma/from-here"} <= set(branches(pi.home))
    second.sync()
    assert sigma.main == second.main == branches(sigma.home)["main"]
    assert sigma.outbox() == []
    assert [row[2] for row in sigma.rows()].count("✓ delivered") == 2


def test_who_became_a_peer_elsewhere_can_be_sent_to_at_once(world: World, sigma: Node, pi: Node) -> None:
    second = Node("sigma", clone(sigma.home, world.folder / "second", trusted=True), sigma.home, sigma.url)
    identify(second.root, "sigma", "sigma@cn.invalid")
    second.add_peer(world.far_hub("omega"))
    told = sigma.cn("send", "omega", "hello", check=None)
    assert "no peer" not in told.stderr, "origin was asked"
    assert "cn trust" in told.stderr


def test_what_is_sent_to_a_rewound_origin_is_refused(world: World, sigma: Node, pi: Node) -> None:
    """A push that only looked whether it goes forward would bring back what origin lost."""
    left = branches(sigma.home)["main"]
    sigma.cn("send", "pi", "one")
    force_push(sigma.root, sigma.url, f"{left}:refs/heads/main")
    told = sigma.cn("send", "pi", "two", check=1)
    assert "rewound" in told.stderr
    assert "the send is not kept: say it again then" in told.stderr
    assert branches(sigma.home)["main"] == left
    assert "sigma/two" not in branches(pi.home)


def test_what_is_sent_without_origin_waits_and_goes_with_the_next_sync(sigma: Node, pi: Node) -> None:
    away = sigma.home.with_name("away.git")
    shutil.move(sigma.home, away)
    told = sigma.cn("send", "pi", "hello")
    assert "sigma.git" in told.stdout
    assert "the send waits here" in told.stdout
    assert branches(pi.home) == {"main": branches(pi.home)["main"]}
    shutil.move(away, sigma.home)
    sigma.sync()
    assert "sigma/hello" in branches(pi.home)
    assert sigma.outbox() == []


def test_what_the_idle_check_listed_counts_only_until_another_run_was_here(
    world: World, sigma: Node, pi: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what that run pushed would be missing at origin, as if somebody had taken it away."""
    hub = open_hub(sigma.root)
    words, before = ("for-each-ref", "refs/heads/main", "refs/cn/"), branches(sigma.home)
    ours = git_bytes(sigma.root, *words)
    listing = Listing((name, Oid(tip)) for name, tip in before.items())
    listed = Looked({(MAILBOX_KEY, "origin"): listing}, words[1:], ours)
    assert listed.still(hub.git) == listed.listings
    sigma.cn("send", "pi", "meanwhile")
    monkeypatch.setattr(loop, "looked", [listed])
    assert [note.text for note in loop.sync(hub).notes] == []
    assert sigma.main == branches(sigma.home)["main"] != before["main"]
