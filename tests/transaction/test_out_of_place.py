"""A link or a file where main must have a folder of cn's: nothing is read or written through it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.support.hubs import branches, cn, git, tip
from tests.support.world import Node, World, is_in_main


def replaced(node: Node, folder: Path, place: str, what: str) -> str:
    """Somebody pushes a main to the origin in which ``place`` is no folder; its commit."""
    person = folder / "pusher"
    git(folder, "clone", "--quiet", str(node.home), str(person))
    git(person, "rm", "-r", "--quiet", "--ignore-unmatch", "--", place)
    (person / place).parent.mkdir(parents=True, exist_ok=True)
    if what == "link":
        (person / place).symlink_to("/tmp")
    else:
        (person / place).write_text("no folder\n")
    git(person, "add", "--", place)
    git(person, "-c", "user.name=eve", "-c", "user.email=eve@x", "commit", "--quiet", "-m", "out of place")
    git(person, "push", "--quiet", "origin", "main")
    return tip(person)


@pytest.mark.sliced(6)
@pytest.mark.parametrize("what", ["link", "file"])
@pytest.mark.parametrize("place", ["state/ledger", "state/ledger/pi"])
def test_an_origin_without_the_ledger_is_refused_and_what_was_known_is_kept(
    world: World, sigma: Node, pi: Node, tmp_path: Path, place: str, what: str
) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    known, told = tip(sigma.root, "main"), branches(pi.home)
    bad = replaced(sigma, tmp_path, place, what)
    for words in (("sync",), ("inbox", "process")):
        done = sigma.cn(*words, check=1)
        assert "lost entries of the ledger" in done.stderr
        assert "refs/cn/rescue/" in done.stderr
        assert "fatal" not in done.stderr
    assert "lost entries of the ledger" in sigma.cn("doctor", "--full", check=1).stdout
    assert (tip(sigma.root, "main"), tip(sigma.home, "main"), branches(pi.home)) == (known, bad, told)
    git(sigma.root, "push", "--quiet", "--force", "origin", f"refs/cn/rescue/{known[:16]}:refs/heads/main")
    sigma.process()
    assert is_in_main(sigma, head)


@pytest.mark.sliced(6)
@pytest.mark.parametrize("what", ["link", "file"])
@pytest.mark.parametrize("place", ["state/ledger", "state/ledger/pi"])
def test_a_commit_made_here_that_replaces_the_ledger_is_taken_back(
    world: World, sigma: Node, pi: Node, place: str, what: str
) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    git(sigma.root, "rm", "-r", "--quiet", "--", place)
    (sigma.root / place).parent.mkdir(parents=True, exist_ok=True)
    if what == "link":
        (sigma.root / place).symlink_to("/tmp")
    else:
        (sigma.root / place).write_text("no folder\n")
    git(sigma.root, "add", "--", place)
    git(sigma.root, "commit", "--quiet", "-m", "out of place")
    sigma.process()
    assert is_in_main(sigma, head)
    assert git(sigma.root, "cat-file", "-t", "main:state/ledger/pi").strip() == "tree"
    assert "state/ledger" not in sigma.cn("doctor", check=None).stdout


OWN = {
    "threads/adhoc": ("adhoc", "an idea"),
    "threads/reflections": ("daily",),
    "threads/reflections/daily": ("daily",),
    "state/mca": ("mca", "add", "look at the lock"),
}


@pytest.mark.sliced(18)
@pytest.mark.parametrize("what", ["link", "file"])
@pytest.mark.parametrize("place", OWN)
@pytest.mark.parametrize("synced", [True, False])
def test_what_stands_in_the_place_of_a_folder_is_told_alike_everywhere(
    world: World, sigma: Node, pi: Node, tmp_path: Path, place: str, what: str, synced: bool
) -> None:
    words = f"cn needs the folder {place}, and in main it is {'a symlink' if what == 'link' else 'no folder'}"
    replaced(sigma, tmp_path, place, what)
    if synced:
        done = sigma.cn("sync", "-q", check=1)
        assert words in done.stderr
        assert sigma.cn("sync", "-q").stderr == ""  # told once
        assert not (sigma.root / place).is_symlink()  # nothing is brought that leads elsewhere
    done = sigma.cn(*OWN[place], check=1)
    assert words in done.stderr
    assert "✓" not in done.stdout
    status = json.loads(sigma.cn("status", "--json", check=None).stdout)
    assert [one["text"] for one in status["standing"]] == [words]
    assert status["stopped"] is None  # other runs work
    if not synced:
        sigma.sync(check=1)
    assert words in sigma.cn("doctor", check=1).stdout
    world.propose(pi, sigma)
    sigma.sync()
    assert len(sigma.threads()) == 1
    (standing,) = json.loads(sigma.cn("status", "--json", check=None).stdout)["standing"]
    (command,) = re.findall("'(git .*?)',", standing["remedy"])
    git(sigma.root, *shlex.split(command)[1:])
    git(sigma.root, "commit", "--quiet", "-m", "no folder of cn's")
    sigma.sync()
    sigma.cn(*OWN[place])
    assert json.loads(sigma.cn("status", "--json").stdout)["standing"] == []
    assert "cn needs the folder" not in sigma.cn("doctor", check=None).stdout


def test_in_a_bare_repository_with_work_trees_cn_works_in_the_one_on_main_alone(
    world: World, sigma: Node, tmp_path: Path
) -> None:
    """The folder around a bare repository is no work tree, and main must not move below the one that has it."""
    place = tmp_path / "proj"
    git(tmp_path, "clone", "--quiet", "--bare", str(sigma.home), str(place / ".bare"))
    (place / ".git").write_text("gitdir: ./.bare\n")
    git(place, "worktree", "add", "--quiet", "main", "main")
    cn("trust", "--yes", cwd=place / "main", check=0)
    head = git(place / "main", "rev-parse", "main")
    for words in (("sync",), ("status",), ("doctor",)):
        told = cn(*words, cwd=place)
        assert told.returncode != 0
        assert "is no work tree: its repository is bare" in told.stdout + told.stderr
    git(place, "config", "core.bare", "false")  # by hand: it is one work tree more, which has nothing
    said = cn("sync", cwd=place).stderr
    assert "main is checked out in" in said or "more than one work tree is on main" in said
    assert git(place / "main", "rev-parse", "main") == head
    assert sorted(path.name for path in place.iterdir()) == [".bare", ".git", "main"]
    git(place, "config", "core.bare", "true")
    cn("sync", cwd=place / "main", check=0)
    git(place / "main", "sparse-checkout", "set", "--no-cone", "/*")  # git moves core.bare to another file by it
    cn("sync", cwd=place / "main", check=0)


def test_a_work_tree_that_was_removed_by_hand_keeps_main_from_none(world: World, sigma: Node, tmp_path: Path) -> None:
    git(sigma.root, "switch", "--quiet", "--create", "other")
    git(sigma.root, "worktree", "add", "--quiet", str(tmp_path / "m"), "main")
    shutil.rmtree(tmp_path / "m")
    told = sigma.cn("sync", check=1).stderr
    assert "run 'git worktree prune', then 'git switch main', then run again" in told
    for step in ("worktree prune", "switch --quiet main"):
        git(sigma.root, *step.split())
    sigma.sync()


def test_a_clone_that_is_called_bare_by_mistake_works_on(sigma: Node) -> None:
    git(sigma.root, "config", "core.bare", "true")
    sigma.sync()
