"""A program that replaces words or wraps lines went over cn's records, and a person committed and pushed that."""

from __future__ import annotations

import re
import subprocess
import textwrap
from collections.abc import Callable

import pytest

from cn.protocol.ledger import FOLDER
from tests.support.hubs import branches, commit, git, push
from tests.support.world import Node, World, is_in_main

PI = f"{FOLDER}/pi"


def replace(text: str) -> str:
    return text.replace("received", "got")


def wrap(text: str) -> str:
    return "".join(f"{part}\n" for line in text.splitlines() for part in textwrap.wrap(line, 72))


def cut(text: str) -> str:
    """Breaks each line between two words, so that what stands before is an event of its own."""
    return text.replace(" branch=", "\nbranch=")


PROGRAMS = [replace, wrap, cut]


@pytest.fixture
def second(world: World, sigma: Node, pi: Node) -> Node:
    """Two clones of a hub with two proposals that wait, and one that was merged."""
    for topic in ("a", "b", "d"):
        world.propose(pi, sigma, topic)
    sigma.sync()
    sigma.decide("pi/a", "do:merge")
    node = world.second(sigma)
    for one in (sigma, node):
        one.sync()
    return node


def garble(node: Node, program: Callable[[str], str]) -> str:
    names = git(node.root, "ls-files", "--", PI).split()
    files = {name: program((node.root / name).read_text()) for name in names}
    return commit(node.root, dict(files), "format")


def obey(node: Node, told: str) -> list[str]:
    """Do literally what is told."""
    steps = re.findall(r"'((?:git|cn) [^']*)'", told.partition("; if the loss is meant")[0].partition("→")[2])
    for step in steps:
        if step.startswith("cn "):
            node.cn(*step.split()[1:])
        else:
            subprocess.run(step, shell=True, cwd=node.root, check=True, capture_output=True, timeout=60)
    return [" ".join(step.split()[:2]) for step in steps]


def in_order(world: World, pi: Node, *nodes: Node) -> None:
    """Nobody is left out, and both proposals wait in all clones; decided in one, both are merged once."""
    for node in (*nodes, *nodes):
        assert "left out" not in node.cn("sync").stderr
    assert len({node.main for node in nodes}) == 1
    for node in nodes:
        assert "healthy" in node.cn("doctor").stdout
        assert [name[9:] for name in node.threads()] == ["pi-b.md", "pi-d.md"]
    nodes[0].decide("pi/b", "do:merge")
    nodes[1].decide("pi/d", "delete:no")
    world.settle(pi, *nodes)
    assert is_in_main(nodes[1], git(nodes[0].root, "rev-parse", "main"))
    assert [name for name in branches(nodes[0].home) if name.startswith("pi/")] == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_steps_of_the_other_clone_bring_the_entries_back_and_not_the_damage(
    world: World, sigma: Node, pi: Node, second: Node, program: Callable[[str], str]
) -> None:
    was = {name: (sigma.root / name).read_bytes() for name in git(sigma.root, "ls-files", "--", PI).split()}
    garble(second, program)
    push(second.root, second.url, "main")
    told = sigma.cn("sync", check=1).stderr
    assert "lost entries of the ledger" in told
    assert obey(sigma, told) == ["git merge", "cn sync"]
    assert {name: (sigma.root / name).read_bytes() for name in was} == was
    in_order(world, pi, sigma, second)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_clone_that_did_it_makes_it_good_where_it_was_pushed_by_hand(
    world: World, sigma: Node, pi: Node, second: Node, program: Callable[[str], str]
) -> None:
    """Before any run, in this clone and in the one whose entries they were."""
    was = {name: (sigma.root / name).read_bytes() for name in git(sigma.root, "ls-files", "--", PI).split()}
    garble(second, program)
    push(second.root, second.url, "main")
    assert "took entries out of the ledger; they are restored" in second.sync().stdout
    assert {name: (second.root / name).read_bytes() for name in was} == was
    in_order(world, pi, sigma, second)


def test_lines_that_are_corrected_are_not_brought_back_by_another_clone(
    world: World, sigma: Node, pi: Node, second: Node
) -> None:
    (month,) = [name for name in git(sigma.root, "ls-files", "--", PI).split() if not name.endswith("open")]
    text = (sigma.root / month).read_text()
    sigma.write({month: f"{text}{replace(text)}"}, "garbled beside")
    for node in (sigma, second):
        assert "pi is left out: its ledger is damaged" in node.cn("sync", check=1).stderr
    sigma.write({month: text}, "lines out")
    git(sigma.root, "update-ref", "refs/cn/origin/main", "refs/heads/main")
    in_order(world, pi, second, sigma)


def test_what_a_program_did_here_is_made_good_before_anybody_sees_it(
    world: World, sigma: Node, pi: Node, second: Node
) -> None:
    garble(sigma, replace)
    done = sigma.cn("sync")
    assert "took entries out of the ledger; they are restored" in done.stdout
    assert "left out" not in done.stderr
    in_order(world, pi, second, sigma)


def test_where_origin_went_on_meanwhile_the_entries_come_back_once(
    world: World, sigma: Node, pi: Node, second: Node
) -> None:
    garble(second, replace)
    push(second.root, second.url, "main")
    told = sigma.cn("sync", check=1).stderr
    commit(second.root, {"notes.txt": "note\n"}, "note")
    push(second.root, second.url, "main")
    obey_all_but_last = told.replace("'cn sync'", "cn sync")
    assert obey(sigma, obey_all_but_last) == ["git merge"]
    assert obey(sigma, sigma.cn("sync", check=1).stderr) == ["git merge", "cn sync"]
    assert (sigma.root / "notes.txt").exists()
    in_order(world, pi, sigma, second)


def test_threads_of_a_peer_whose_ledger_cannot_be_read_stay(world: World, sigma: Node, pi: Node, second: Node) -> None:
    garble(second, replace)
    push(second.root, second.url, "main")
    commit(second.root, {"threads/inbox/20260101-omega-x.md": "# x\n", f"{PI}/open": ""}, "and a stray")
    untold = "; what is pending from pi cannot be told, see 'cn doctor'"
    told = second.cn("doctor", check=1).stdout
    assert re.findall(r"git rm -- (\S+)'", told) == ["threads/inbox/20260101-omega-x.md"]
    assert "is missing" not in told
    for name in second.threads():
        if "-pi-" in name:
            assert f"whether threads/inbox/{name} waits for a decision cannot be told" in told
    commit(second.root, {f"{PI}/open": "<<<<<<<\n"}, "open")
    status = second.cn("status").stdout
    assert f"nothing pending{untold}" in status
    assert "-pi-" not in status.partition("no thread, not executed")[2]
    assert second.cn("inbox").stdout == f"nothing pending{untold}\n"
    assert second.cn("done", "--peer", "pi").stdout == f"nothing pending from pi{untold}\n"
    assert "what is pending from pi cannot be told" in second.cn("inbox", "triage", "pi/b", "do:merge", check=1).stderr
