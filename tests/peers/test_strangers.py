"""Another hub at a peer's URL gets nothing of the peer's, by cn or by a step that it prints."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.support.hubs import bare, branches, clone, cn, commit, git, identify, read
from tests.support.world import Node, World

PUSH = re.compile(r"'(git push [^']*)'")
TAKE_OUT = re.compile(r"'(git rm -- [^']+)', a commit and its push take it out")


@pytest.fixture
def omega(world: World, sigma: Node, pi: Node) -> Node:
    """Another peer of sigma, which knows both."""
    node = world.hub("omega")
    world.link(sigma, node)
    sigma.sync()
    return node


def write_url(sigma: Node, old: str, new: str) -> None:
    """Somebody edits pi's ``hub:`` in peers.md."""
    before, name, rest = (sigma.root / "state/peers.md").read_text().partition("- name: pi\n")
    assert old in rest
    sigma.write({"state/peers.md": before + name + rest.replace(old, new, 1)}, "another URL")


def step_in(text: str) -> list[str]:
    """The push that a remedy names, as it is typed."""
    (found,) = set(PUSH.findall(" ".join(text.split())))
    return shlex.split(found)


def views(sigma: Node) -> str:
    """What the status and the doctor show."""
    return sigma.cn("status", check=None).stdout + sigma.cn("doctor", check=None).stdout


def test_at_a_hub_that_is_called_otherwise_nothing_is_gone(sigma: Node, pi: Node, omega: Node) -> None:
    sigma.cn("send", "pi", "For pi alone")
    write_url(sigma, pi.url, omega.url)
    told = sigma.sync()
    assert "pi's hub at " in told.stdout
    assert "calls itself omega" in told.stdout
    for text in (told.stdout + told.stderr, views(sigma)):
        assert "gone" not in text
        assert "git push" not in text
    write_url(sigma, omega.url, pi.url)
    told = sigma.sync()
    assert "again" not in told.stdout, "it was there all the time"
    assert "calls itself" not in views(sigma)
    assert "received sigma/for-pi-alone" in pi.sync().stdout


def test_cn_sends_nothing_to_a_hub_that_is_called_otherwise(sigma: Node, pi: Node, omega: Node) -> None:
    sigma.cn("send", "pi", "First")
    write_url(sigma, pi.url, omega.url)
    sigma.sync()
    told = sigma.cn("send", "pi", "Secret", check=1).stderr
    assert "sigma/secret for pi is not delivered: pi's hub at " in told
    assert "calls itself omega" in told
    sigma.cn("outbox", "flush", check=1)
    assert set(branches(omega.home)) == {"main"}
    assert "calls itself omega" in sigma.cn("outbox").stdout
    assert "calls itself omega" in views(sigma)
    sigma.cn("send", "omega", "For omega")
    assert "sigma/for-omega" in branches(omega.home), "what is its own gets there"
    write_url(sigma, omega.url, pi.url)
    assert "delivered sigma/secret at pi" in sigma.sync().stdout
    assert "sigma/secret" in branches(pi.home)


def test_what_waits_for_a_hub_that_is_called_otherwise_goes_there_once_somebody_says_so(
    sigma: Node, pi: Node, omega: Node
) -> None:
    sigma.cn("send", "pi", "First")
    write_url(sigma, pi.url, omega.url)
    sigma.sync()
    told = " ".join(sigma.cn("send", "pi", "Words", check=1).stderr.split())
    assert "'cn peer accept pi' sends it there, if it is pi's hub" in told
    sigma.cn("peer", "accept", "pi")
    assert "delivered sigma/words at pi" in sigma.cn("outbox", "flush", check=None).stdout
    assert "sigma/words" in branches(omega.home)


@pytest.mark.parametrize("removed", [False, True])
def test_what_waits_for_another_hub_is_taken_out_as_told(sigma: Node, pi: Node, omega: Node, *, removed: bool) -> None:
    sigma.cn("send", "pi", "First")
    write_url(sigma, pi.url, omega.url)
    sigma.sync()
    sigma.cn("send", "pi", "Words", check=1)
    if removed:
        sigma.cn("peer", "remove", "pi")
    assert "sigma/words for pi" in sigma.cn("outbox").stdout
    words = ("outbox", "flush") if removed else ("withdraw", "pi:words")
    told = sigma.cn(*words, check=1).stderr
    assert ("deletion of sigma/words" in sigma.cn("outbox").stdout) is not removed
    (step,) = set(TAKE_OUT.findall(" ".join(told.split())))
    git(sigma.root, *shlex.split(step)[1:])
    git(sigma.root, "commit", "-qm", "never")
    git(sigma.root, "push", "-q", "origin", "main")
    sigma.sync()
    assert "sigma/words" not in sigma.cn("status").stdout
    assert sigma.outbox() == []


def test_nothing_is_proposed_to_a_hub_that_is_called_otherwise(
    world: World, sigma: Node, pi: Node, omega: Node
) -> None:
    work = clone(omega.home, world.folder / "work")
    identify(work, "Sia", "sia@people.example")
    commit(work, {"docs/one.md": "one\n"})
    write_url(sigma, pi.url, omega.url)
    done = cn("propose", "fix", "pi", "--hub", sigma.root, cwd=work, check=1)
    assert "calls itself omega" in done.stderr
    assert set(branches(omega.home)) == {"main"}
    assert sigma.outbox() == []


def test_a_step_names_the_url_that_the_peer_has_when_it_is_shown(world: World, sigma: Node, pi: Node) -> None:
    sigma.cn("send", "pi", "For pi alone")
    git(pi.home, "update-ref", "-d", "refs/heads/sigma/for-pi-alone")
    assert step_in(sigma.sync(check=1).stderr)[2] == pi.url
    assert step_in(views(sigma))[2] == pi.url
    new = world.folder / "moved" / "pi.git"
    new.parent.mkdir()
    pi.home.rename(new)
    write_url(sigma, pi.url, str(new))
    shown = views(sigma)
    assert "our sigma/for-pi-alone is gone at pi" in shown
    assert "git push" not in shown, "nobody has looked who answers there"
    sigma.sync()
    step = step_in(views(sigma))
    assert step[2] == str(new)
    git(sigma.root, *step[1:])
    assert "sigma/for-pi-alone is at pi again" in sigma.sync().stdout
    assert "is gone" not in views(sigma)


def test_no_step_names_the_url_of_a_hub_that_is_called_otherwise(sigma: Node, pi: Node, omega: Node) -> None:
    sigma.cn("send", "pi", "For pi alone")
    git(pi.home, "update-ref", "-d", "refs/heads/sigma/for-pi-alone")
    sigma.sync(check=1)
    write_url(sigma, pi.url, omega.url)
    for _ in range(2):
        shown = views(sigma)
        assert "our sigma/for-pi-alone is gone at pi" in shown
        assert "git push" not in shown
        sigma.sync()
    write_url(sigma, omega.url, pi.url)
    sigma.sync()
    assert step_in(views(sigma))[2] == pi.url


def test_no_step_names_the_url_at_which_another_repository_answers(world: World, sigma: Node, pi: Node) -> None:
    sigma.cn("send", "pi", "For pi alone")
    sigma.sync()
    git(pi.home, "update-ref", "-d", "refs/heads/sigma/for-pi-alone")
    sigma.sync(check=1)
    assert step_in(views(sigma))[2] == pi.url
    beside = pi.home.with_suffix(".old")
    pi.home.rename(beside)
    git(world.folder, "init", "-q", "-b", "main", "other")
    other = world.folder / "other"
    identify(other, "pi")
    commit(other, {"README": "taken"}, "mine")
    git(other, "push", "-q", str(bare(pi.home)), "HEAD:refs/heads/main")
    assert "another repository answers at pi's URL" in sigma.sync(check=1).stderr
    assert "our sigma/for-pi-alone is gone at pi" in views(sigma)
    assert "git push" not in views(sigma)


@pytest.fixture
def anew(world: World, sigma: Node, pi: Node) -> Node:
    """pi's hub, made anew after sigma sent something to the old one."""
    sigma.cn("send", "pi", "To old pi")
    sigma.sync()
    pi.home.rename(pi.home.with_suffix(".old"))
    pi.root.rename(pi.root.with_suffix(".old"))
    cn("init", "pi", cwd=world.folder, check=0)
    root = world.folder / "cn-pi"
    git(root, "remote", "add", "origin", str(bare(pi.home)))
    git(root, "push", "-q", "origin", "main")
    node = Node("pi", root, pi.home, pi.url)
    node.cn("peer", "add", "sigma", sigma.url)
    node.sync()
    return node


@pytest.mark.parametrize("looked", [False, True])
@pytest.mark.parametrize("end", ["again", "over"])
def test_what_lay_in_a_repository_before_another_was_accepted_is_told_as_gone_with_it(
    sigma: Node, anew: Node, looked: bool, end: str
) -> None:
    if looked:
        told = sigma.sync(check=1).stderr
        assert "another repository answers at pi's URL" in told
        assert "gone" not in told
    sigma.cn("peer", "accept", "pi")
    told = sigma.sync(check=1).stderr
    text = "our sigma/to-old-pi is gone at pi, with the repository that was there before another one was accepted"
    assert text in told
    for view in ("status", "doctor"):
        shown = sigma.cn(view, check=None).stdout
        assert text in shown
        assert "lacks" not in shown
        assert "no answer yet" not in shown
    sigma.cn("send", "pi", "Another")
    sigma.cn("peer", "accept", "pi")
    sigma.sync()
    assert text in sigma.cn("status").stdout
    if end == "over":
        sigma.cn("withdraw", "pi:to-old-pi")
        assert "gone" not in views(sigma)
        return
    git(sigma.root, *step_in(told)[1:])
    assert "sigma/to-old-pi is at pi again" in sigma.sync().stdout
    assert b"To old pi" in read(anew.home, "sigma/to-old-pi:message.md")
    assert anew.sync().stdout.count("received sigma/") == 2
    assert "gone" not in views(sigma)
