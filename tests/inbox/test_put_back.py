"""What its creator took back, or replaced, and somebody pushes again: that is told, and an old decision is void."""

from __future__ import annotations

import shutil

import pytest

from tests.support.hubs import branches, clone, git, identify, make_ssh_key
from tests.support.world import Node, World


def put(place: Node, branch: str, head: str) -> None:
    """Somebody who may push there makes the branch what it was."""
    git(place.home, "update-ref", f"refs/heads/{branch}", head)


def pin(world: World, sigma: Node, pi: Node) -> None:
    """Sigma pins a key of pi's, whose people sign with it from now on."""
    key, public = make_ssh_key(world.folder / "key")
    old = (sigma.root / "state/peers.md").read_text()
    sigma.write({"state/peers.md": old.replace("deliver: mailbox", f'deliver: mailbox\n  key: "{public}"')})
    person = world.person(pi, sigma)
    for name, value in (("gpg.format", "ssh"), ("user.signingKey", str(key)), ("commit.gpgSign", "true")):
        git(person, "config", name, value)


def test_a_decision_of_before_the_withdrawal_is_void(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    world.withdraw(pi, sigma)
    assert "the branch is not there any more" in sigma.process(check=1).stderr
    before = branches(sigma.home)["main"]
    put(sigma, "pi/proposal", head)
    told = sigma.process().stdout
    assert "pushed again as the same commit by whoever can write there" in told
    text = sigma.thread(sigma.only_thread())
    assert "## Void triage" in text
    assert "**Caution:** gone at 2" in text
    assert git(sigma.root, "diff", "--stat", before, "main", "--", "docs") == ""
    assert "pushed again as the same commit" in sigma.cn("inbox").stdout
    assert "pushed again as the same commit" in sigma.cn("status").stdout
    sigma.idle()
    sigma.decide("pi/proposal", "do:merge")
    assert sigma.threads() == [], "who read that may still take it"


def test_a_branch_that_goes_back_to_an_earlier_head_says_so(world: World, sigma: Node, pi: Node) -> None:
    first = world.propose(pi, sigma)
    sigma.sync()
    second = world.propose(pi, sigma, files={"docs/fixed.md": "fixed\n"}, start="HEAD")
    sigma.sync()
    pi.sync()
    put(sigma, "pi/proposal", first)
    words = f"went back to the earlier commit {first[:8]}; {second[:8]} was shown since"
    assert words in sigma.sync().stdout
    assert f"**Caution:** {words}" in sigma.thread(sigma.only_thread())
    sigma.decide("pi/proposal", "do:merge")
    told = pi.sync().stdout
    assert f"that is about {first[:8]}, and ours was at {second[:8]}: somebody moved it" in told


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="keys are made with ssh-keygen")
def test_an_old_signature_does_not_say_who_pushed_it_again(world: World, sigma: Node, pi: Node) -> None:
    pin(world, sigma, pi)
    first = world.propose(pi, sigma)
    sigma.sync()
    world.withdraw(pi, sigma)
    sigma.sync()
    pi.sync()
    put(sigma, "pi/proposal", first)
    sigma.sync()
    assert "its signature does not say who did that" in sigma.triage("pi/proposal", "do:merge", check=1).stderr
    told = pi.sync().stdout
    assert "sigma says pi/proposal is refused" in told
    assert "its signature does not say who did that; its creator pushes a new commit, signed" in told
    assert "refused" in pi.cn("why", "sigma:proposal").stdout
    sigma.idle()
    sigma.write_refused_triage("pi/proposal", "do:merge")
    sigma.process()
    assert "refused" not in pi.sync().stdout, "once"
    second = world.propose(pi, sigma, files={"docs/new.md": "new\n"}, start="HEAD")
    sigma.sync()
    put(sigma, "pi/proposal", first)
    sigma.sync()
    assert "its signature does not say who did that" in sigma.triage("pi/proposal", "do:merge", check=1).stderr
    put(sigma, "pi/proposal", second)
    sigma.sync()
    assert sigma.triage("pi/proposal", "do:merge", check=None).returncode != 0, "that was there before too"
    world.propose(pi, sigma, files={"docs/newer.md": "newer\n"}, start="HEAD")
    sigma.sync()
    assert "**Caution:**" not in sigma.thread(sigma.only_thread())
    sigma.decide("pi/proposal", "do:merge")
    assert sigma.threads() == []


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="keys are made with ssh-keygen")
@pytest.mark.parametrize("decided", [False, True])
@pytest.mark.parametrize("topic", ["urgent", "proposal"])
def test_a_part_of_what_came_before_says_so_and_is_not_merged(
    world: World, sigma: Node, pi: Node, decided: bool, topic: str
) -> None:
    pin(world, sigma, pi)
    world.propose(pi, sigma, topic="base")
    inner = world.propose(pi, sigma, files={"docs/unsafe.md": "unsafe\n"})
    outer = world.propose(pi, sigma, files={"docs/unsafe.md": "safe\n"}, start="HEAD")
    sigma.sync()
    assert "**Caution:**" not in "".join(sigma.thread(name) for name in sigma.threads())
    if decided:
        sigma.decide("pi/proposal", "delete:not now")
    put(sigma, f"pi/{topic}", inner)
    words = f"holds only a part of pi/proposal ({outer[:8]}), which came first"
    back = f"went back to the earlier commit {inner[:8]}"
    assert (words if decided or topic == "urgent" else back) in sigma.sync().stdout
    name = next(one for one in sigma.threads() if f"pi-{topic}" in one)
    assert "**Caution:**" in sigma.thread(name)
    assert "signature" in sigma.triage(f"pi/{topic}", "do:merge", check=1).stderr
    sigma.idle()
    world.propose(pi, sigma, topic=topic, files={"docs/new.md": "new\n"}, start=inner)
    sigma.sync()
    name = next(one for one in sigma.threads() if f"pi-{topic}" in one)
    assert "**Caution:**" not in sigma.thread(name), "a new commit is somebody's who can sign"
    sigma.decide(f"pi/{topic}", "do:merge")
    assert not any(f"pi-{topic}" in one for one in sigma.threads())


@pytest.mark.parametrize("together", [False, True])
def test_work_upon_other_work_is_no_part_where_the_inner_comes_first(
    world: World, sigma: Node, pi: Node, together: bool
) -> None:
    inner = world.propose(pi, sigma, topic="inner")
    if not together:
        sigma.sync()
    world.propose(pi, sigma, topic="outer", files={"docs/more.md": "more\n"}, start=inner)
    sigma.sync()
    assert len(sigma.threads()) == 2
    assert "**Caution:**" not in "".join(sigma.thread(name) for name in sigma.threads())


def test_of_a_part_of_what_git_has_no_more_nothing_is_said(world: World, sigma: Node, pi: Node) -> None:
    inner = world.propose(pi, sigma)
    outer = world.propose(pi, sigma, files={"docs/more.md": "more\n"}, start="HEAD")
    sigma.sync()
    sigma.decide("pi/proposal", "delete:not now")
    put(sigma, "pi/other", inner)
    put(sigma, "pi/proposal", inner)
    for ref in git(sigma.root, "for-each-ref", "--format=%(refname)", "--contains", outer).split():
        git(sigma.root, "update-ref", "-d", ref)
    git(sigma.root, "gc", "-q", "--prune=now")
    sigma.sync()
    assert "**Caution:**" not in "".join(sigma.thread(name) for name in sigma.threads())


def second(world: World, sigma: Node) -> Node:
    """Another clone of sigma's hub, up to date."""
    root = clone(sigma.home, world.folder / "cn-sigma-2", trusted=True)
    identify(root, "sigma", "sigma@cn.invalid")
    node = Node("sigma", root, sigma.home, sigma.url)
    node.sync()
    return node


def come_back(world: World, sigma: Node, pi: Node, head: str, way: str) -> None:
    """What sigma's first clone sees: the branch goes, or moves, and is ``head`` again."""
    if way == "withdrawn":
        world.withdraw(pi, sigma)
    else:
        world.propose(pi, sigma, files={"docs/other.md": "other\n"}, start="HEAD")
    sigma.sync()
    put(sigma, "pi/proposal", head)
    sigma.sync()


@pytest.mark.parametrize("way", ["withdrawn", "replaced"])
@pytest.mark.parametrize("commands", [(), ("sync",), ("sync", "commit")], ids="-".join)
def test_a_decision_of_another_clone_of_before_is_void_too(
    world: World, sigma: Node, pi: Node, way: str, commands: tuple[str, ...]
) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    other = second(world, sigma)
    other.triage("pi/proposal", "do:merge")
    come_back(world, sigma, pi, head, way)
    for word in commands:
        other.cn(word, check=None)
    if commands:
        assert f"void: the decision names the head {head[:8]}" in " ".join(other.cn("status").stdout.split())
    assert f"void: the decision names the head {head[:8]}" in other.process(check=1).stderr
    name = other.only_thread()
    assert "**Caution:**" in other.thread(name)
    assert "## Void triage" in other.thread(name)
    assert "**Caution:**" in git(sigma.home, "show", f"main:threads/inbox/{name}")
    other.decide("pi/proposal", "do:merge")
    assert "**Caution:**" in git(sigma.home, "show", f"main:threads/inbox/done/{name}")


def test_each_time_that_a_head_comes_back_is_another(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    come_back(world, sigma, pi, head, "withdrawn")
    other = second(world, sigma)
    other.triage("pi/proposal", "do:merge")
    come_back(world, sigma, pi, head, "withdrawn")
    why = f"void: the decision names the head {head[:8]}, time 1, the branch is at {head[:8]}, time 2"
    assert why in other.process(check=1).stderr
    assert "(time 2)" in other.thread(other.only_thread())


def test_a_decision_about_an_earlier_head_is_not_merged_with_the_text_of_another(
    world: World, sigma: Node, pi: Node
) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    other = second(world, sigma)
    other.triage("pi/proposal", "do:merge")
    world.propose(pi, sigma, files={"docs/other.md": "other\n"}, start="HEAD")
    sigma.sync()
    other.sync()
    assert "void: the thread shows the head" in other.cn("commit", check=1).stderr
    assert "void: the thread shows the head" in other.process(check=1).stderr


def test_an_answer_shown_in_an_old_copy_takes_no_caution_out(world: World, sigma: Node, pi: Node) -> None:
    head = world.propose(pi, sigma)
    sigma.sync()
    other = second(world, sigma)
    other.cn("comment", "pi/proposal", "Which licence?")
    sigma.sync()
    pi.sync()
    other.triage("pi/proposal", "do:merge")
    come_back(world, sigma, pi, head, "withdrawn")
    pi.cn("reply", pi.only_thread(), "MIT.")
    other.sync()
    name = other.only_thread()
    text = git(sigma.home, "show", f"main:threads/inbox/{name}")
    assert "**Caution:**" in text
    assert "MIT." in text
    other.cn("inbox", "process", check=None)
    assert other.threads() == [name]
