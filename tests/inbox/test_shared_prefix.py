"""Somebody else writes under a peer's prefix: whatever he pushes, each branch has its turn, also without keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from cn.protocol.message import Message, format_message
from cn.values.names import Name
from cn.values.timestamps import parse_stamp
from tests.support.hubs import git, write_commit
from tests.support.world import Node, World, is_in_main


def put(home: Path, prefix: str, heads: list[str], first: int = 0) -> None:
    """Branches whose names come before those of honest people."""
    lines = "".join(f"create refs/heads/{prefix}/0b{n:04} {head}\n" for n, head in enumerate(heads, first))
    git(home, "update-ref", "--stdin", stdin=lines)


def broken(home: Path, count: int, first: int = 0) -> list[str]:
    """Commits that git takes in a push, and that its check refuses when they are fetched."""
    tree, main = git(home, "rev-parse", "main^{tree}"), git(home, "rev-parse", "main")
    text = "tree {}\nparent {}\nauthor X <x@y> -5 +0000\ncommitter X <x@y> 1 +0000\n\n{}\n"
    made = (text.format(tree, main, n) for n in range(first, first + count))
    return [git(home, "hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=one) for one in made]


@pytest.mark.parametrize("more", [0, 60], ids=["once", "before each run"])
def test_broken_branches_keep_a_genuine_one_out_for_no_more_than_their_turns(
    world: World, sigma: Node, pi: Node, more: int
) -> None:
    put(sigma.home, "pi", broken(sigma.home, 60))
    world.propose(pi, sigma, "zz")
    done = sigma.cn("sync", check=1)
    assert done.stderr.count("cannot be fetched") == 11, "a flood is a few lines"
    assert "pi: 38 more branches cannot be fetched" in done.stderr
    assert "13 more branches have to be tried one by one: the next run begins with them" in done.stdout
    if more:
        put(sigma.home, "pi", broken(sigma.home, more, 60), 60)
    done = sigma.cn("sync", check=None)
    assert "received pi/zz" in done.stdout
    assert "pi/zz" not in done.stderr
    assert "pi/zz cannot" not in sigma.cn("status", "-v").stdout


def test_one_broken_commit_under_many_names_is_asked_for_once(world: World, sigma: Node, pi: Node) -> None:
    put(sigma.home, "pi", broken(sigma.home, 1) * 100)
    world.propose(pi, sigma, "zz")
    done = sigma.cn("sync", check=1)
    assert "received pi/zz" in done.stdout
    assert done.stderr.count("cannot be fetched") == 1


def huge(home: Path, count: int) -> list[str]:
    """Commits upon a history that is more than cn reads of any."""
    tree, parent = git(home, "rev-parse", "main^{tree}"), git(home, "rev-parse", "main")
    who = "X <x@y> 1700000000 +0000"

    def commit(parent: str, text: str) -> str:
        data = f"tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n\n{text}\n"
        return git(home, "hash-object", "-t", "commit", "-w", "--stdin", stdin=data)

    for n in range(110):
        parent = commit(parent, "A" * 1_200_000 + str(n))
    return [commit(parent, f"tip {n}") for n in range(count)]


def test_histories_that_cannot_be_read_make_no_other_one_unreadable(world: World, sigma: Node, pi: Node) -> None:
    put(sigma.home, "pi", huge(sigma.home, 5))
    head = world.propose(pi, sigma, "zz")
    first = sigma.cn("sync", check=None)
    assert "more branches are read in the next run: others took all the time" in first.stdout
    second = sigma.cn("sync", check=None)
    (name,) = [name for name in sigma.threads() if name.endswith("-pi-zz.md")]
    assert "pi/zz" in first.stdout + second.stdout
    assert "cannot be shown" not in sigma.thread(name)
    sigma.decide("pi/zz", "do:merge")
    assert is_in_main(sigma, head)


def test_a_flood_of_refused_branches_hides_no_other_trouble(world: World, sigma: Node, pi: Node) -> None:
    omega = world.hub("omega")
    world.link(sigma, omega)

    def forged(subject: str) -> str:
        at = parse_stamp("2026-02-05T12:00Z")
        message = Message("message", Name("rho"), Name("sigma"), subject, at, "Words.\n")
        return write_commit(sigma.home, {"message.md": format_message(message)})

    put(sigma.home, "omega", [forged(f"number {n}") for n in range(30)])
    put(sigma.home, "pi", [forged("other")])
    done = sigma.cn("sync", check=1)
    assert done.stderr.count("omega/0b") == 10
    assert "omega: 20 more branches are refused" in done.stderr
    assert "pi/0b0000 is refused" in done.stderr
    status = sigma.cn("status").stdout
    assert "; and 29 more like it" in status
    assert "pi/0b0000 is refused" in status
    assert sigma.cn("status", "-v").stdout.count("omega/0b") == 30
    put(sigma.home, "omega", [forged(f"more {n}") for n in range(190)], 100)
    put(sigma.home, "omega", [forged(f"even more {n}") for n in range(190)], 300)
    for _ in range(2):
        sigma.cn("sync", check=None)
    assert "pi/0b0000 is refused" in sigma.cn("status").stdout, "no memory is full of one peer's"
