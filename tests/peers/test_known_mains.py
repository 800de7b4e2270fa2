"""What answers at a peer's URL may be another repository: nothing is delivered there until a person accepts it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.hubs import bare, branches, clone, commit, force_push, git, identify, push, read, tip
from tests.support.servers import KINDS, serve
from tests.support.world import Node, World


@pytest.fixture
def pi(pi: Node, sigma: Node) -> Node:
    """pi, whose hub sigma has seen."""
    sigma.sync()
    return pi


def swap(one: Path, other: Path) -> None:
    """Two repositories change places."""
    beside = other.with_suffix(".swap")
    one.rename(beside)
    other.rename(one)
    beside.rename(other)


def stranger(folder: Path, name: str = "stranger") -> Path:
    """A repository that has nothing to do with anybody's."""
    work = folder / f"{name}-work"
    git(folder, "init", "--quiet", "-b", "main", str(work))
    identify(work, name)
    commit(work, {"README": name}, "mine")
    home = bare(folder / f"{name}.git")
    push(work, home, "main")
    return home


def is_outbox_held(sigma: Node) -> bool:
    return "another repository answers at pi's URL" in sigma.cn("outbox").stdout


def test_what_is_sent_after_a_stranger_took_the_name_stays_here(world: World, sigma: Node, pi: Node) -> None:
    sigma.cn("send", "pi", "First")
    for look in ("with a run in between", "at once"):
        other = stranger(world.folder, look.replace(" ", "-"))
        swap(pi.home, other)
        told = "" if look == "at once" else sigma.sync(check=1).stderr
        assert "is gone" not in told, "what is not in it was never there"
        told += sigma.cn("send", "pi", f"Secret {look}", check=1).stderr
        assert "another repository answers at pi's URL: its main is " in told
        assert "'cn peer accept pi' takes what is there now" in told
        assert set(branches(pi.home)) == {"main"}
        assert is_outbox_held(sigma)
        assert sigma.sync().stderr.count("another repository") == 0, "it is told once"
        assert "another repository answers at pi's URL" in sigma.cn("status").stdout
        assert "another repository answers at pi's URL" in sigma.cn("doctor", check=1).stdout
        swap(pi.home, other)
        sigma.sync()
        assert sigma.outbox() == []
        assert "another repository" not in sigma.cn("status").stdout
    assert len([name for name in branches(pi.home) if "secret" in name]) == 2


def test_an_empty_repository_gets_nothing(world: World, sigma: Node, pi: Node) -> None:
    sigma.cn("send", "pi", "First")
    empty = bare(world.folder / "empty.git")
    swap(pi.home, empty)
    told = sigma.cn("send", "pi", "Secret", check=1).stderr
    assert "it has no main, where there was " in told
    sigma.cn("sync", check=None)
    sigma.cn("outbox", "flush", check=1)
    assert branches(pi.home) == {}
    swap(pi.home, empty)
    assert "delivered sigma/secret" in sigma.cn("outbox", "flush").stdout


def test_a_repository_that_lists_branches_and_no_main_gets_nothing(world: World, sigma: Node, pi: Node) -> None:
    sigma.cn("send", "pi", "First")
    work = clone(pi.home, world.folder / "work")
    push(work, pi.home, "HEAD:refs/heads/trunk")
    git(pi.home, "update-ref", "-d", "refs/heads/main")
    sigma.cn("send", "pi", "Secret", check=1)
    sigma.cn("sync", check=None)
    assert set(branches(pi.home)) == {"trunk", "sigma/first"}


@pytest.mark.parametrize("listed", [True, False])
def test_a_main_of_another_name_is_still_the_peers_where_it_holds_what_was_known(
    world: World, sigma: Node, pi: Node, *, listed: bool
) -> None:
    sigma.cn("send", "pi", "First")
    pi.write({"docs/on.md": "x"}, "main goes on")
    git(pi.root, "push", "-q", "origin", "main:trunk")
    git(pi.home, "symbolic-ref", "HEAD", "refs/heads/trunk")
    git(pi.root, "push", "-q", "origin", ":main")
    if listed:
        assert "pi's hub has no main any more" in sigma.sync(1).stderr
    for words in ("Second", "Third"):
        sigma.cn("send", "pi", words)
    assert {"sigma/second", "sigma/third"} <= branches(pi.home).keys()
    assert "another repository" not in sigma.cn("status").stdout


def test_a_branch_that_does_not_hold_what_was_known_is_not_taken_for_a_renamed_main(
    world: World, sigma: Node, pi: Node
) -> None:
    pi.write({"docs/on.md": "x"}, "main goes on")
    git(pi.root, "push", "-q", "origin", "main")
    sigma.sync()
    sigma.cn("send", "pi", "First")
    git(pi.root, "push", "-q", "origin", "main~1:refs/heads/trunk")
    git(pi.home, "symbolic-ref", "HEAD", "refs/heads/trunk")
    git(pi.home, "update-ref", "-d", "refs/heads/main")
    told = sigma.cn("send", "pi", "Secret", check=1).stderr
    assert "it has no main, where there was " in told
    sigma.cn("sync", check=None)
    assert set(branches(pi.home)) == {"trunk", "sigma/first"}


def test_a_hub_that_was_made_anew_is_accepted_by_a_person(world: World, sigma: Node, pi: Node) -> None:
    sigma.cn("send", "pi", "First")
    swap(pi.home, stranger(world.folder))
    sigma.cn("send", "pi", "Second", check=1)
    before = (sigma.root / ".git/cn/local.json").read_bytes()
    sigma.cn("peer", "accept", "pi", "--dry-run")
    assert (sigma.root / ".git/cn/local.json").read_bytes() == before
    assert f"its main is at {tip(pi.home, 'main')[:12]}" in sigma.cn("peer", "accept", "pi").stdout
    assert "another repository" not in sigma.cn("status").stdout.partition("outbox")[0]
    told = sigma.sync(check=1).stderr
    assert "sigma/second" in branches(pi.home)
    assert "our sigma/first is gone at pi, with the repository that was there before another one was accepted" in told
    assert "sigma/first" not in branches(pi.home)


def test_whoever_is_added_again_is_believed(world: World, sigma: Node, pi: Node) -> None:
    sigma.cn("send", "pi", "First")
    swap(pi.home, stranger(world.folder))
    sigma.cn("send", "pi", "Second", check=1)
    sigma.cn("peer", "remove", "pi")
    sigma.cn("peer", "add", "pi", pi.url)
    sigma.cn("outbox", "flush")
    assert "sigma/second" in branches(pi.home)
    assert "another repository" not in sigma.cn("status").stdout


@pytest.mark.parametrize("how", ["forward", "rewound", "rewritten"])
def test_a_main_that_went_on_or_back_is_still_the_peers(world: World, sigma: Node, pi: Node, how: str) -> None:
    for number in range(2):
        pi.write({f"docs/{number}.md": "x"}, f"page {number}")
    git(pi.root, "push", "-q", "origin", "main")
    sigma.sync()
    sigma.cn("send", "pi", "First")
    if how == "forward":
        pi.write({"docs/3.md": "x"}, "page 3")
        git(pi.root, "push", "-q", "origin", "main")
    else:
        force_push(pi.root, pi.home, "main~1:refs/heads/main")
    if how == "rewritten":
        work = clone(pi.home, world.folder / "work")
        identify(work, "pi")
        commit(work, {"docs/other.md": "x"}, "another page")
        force_push(work, pi.home, "main")
    sigma.cn("send", "pi", "Second")
    assert "sigma/second" in branches(pi.home)


@pytest.mark.sliced(2)
@pytest.mark.parametrize("kind", KINDS)
def test_the_push_itself_says_what_it_expects_over_every_transport(
    world: World, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(kind, tmp_path / "host", tmp_path / "scratch") as served:
        for name, value in served.env.items():
            monkeypatch.setenv(name, value)
        sigma = world.hub("sigma")
        pi = world.hub("pi", url=served.url("pi"), home=bare(served.path("pi")))
        world.link(sigma, pi)
        sigma.sync()
        sigma.cn("send", "pi", "First")
        sigma.cn("send", "pi", "Second")
        assert {"sigma/first", "sigma/second"} <= set(branches(pi.home))
        pi.write({"docs/3.md": "x"}, "page 3")
        git(pi.root, "push", "-q", "origin", "main")
        sigma.cn("send", "pi", "Third")
        assert "sigma/third" in branches(pi.home)
        swap(pi.home, stranger(world.folder))
        sigma.cn("send", "pi", "Secret", check=1)
        assert set(branches(pi.home)) == {"main"}


def test_a_host_that_takes_no_refs_together_is_asked_first(world: World, sigma: Node, pi: Node) -> None:
    sigma.cn("send", "pi", "First")
    git(pi.home, "config", "receive.advertiseAtomic", "false")
    sigma.cn("send", "pi", "Second")
    assert "sigma/second" in branches(pi.home)
    other = stranger(world.folder)
    git(other, "config", "receive.advertiseAtomic", "false")
    swap(pi.home, other)
    sigma.cn("send", "pi", "Secret", check=1)
    assert set(branches(pi.home)) == {"main"}


def test_one_that_the_host_refuses_keeps_no_other_back(world: World, tmp_path: Path) -> None:
    with serve("http", tmp_path / "host", tmp_path / "scratch") as served:
        sigma = world.hub("sigma")
        pi = world.hub("pi", url=served.url("pi"), home=bare(served.path("pi")))
        world.link(sigma, pi)
        sigma.sync()
        sigma.cn("send", "pi", "First")
        hook = pi.home / "hooks/update"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text('#!/bin/sh\ncase $1 in *bad*) echo "not bad ones" >&2; exit 1 ;; esac\n')
        hook.chmod(0o755)
        assert "declined" in sigma.cn("send", "pi", "bad", check=1).stderr
        sigma.cn("send", "pi", "good", check=None)
        assert {"sigma/first", "sigma/good"} <= set(branches(pi.home))
        assert "declined" in sigma.cn("outbox").stdout


def test_what_is_looked_at_leaves_nothing_behind(world: World, sigma: Node, pi: Node) -> None:
    sigma.cn("send", "pi", "First")
    pi.write({"docs/3.md": "x"}, "page 3")
    git(pi.root, "push", "-q", "origin", "main")
    refs = set(sigma.refs())
    sigma.cn("send", "pi", "Second")
    assert not {ref for ref in set(sigma.refs()) - refs if "cn/" in ref and "second" not in ref}
    assert not (sigma.root / ".git/cn/outgoing").exists()
    assert not (sigma.root / ".git/cn/txn/fetch").exists()
    have = git(sigma.root, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
    assert tip(pi.home, "main") not in have


def test_a_memory_of_any_shape_makes_no_run_fail(world: World, sigma: Node, pi: Node) -> None:
    sigma.cn("send", "pi", "First")
    path = sigma.root / ".git/cn/local.json"
    whole = json.loads(path.read_bytes())
    (url,) = whole["known"]
    branch, oid, kept, *_ = whole["known"][url].split(" ")
    for number, shape in enumerate((7, "", "main", f"{branch} {oid} ??", f"../x {oid} {kept}", f"{branch} x {kept} y")):
        path.write_text(json.dumps({**json.loads(path.read_bytes()), "known": {url: shape}}))
        sigma.cn("send", "pi", f"number {number}")
    assert len([name for name in branches(pi.home) if "number" in name]) == 6
    assert b"number 5" in read(pi.home, "sigma/number-5:message.md")
