"""The main of a hub gets another name: no two clones go on with two mains."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest

from tests.support.hubs import bare, branches, clone, cn, commit, git, identify, push, tip
from tests.support.world import Node, World

HUB = ".cn/hub.yaml"


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


def rename_at_host(node: Node) -> None:
    """As "Rename branch" does it."""
    git(node.home, "branch", "-m", "main", "trunk")
    git(node.home, "symbolic-ref", "HEAD", "refs/heads/trunk")


def typed_as_the_host_shows(node: Node) -> None:
    git(node.root, "branch", "-m", "main", "trunk")
    git(node.root, "fetch", "--quiet", "origin")
    git(node.root, "branch", "--set-upstream-to", "origin/trunk", "trunk")
    git(node.root, "remote", "set-head", "origin", "--auto")


def follow_renaming(node: Node, text: str) -> None:
    """Type every step of a renamed main, literally and in their order."""
    steps = " ".join(text.split()).partition("if main was renamed")[2].partition("; else")[0]
    for step in re.findall(r"'([^']*)'", steps):
        if step == "main: trunk":
            config = node.root / ".cn/hub.yaml"
            if step not in config.read_text().splitlines():
                config.write_text(f"{config.read_text()}{step}\n")
                git(node.root, "commit", "--quiet", "--all", "--message", "main is trunk")
            continue
        done = subprocess.run(shlex.split(step), cwd=node.root, check=False, capture_output=True, text=True)
        assert done.returncode == 0, (step, done.stderr)


def merged_and_proven(world: World, sigma: Node, pi: Node, *others: Node) -> None:
    """A proposal made now is merged by sigma, and pi sees that its main shows it."""
    world.propose(pi, sigma, "later", start="origin/trunk")
    sigma.sync()
    sigma.triage("pi/later", "do:merge")
    sigma.cn("inbox", "process")
    for node in (*others, pi, sigma, pi):
        node.sync()
    why = pi.cn("why", "sigma:later").stdout
    assert "cleaned up; merged as" in why
    assert "unproven" not in why
    assert (sigma.root / "docs/later.md").exists()
    assert "main" not in branches(sigma.home)


@pytest.mark.parametrize("who", ["first", "host's lines", "switched", "fresh", "fresh, made anew"])
def test_a_main_that_a_host_renamed_is_found_and_its_steps_work_in_each_clone(
    world: World, sigma: Node, pi: Node, who: str
) -> None:
    """Whoever mends it, and whatever was typed there before: no run makes main anew at origin."""
    second = world.second(sigma)
    for node in (second, sigma, pi):
        node.sync()
    rename_at_host(sigma)
    git(sigma.home, "branch", "a-topic", "trunk")
    mends = sigma
    if who == "host's lines":
        typed_as_the_host_shows(sigma)
    elif who == "switched":
        git(sigma.root, "fetch", "--quiet", "origin")
        git(sigma.root, "branch", "--quiet", "trunk", "origin/trunk")
    elif who.startswith("fresh"):
        mends = Node("sigma", clone(sigma.url, world.folder / "fresh", trusted=False), sigma.home, sigma.url)
        identify(mends.root, "sigma", "sigma@cn.invalid")
    told = mends.sync(1).stderr
    if who == "fresh, made anew":
        typed(mends, told.partition("; else")[2], "git branch main", "git switch main")
        told = mends.cn("trust", "--yes", check=1).stderr
        assert "origin has no main, and its HEAD names trunk, which is this hub's too" in " ".join(told.split())
        mends.sync(1)
        assert "main" not in branches(sigma.home)
    assert "a-topic" not in told
    for words in (["sync"], ["inbox", "process"], ["send", "pi", "Words"]):
        mends.cn(*words, check=1)
    assert "main" not in branches(sigma.home)
    colleague = clone(sigma.url, world.folder / "colleague")
    identify(colleague, "colleague")
    commit(colleague, {"by-git.txt": "x"}, "by git")
    push(colleague, sigma.home, "trunk")
    follow_renaming(mends, told)
    if mends is not sigma:
        mends.cn("trust", "--yes")
    mends.sync()
    for node in [one for one in (sigma, second) if one is not mends]:
        stopped = node.sync(1).stderr
        typed(node, stopped, "git fetch", "git switch", "git merge")
        node.cn("trust", "--yes")
        node.sync()
    pi.sync(1)
    assert "'cn peer accept sigma'" in pi.cn("status").stdout
    pi.cn("peer", "accept", "sigma")
    merged_and_proven(world, mends, pi, second, sigma)


def test_both_who_typed_the_hosts_lines_and_a_fresh_clone_follow_whoever_mended_it(
    world: World, sigma: Node, pi: Node
) -> None:
    second, fresh = world.second(sigma), world.folder / "fresh"
    for node in (second, sigma, pi):
        node.sync()
    rename_at_host(sigma)
    typed_as_the_host_shows(second)
    third = Node("sigma", clone(sigma.url, fresh, trusted=False), sigma.home, sigma.url)
    identify(third.root, "sigma", "sigma@cn.invalid")
    follow_renaming(sigma, sigma.sync(1).stderr)
    sigma.sync()
    for node in (second, third):
        follow_renaming(node, node.sync(1).stderr)
        node.cn("trust", "--yes")
        node.sync()
    pi.sync(1)
    pi.cn("peer", "accept", "sigma")
    merged_and_proven(world, sigma, pi, second, third)


def test_a_new_hub_comes_to_an_origin_whose_head_is_a_branch_of_something_else(world: World, sigma: Node) -> None:
    """Of a hub that origin never had nothing is in the place of main."""
    home = bare(world.folder / "host/other.git")
    work = clone(sigma.url, world.folder / "work")
    git(work, "switch", "--quiet", "--orphan", "trunk")
    commit(work, {"README": "x"}, "another history")
    push(work, home, "trunk")
    git(home, "symbolic-ref", "HEAD", "refs/heads/trunk")
    git(sigma.root, "update-ref", "-d", "refs/cn/origin/main")
    git(sigma.root, "remote", "set-url", "origin", str(home))
    sigma.sync()
    assert set(branches(home)) >= {"main", "trunk"}


def test_a_main_that_was_deleted_here_is_brought_back_beside_a_branch_at_origin(world: World, sigma: Node) -> None:
    """A branch that was made from main and pushed holds the hub file too."""
    sigma.sync()
    git(sigma.root, "switch", "--quiet", "--create", "topic")
    git(sigma.root, "push", "--quiet", "-u", "origin", "topic")
    git(sigma.root, "branch", "--quiet", "-D", "main")
    told = sigma.sync(1).stderr
    assert told.index("brings it back") < told.index("if main was renamed at origin")
    typed(sigma, told.partition("; if main")[0], "git branch", "git switch")
    sigma.sync()


@pytest.mark.parametrize("deliver", ["mailbox", "pickup"])
def test_who_waits_for_a_proof_of_a_renamed_main_is_told_the_way(world: World, deliver: str) -> None:
    """Also where something is to be delivered: what holds the commit that was known is no other repository."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, deliver)
    world.propose(pi, sigma)
    pi.sync()
    sigma.sync()
    pi.sync()
    rename_at_host(sigma)
    follow_renaming(sigma, sigma.sync(1).stderr)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    sigma.cn("inbox", "process")
    told = pi.sync(1).stderr
    assert "sigma's hub has no main any more, which was its main: what is merged there is not proven here" in told
    assert "no main any more" not in pi.sync().stderr, "it is told once"
    status = " ".join(pi.cn("status").stdout.split())
    assert "! sigma's hub has no main any more" in status
    assert "→ 'cn peer accept sigma' looks for sigma's main anew" in status
    assert "looked at again when" not in status
    pi.cn("send", "sigma", "Words")
    assert "another repository" not in pi.cn("status").stdout
    pi.cn("peer", "accept", "sigma")
    pi.sync()
    assert "no main any more" not in pi.cn("status").stdout
    assert "answered: merged (shown by the peer's main)" in pi.cn("why", "sigma:proposal").stdout


def test_a_new_main_that_origin_does_not_have_yet_is_said_to_be_pushed(world: World, sigma: Node) -> None:
    sigma.sync()
    rename_main(sigma, push=False)
    stopped = sigma.sync(1).stderr
    assert "the hub's main is trunk now, and origin has no such branch yet" in stopped
    typed(sigma, stopped, "git push")
    sigma.sync()
    assert git(sigma.home, "rev-parse", "main") != ""


@pytest.mark.parametrize("linked", [True, False])
def test_a_topic_branch_of_before_main_was_renamed_is_told_where_main_is(
    world: World, sigma: Node, linked: bool
) -> None:
    """Its hub file names the former main: that is not made again, nor gone to."""
    git(sigma.root, "branch", "topic")
    rename_main(sigma)
    sigma.sync()
    place, way = sigma.root, "'git switch trunk'"
    if linked:
        place, way = world.folder / "linked", f"'cd {sigma.root}'"
        git(sigma.root, "worktree", "add", "--quiet", str(place), "topic")
    else:
        git(sigma.root, "switch", "--quiet", "topic")
    for words in (("sync",), ("status",), ("inbox",)):
        said = " ".join(cn(*words, cwd=place, check=1).stderr.split())
        assert f"HEAD is topic, and cn works on trunk only → run {way}, then run again" in said
    git(sigma.root, "branch", "main", "topic")  # as an earlier cn told
    said = " ".join(cn("sync", cwd=place, check=1).stderr.split())
    assert f"HEAD is topic, and cn works on trunk only → run {way}, then run again" in said


@pytest.mark.parametrize("there", ["none", "of before", "another"])
def test_a_main_that_is_named_and_goes_on_nowhere_is_a_change_as_any_other(
    world: World, sigma: Node, there: str
) -> None:
    """One unsigned line stopped each clone, with steps that no branch can follow, before cn trust had shown it."""
    other = clone(sigma.url, world.folder / "theirs", "mallory")
    before = tip(other)
    line = (other / HUB).read_text() + "main: evil\n"
    commit(other, {HUB: line}, "wording")
    git(other, "push", "-q", "origin", "HEAD:main")
    if there != "none":
        git(other, "reset", "-q", "--hard", before)
        if there == "another":
            commit(other, {HUB: line.replace("main: evil", "main: third")}, "third")
        git(other, "push", "-q", "origin", "HEAD:refs/heads/evil")
    assert "accept it with 'cn trust'" in sigma.sync(1).stderr
    assert "+main: evil" in sigma.cn("trust", check=1).stdout
    git(sigma.root, "pull", "-q", "--no-rebase", "origin", "refs/heads/main")
    commit(sigma.root, {HUB: (sigma.root / HUB).read_text().replace("main: evil\n", "")}, "no")
    sigma.sync()
