"""A command that is started outside of the hub prints steps that work on the hub, where they are typed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess

import pytest

from tests.support.hubs import checkout, clone, cn, commit, git, identify
from tests.support.world import Node, World

STEP = re.compile(r"'(git [^']*checkout [^']*)' brings it back")


@pytest.mark.parametrize("words", [("status",), ("doctor",)])
@pytest.mark.parametrize("place", ["another hub", "a folder"])
def test_a_step_with_a_path_is_about_the_hub_that_was_asked_for(
    world: World, sigma: Node, pi: Node, words: tuple[str, ...], place: str
) -> None:
    """In another hub it would throw away what is edited there, in a folder of the hub there is no such file."""
    peers = sigma.root / "state/peers.md"
    peers.unlink()
    if place == "a folder":
        (here := sigma.root / "docs/deep").mkdir(parents=True)
        told = cn(*words, cwd=here).stdout
    else:
        here = pi.root
        (here / "state/peers.md").write_text(edited := (here / "state/peers.md").read_text() + "\n")
        told = cn(*words, hub=sigma.root, cwd=here).stdout
    (step,) = set(STEP.findall(" ".join(told.split())))
    assert str(sigma.root) in step
    subprocess.run(shlex.split(step), cwd=here, check=True, capture_output=True, timeout=60)
    assert peers.is_file()
    assert git(sigma.root, "status", "--porcelain") == ""
    if place == "another hub":
        assert (here / "state/peers.md").read_text() == edited


def test_in_the_hub_itself_they_are_short(sigma: Node) -> None:
    (sigma.root / "state/peers.md").unlink()
    told = " ".join(cn("status", cwd=sigma.root).stdout.split())
    assert "'git checkout refs/heads/main -- state/peers.md' brings it back" in told
    assert os.path.realpath(sigma.root) not in told


def test_what_is_for_a_clone_in_which_one_works_names_no_hub_and_what_is_for_the_hub_does(
    world: World, sigma: Node, pi: Node
) -> None:
    work = clone(sigma.home, world.folder / "work")
    identify(work, "Pia")
    checkout(work, "fix", "main")
    commit(work, {"docs/fix.md": "fix\n"})
    cn("propose", "fix", "--hub", pi.root, cwd=work, check=0)
    sigma.sync()
    sigma.triage("pi/fix", "do:merge")
    sigma.write({"docs/fix.md": "other\n"})
    sigma.cn("inbox", "process", check=None)
    told = cn("sync", cwd=work, check=0).stdout + cn("status", cwd=work).stdout
    assert "refused" in told
    assert "git -C" not in told
    (pi.root / ".git/rebase-merge").mkdir()
    told = cn("rebase", "fix", cwd=work, check=1).stderr
    assert f"→ in {pi.root}: finish or abort it" in " ".join(told.split())


@pytest.mark.parametrize("words", [("sync",), ("send", "sigma", "Words"), ("status",), ("doctor",)])
def test_what_stops_the_hub_is_mended_there_and_not_where_one_works(
    world: World, sigma: Node, pi: Node, words: tuple[str, ...]
) -> None:
    work = clone(sigma.home, world.folder / "work")
    git(work, "config", "cn.hub", str(pi.root))
    git(pi.root, "switch", "--quiet", "--create", "elsewhere")
    done = cn(*words, cwd=work, check=None)
    told = " ".join((done.stdout + done.stderr).split())
    assert f"in {pi.root}: " in told
    assert f"'git -C {pi.root} switch main'" in told


def test_each_printed_step_of_coming_back_works_where_one_works(world: World, sigma: Node, pi: Node) -> None:
    """What is staged there is somebody's own, and no part of what is restored."""
    work = clone(sigma.home, world.folder / "work", "pi")
    git(work, "config", "cn.hub", str(pi.root))
    git(pi.root, "rm", "-qr", ".cn", "threads", "logs", "state", "spec", "skills")
    git(pi.root, "commit", "-qm", "without cn")
    git(pi.root, "push", "-q", "origin", "main")
    (work / "mine.md").write_text("mine\n")
    git(work, "add", "mine.md")
    told = " ".join(cn("status", cwd=work, check=None).stderr.split()).partition("to come back, ")[2]
    steps = re.findall(r"'((?:git|cn) [^']*)'", told)
    assert [step.split()[0] for step in steps[-2:]] == ["git", "cn"]
    for step in steps[:-1]:
        subprocess.run(shlex.split(step), cwd=work, check=True, capture_output=True, timeout=60)
    cn(*shlex.split(steps[-1])[1:], cwd=work, check=0)
    assert git(work, "status", "--porcelain") == "A  mine.md"
    assert git(pi.root, "log", "-1", "--format=%s") == "restored"
