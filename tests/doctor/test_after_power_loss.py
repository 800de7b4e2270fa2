"""Files of git that a crash of the machine left empty: what cn says is true, and its remedy, typed, mends it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.hubs import git
from tests.support.world import Node, World

Damage = Callable[[Path], None]


def empty(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(b"")


def empty_object(root: Path, name: str) -> None:
    oid = git(root, "rev-parse", name)
    empty(root / ".git/objects" / oid[:2] / oid[2:])


def empty_packed_refs(root: Path) -> None:
    git(root, "pack-refs", "--all")
    empty(root / ".git/packed-refs")


def cut_packed_refs(root: Path) -> None:
    git(root, "pack-refs", "--all")
    path = root / ".git/packed-refs"
    path.write_bytes(path.read_bytes()[:-20])


def zeroed_packed_refs(root: Path) -> None:
    git(root, "pack-refs", "--all")
    path = root / ".git/packed-refs"
    path.write_bytes(bytes(path.stat().st_size))


def empty_packed_refs_and_log(root: Path) -> None:
    empty_packed_refs(root)
    (root / ".git/logs/refs/heads/main").unlink()


def empty_pack_index(root: Path) -> None:
    git(root, "repack", "-qad")
    for path in (root / ".git/objects/pack").glob("*.idx"):
        empty(path)


DAMAGES: dict[str, Damage] = {
    "packed refs": empty_packed_refs,
    "packed refs, no log": empty_packed_refs_and_log,
    "packed refs, cut short": cut_packed_refs,
    "packed refs of zeros": zeroed_packed_refs,
    "main": lambda root: empty(root / ".git/refs/heads/main"),
    "main of origin": lambda root: empty(root / ".git/refs/remotes/origin/main"),
    "trusted": lambda root: empty(root / ".git/refs/cn/trusted"),
    "commit": lambda root: empty_object(root, "HEAD"),
    "tree": lambda root: empty_object(root, "HEAD^{tree}"),
    "thread": lambda root: empty_object(root, f"HEAD:threads/inbox/{next((root / 'threads/inbox').glob('*.md')).name}"),
    "pack index": empty_pack_index,
    "index": lambda root: empty(root / ".git/index"),
}
_TYPED = re.compile(r"'((?:git|rm|mv|find) [^']+)'")


def type_remedy(root: Path, said: str) -> None:
    """Every command of the remedies, in their order, and what is said in words of the index."""
    remedy = "\n".join(line for line in said.splitlines() if "→" in line)
    if "move .git/index away" in remedy:
        (root / ".git/index").rename(root / ".git/index.moved")
    commands = list(dict.fromkeys(_TYPED.findall(remedy.split("; else")[0])))
    assert commands, said
    for command in commands:
        done = subprocess.run(command, shell=True, cwd=root, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (command, done.stderr, said)


@pytest.mark.parametrize("what", DAMAGES)
def test_the_remedy_of_a_damage_mends_it(world: World, sigma: Node, pi: Node, what: str) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    git(sigma.root, "fetch", "-q", "origin")
    tip = git(sigma.root, "rev-parse", "main")
    sigma.triage("pi/proposal", "do:merge")
    world.propose(pi, sigma, topic="other")
    DAMAGES[what](sigma.root)
    for _ in range(4):  # one damage may hide another
        runs = [sigma.cn("sync", check=None), sigma.cn("inbox", "process", check=None)]
        said = "".join(done.stdout + done.stderr for done in runs)
        assert "creator" not in said
        assert "delete the thread" not in said
        assert "no commit yet" not in said
        assert "detached" not in said
        if all(done.returncode == 0 for done in runs):
            break
        if "cn doctor" in said or "→" not in said:
            said = sigma.cn("doctor", check=None).stdout
            said = "\n".join(part for part in said.split("\nproblem ") if "run again; else" not in part)
        type_remedy(sigma.root, said)
    else:
        pytest.fail(said)
    assert git(sigma.root, "merge-base", tip, "main") == tip, "nothing of main is lost"
    assert "✓ merged SHA" in [row[2] for row in sigma.rows()]
    assert len(sigma.threads()) == 1, "the other one came in"
    assert "damaged" not in sigma.cn("doctor", check=None).stdout


@pytest.mark.parametrize("name", ["HEAD", "HEAD~1"])
def test_main_comes_back_where_an_older_branch_of_origin_is_new_here(
    world: World, sigma: Node, pi: Node, name: str
) -> None:
    """git asks for what is new alone then, also with ``--refetch``: main was what it had noted of origin."""
    world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "do:merge")
    empty_object(sigma.root, name)
    for _ in range(3):
        said = sigma.cn("doctor", check=None).stdout
        if "problem" not in said:
            break
        type_remedy(sigma.root, "\n".join(part for part in said.split("\nproblem ") if "run again; else" not in part))
        sigma.cn("sync", check=None)
    assert "healthy" in said
    git(sigma.root, "fsck", "--connectivity-only")
    sigma.sync()


@pytest.mark.parametrize("lost", ["/[0-9]*", ""], ids=["month", "folder"])
def test_while_an_object_of_the_ledger_is_missing_nothing_is_told_of_what_it_does_not_say(
    world: World, sigma: Node, pi: Node, lost: str
) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    pins = git(sigma.root, "for-each-ref", "refs/cn/pins")
    (path,) = sigma.root.glob(f"state/ledger/pi{lost}")
    empty_object(sigma.root, f"HEAD:{path.relative_to(sigma.root)}")
    examined = sigma.cn("doctor", check=1).stdout
    assert "is empty: a crash of the machine left it so" in examined
    for wrong in ("is no thread cn knows", "the ledger knows nothing of it", "rebuilds it from the history"):
        assert wrong not in examined
    assert "cannot be told" in examined
    fixed = sigma.cn("doctor", "--fix", check=None)
    assert "dropped" not in fixed.stdout + fixed.stderr
    assert git(sigma.root, "for-each-ref", "refs/cn/pins") == pins
