"""The main of a hub gets another name: no two clones go on with two mains."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest

from tests.support.hubs import branches, git
from tests.support.world import Node, World


def rename_main(node: Node, *, push: bool = True) -> None:
    """As a person does it, by git."""
    git(node.root, "branch", "-m", "main", "trunk")
    config = node.root / ".cn/hub.yaml"
    config.write_text(config.read_text().replace(f"name: {node.name}\n", f"name: {node.name}\nmain: trunk\n"))
    git(node.root, "commit", "--quiet", "--all", "--message", "main is trunk")
    if push:
        git(node.root, "push", "--quiet", "origin", "trunk")


def typed(node: Node, text: str, *beginnings: str) -> None:
    """Type the commands of a text that begin so, literally and in their order."""
    for line in re.findall(r"'(git [^']*)'", " ".join(text.split())):
        if line.startswith(beginnings):
            done = subprocess.run(shlex.split(line), cwd=node.root, check=False, capture_output=True, text=True)
            assert done.returncode == 0, (line, done.stderr)


@pytest.mark.parametrize("old", ["stays", "deleted"])
def test_each_clone_stops_until_it_is_at_the_new_main_and_goes_on_there(
    world: World, sigma: Node, pi: Node, old: str
) -> None:
    second = world.second(sigma)
    second.sync()
    pi.cn("send", "sigma", "First words")
    second.sync()
    second.cn("reply", "pi/first-words", "From the second clone")
    sigma.sync()
    rename_main(sigma)
    stopped = sigma.sync(1).stderr
    assert "the hub's main is trunk now, and origin has main still, with which other clones go on" in stopped
    if old == "deleted":  # no host lets its HEAD be deleted
        git(sigma.home, "symbolic-ref", "HEAD", "refs/heads/trunk")
    beginning = "git push origin refs/" if old == "stays" else "git push origin :refs/heads/"
    typed(sigma, stopped, beginning)
    assert ("main" in branches(sigma.home)) == (old == "stays")
    sigma.sync()
    pi.cn("send", "sigma", "Second words")
    for words in (["sync"], ["inbox", "process"], ["send", "pi", "From an old clone"]):
        done = second.cn(*words, check=1)
        assert "origin's hub goes on in the branch trunk, which its .cn/hub.yaml names as main" in done.stderr
    assert [name for name in branches(pi.home) if "old-clone" in name] == []
    assert "'cn commit' for what is written in threads here, then 'git fetch origin'" in " ".join(done.stderr.split())
    typed(second, done.stderr, "git fetch", "git switch", "git merge")
    second.cn("trust", "--yes")
    second.sync()
    assert "second-words" in second.cn("inbox").stdout
    second.cn("reply", "pi/second-words", "Once")
    sigma.sync()
    assert "second-words" not in sigma.cn("inbox").stdout
    pi.sync()
    assert pi.cn("inbox").stdout.count("second-words") == 1
    assert len([name for name in branches(pi.home) if name.startswith("sigma/re-second")]) == 1
    sigma.sync()
    assert (sigma.sync().stdout, sigma.sync().stderr) == ("", "")


@pytest.mark.parametrize("deliver", ["mailbox", "pickup"])
def test_a_peer_looks_at_the_new_main_once_the_former_one_names_it(world: World, deliver: str) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, deliver)
    world.propose(pi, sigma)
    pi.sync()
    sigma.sync()
    rename_main(sigma)
    typed(sigma, sigma.sync(1).stderr, "git push origin refs/")
    for _ in range(2):
        sigma.sync()
        pi.sync()
    sigma.triage("pi/proposal", "do:merge")
    sigma.cn("inbox", "process")
    for _ in range(2):
        pi.sync()
        sigma.sync()
    why = pi.cn("why", "sigma:proposal").stdout
    assert "answered: merged (shown by the peer's main)" in why
    assert "branch deleted: by us" in why


def test_what_the_former_main_got_meanwhile_is_taken_in(world: World, sigma: Node, pi: Node) -> None:
    second = world.second(sigma)
    second.sync()
    sigma.sync()
    rename_main(sigma)
    second.cn("adhoc", "Made meanwhile")
    stopped = sigma.sync(1).stderr
    assert "take in what they did" in stopped
    typed(sigma, stopped, "git fetch", "git merge", "git push origin refs/heads/trunk", "git push origin refs/")
    sigma.sync()
    assert "made-meanwhile" in git(sigma.root, "ls-tree", "-r", "--name-only", "trunk", "threads/adhoc")
    assert "goes on in the branch trunk" in second.sync(1).stderr


def test_doctor_finds_who_goes_on_with_a_former_main_by_git_alone(world: World, sigma: Node) -> None:
    """A branch of the project's own, made before or after, is none; both hold the hub file."""
    colleague = world.second(sigma)
    sigma.sync()
    git(sigma.root, "push", "--quiet", "origin", "main:feature")
    rename_main(sigma)
    typed(sigma, sigma.sync(1).stderr, "git push origin refs/")
    sigma.sync()
    sigma.cn("doctor")
    for branch in ("main", "feature"):
        git(colleague.root, "fetch", "--quiet", "origin", branch)
        git(colleague.root, "switch", "--quiet", "--detach", "FETCH_HEAD")
        (colleague.root / f"{branch}.txt").write_text("by git alone")
        git(colleague.root, "add", f"{branch}.txt")
        git(colleague.root, "commit", "--quiet", "--message", "by git alone")
        git(colleague.root, "push", "--quiet", "origin", f"HEAD:{branch}")
    sigma.sync()
    told = " ".join(sigma.cn("doctor", check=1).stdout.split())
    assert "origin's main, which was main before, has commits that trunk lacks" in told
    assert "feature" not in told
    git(sigma.home, "symbolic-ref", "HEAD", "refs/heads/trunk")
    typed(sigma, told, "git fetch origin refs/heads/main", "git merge FETCH_HEAD", "git push origin")
    sigma.sync()
    assert (sigma.root / "main.txt").exists()
    assert "main" not in branches(sigma.home)
    sigma.cn("doctor")


def test_a_main_that_a_host_renamed_is_found_and_its_steps_work(world: World, sigma: Node) -> None:
    sigma.sync()
    git(sigma.home, "branch", "-m", "main", "trunk")
    stopped = " ".join(sigma.sync(1).stderr.split())
    assert "origin has no main any more, and its branch trunk goes on from it" in stopped
    assert "if main was renamed there: 'git fetch origin', 'git branch -m main trunk', 'main: trunk' in" in stopped
    assert "if main was renamed there" in sigma.cn("status").stdout
    typed(sigma, stopped, "git fetch", "git branch")
    config = sigma.root / ".cn/hub.yaml"
    config.write_text(f"{config.read_text()}main: trunk\n")
    git(sigma.root, "commit", "--quiet", "--all", "--message", "main is trunk")
    typed(sigma, stopped, "git push -u")
    sigma.sync()
    assert branches(sigma.home).keys() == {"trunk"}


def test_a_new_main_that_origin_does_not_have_yet_is_said_to_be_pushed(world: World, sigma: Node) -> None:
    sigma.sync()
    rename_main(sigma, push=False)
    stopped = sigma.sync(1).stderr
    assert "the hub's main is trunk now, and origin has no such branch yet" in stopped
    typed(sigma, stopped, "git push")
    sigma.sync()
    assert git(sigma.home, "rev-parse", "main") != ""
