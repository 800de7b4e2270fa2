"""``cn propose`` in a work tree of the project's own clone, in which cn runs for the project's hub."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.support.hubs import branches, cn, commit, git, identify
from tests.support.world import Node, World


@pytest.fixture
def tree(world: World, sigma: Node, pi: Node) -> Path:
    """A branch of a maintainer of sigma, beside the clone in which sigma's cn runs; pi is the maintainer's own hub."""
    pi.sync()
    root = world.folder / "tree"
    git(sigma.root, "worktree", "add", "-q", "-b", "mine", str(root))
    identify(root, "Sia", "sia@people.example")
    commit(root, {"docs/mine.md": "one\n"}, "Mine")
    return root


def words(done: CompletedProcess[str]) -> str:
    return " ".join(f"{done.stdout} {done.stderr}".split())


def steps(said: str) -> list[list[str]]:
    """The commands of cn that were printed."""
    return [shlex.split(step)[1:] for step in re.findall(r"'(cn [^']+)'", said)]


def test_what_is_upon_the_projects_own_main_is_proposed_to_it_by_another_hub(tree: Path, pi: Node) -> None:
    said = words(cn("propose", "mine", cwd=tree, check=1))
    assert "for sigma itself, 'cn propose mine --hub DIR', with DIR your own hub" in said
    assert "git clone" not in said, "the hub of another project"
    (step,) = steps(said)
    cn(*(str(pi.root) if word == "DIR" else word for word in step), cwd=tree, check=0)


def test_of_several_peers_only_those_are_named_with_whose_main_it_has_history_in_common(
    world: World, tree: Path, sigma: Node
) -> None:
    world.link(sigma, world.hub("omega"))
    sigma.sync()
    said = words(cn("propose", "mine", cwd=tree, check=1))
    assert f"to whom is not clear: {tree} is a clone of sigma itself" in said
    assert "'cn propose mine --hub DIR'" in said
    assert "for a peer, name it behind the topic: pi, omega" in said, "nobody knows yet"
    for peer in ("pi", "omega"):
        cn("propose", "mine", peer, cwd=tree, check=1)
    said = words(cn("propose", "mine", cwd=tree, check=1))
    assert "'cn propose mine --hub DIR', with DIR your own hub" in said
    assert "name it behind the topic" not in said
    git(tree, "fetch", "-q", str(world.nodes["omega"].url), "main")
    git(tree, "checkout", "-q", "-b", "theirs", "FETCH_HEAD")
    commit(tree, {"docs/theirs.md": "one\n"}, "Theirs")
    said = words(cn("propose", "theirs", cwd=tree, check=1))
    assert "name the peer behind the topic: pi, omega" in said, "it is not upon sigma's main"


def test_steps_name_the_hub_that_the_clone_does_not_remember(world: World, tree: Path, sigma: Node, pi: Node) -> None:
    """Each is followed literally, in the same folder."""
    said = words(cn("propose", "mine", "--hub", "../cn-pi", cwd=tree, check=0))
    printed = steps(said)
    assert [step[0] for step in printed] == ["sync", "why", "propose", "rebase"]
    moved = commit(tree, {"docs/mine.md": "two\n"}, "More")
    for step in printed:
        assert step[-2:] == ["--hub", str(pi.root)]
        cn(*step, cwd=tree, check=0)
    name, url = world.branch(pi, sigma, "mine")
    assert branches(url)[name] == moved
    for refused in (("rebase", "other"), ("withdraw", "other")):
        ((verb, *more),) = steps(words(cn(*refused, "--hub", "../cn-pi", cwd=tree, check=1)))
        assert (verb, more) == ("status", ["--hub", str(pi.root)])
    cn("withdraw", "mine", "--hub", "../cn-pi", cwd=tree, check=0)
    assert name not in branches(url)


def test_steps_stay_short_where_the_clone_remembers_the_hub(world: World, sigma: Node, pi: Node) -> None:
    desk = world.folder / "desk"
    git(world.folder, "clone", "-q", str(sigma.url), str(desk))
    identify(desk, "Pia", "pia@people.example")
    git(desk, "checkout", "-q", "-b", "fix")
    commit(desk, {"docs/fix.md": "one\n"}, "Fix")
    said = words(cn("propose", "fix", "--hub", pi.root, cwd=desk, check=0))
    assert "noted in" in said
    assert "'cn rebase fix'" in said
