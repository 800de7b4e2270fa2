"""An object that main names and git cannot read is no answer: neither "not there" nor "empty"."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.hubs import branches, git, tip
from tests.support.world import Node, World, is_in_main

DAMAGES = {"gone": None, "empty": b"", "junk": b"no object"}
PLACES = ("state/peers.md", "state/ledger/pi/MONTH", "state/ledger/pi/open", "state/ledger/pi", "state")


def stored(repo: Path, name: str) -> Path:
    """The file of a loose object."""
    oid = git(repo, "rev-parse", name).strip()
    return repo / ".git/objects" / oid[:2] / oid[2:]


def break_object(file: Path, damage: str) -> bytes:
    """What lay there; afterwards the damage does."""
    whole, data = file.read_bytes(), DAMAGES[damage]
    file.unlink()
    if data is not None:
        file.write_bytes(data)
    return whole


def mend(file: Path, whole: bytes) -> None:
    file.unlink(missing_ok=True)
    file.write_bytes(whole)


def month(hub: Node) -> str:
    return git(hub.root, "ls-tree", "--name-only", "main:state/ledger/pi").split()[0]


@pytest.mark.sliced(12)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("damage", ["gone", "empty"])
def test_nothing_is_concluded_from_an_object_that_cannot_be_read(
    world: World, sigma: Node, pi: Node, place: str, damage: str
) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    world.propose(pi, sigma, "second", {"docs/second.md": "2\n"})
    main, asked = tip(sigma.root, "main"), branches(pi.home)
    file = stored(sigma.root, f"main:{place.replace('MONTH', month(sigma))}")
    whole = break_object(file, damage)
    for words in (("sync",), ("inbox", "process")):
        done = sigma.cn(*words, check=1)
        assert "Traceback" not in done.stderr
        assert "refused" not in done.stderr
        assert "not committed" not in done.stderr
        assert "'cn doctor' tells how to bring it back" in " ".join(done.stderr.split()), done.stderr
    assert (tip(sigma.root, "main"), branches(pi.home)) == (main, asked)
    found = sigma.cn("doctor", check=None)
    assert found.returncode != 0
    assert "missing" in found.stdout or "cannot read" in found.stdout or "is empty" in found.stdout, found
    mend(file, whole)
    sigma.process()
    sigma.sync()
    assert is_in_main(sigma, head)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_configuration_that_cannot_be_read_is_not_called_uncommitted(sigma: Node, damage: str) -> None:
    file = stored(sigma.root, "main:.cn/hub.yaml")
    whole = break_object(file, damage)
    done = sigma.cn("sync", check=1)
    assert "git cannot read .cn/hub.yaml" in done.stderr
    assert "git add" not in done.stderr
    mend(file, whole)
    sigma.sync()


def test_a_hub_without_that_file_is_told_to_commit_it(sigma: Node) -> None:
    git(sigma.root, "rm", "--quiet", "--cached", ".cn/hub.yaml")
    git(sigma.root, "commit", "--quiet", "-m", "without it")
    assert "git add -- .cn/hub.yaml" in sigma.cn("sync", check=3).stderr
