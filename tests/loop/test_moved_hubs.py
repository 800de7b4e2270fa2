"""A peer's hub has another URL, as where it takes a mailbox of its own: what is open goes on there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.support.hubs import bare, branches, clone, cn, commit, git, identify, push, tip
from tests.support.world import Node, World, is_in_main


def shown(node: Node, *words: str) -> str:
    return " ".join(node.cn(*(words or ("status",)), check=None).stdout.split())


def write_url(node: Node, old: Node, url: Path) -> None:
    """A person writes where a peer's hub is now."""
    text = (node.root / "state/peers.md").read_text()
    assert old.url in text
    node.write({"state/peers.md": text.replace(old.url, str(url))}, f"{old.name} moved")


def propose_by_cn(pi: Node, work: Path, topic: str) -> str:
    git(work, "switch", "--quiet", "--create", topic, "origin/main")
    head = commit(work, {f"docs/{topic}.md": f"{topic}\n"}, f"Add {topic}")
    cn("propose", topic, "sigma", "--hub", pi.root, cwd=work, check=0)
    return head


@pytest.fixture
def work(sigma: Node, pi: Node, world: World) -> Path:
    """The clone of sigma's hub in which somebody of pi's works."""
    path = clone(sigma.url, world.folder / "work")
    identify(path, "Pia", "pia@people.example")
    return path


@pytest.fixture
def box(world: World) -> Path:
    return bare(world.folder / "host/box.git")


def take_mailbox(sigma: Node, box: Path) -> None:
    git(sigma.root, "remote", "add", "box", str(box))
    sigma.configure("mailbox: box\n")
    sigma.sync()


def test_what_is_open_goes_on_where_a_peer_has_a_mailbox_of_its_own(
    world: World, sigma: Node, pi: Node, work: Path, box: Path
) -> None:
    propose_by_cn(pi, work, "first")
    world.propose(pi, sigma, "hand")
    pi.sync()
    pi.cn("send", "sigma", "question")
    sigma.sync()
    take_mailbox(sigma, box)
    assert "'cn rebase sigma:first' there lays one upon what is" in shown(sigma)
    assert "gone" not in pi.sync().stdout + shown(pi)
    write_url(pi, sigma, box)
    told = pi.sync().stdout
    assert "gone" not in told
    assert "delivered pi/question at sigma" in told, "it holds no folder of cn's"
    assert branches(box).keys() == {"main", "pi/question"}
    for topic in ("first", "hand"):
        text = f"our pi/{topic} waits at sigma and is not at {box}, where sigma is now"
        assert text in told
        assert text in shown(pi)
        assert text in shown(pi, "doctor")
        assert f"pi/{topic} at sigma" in shown(pi), "nothing vanishes"
    assert "where sigma is now" not in pi.sync().stdout, "it is told once"
    for topic in ("first", "hand"):
        (step,) = re.findall(rf"'(cn rebase sigma:{topic})'", shown(pi))
        pi.cn(*step.split()[1:])
        assert f"our pi/{topic} waits" not in shown(pi)
    assert branches(box).keys() == {"main", "pi/question", "pi/first", "pi/hand"}
    assert git(box, "log", "--all", "--oneline", "--", "threads", "logs", "state") == ""
    told = sigma.sync().stdout
    assert "received" not in told
    assert len(sigma.threads()) == 3
    assert "box now" not in shown(sigma)
    for topic in ("first", "hand"):
        head = branches(box)[f"pi/{topic}"]
        sigma.decide(f"pi/{topic}", "do:merge")
        assert is_in_main(sigma, head)
    sigma.decide("pi/question", "do:reply:answer", "--body", "Yes.")
    world.settle(sigma, pi, rounds=6)
    assert branches(box).keys() == {"main"}
    assert "merged" in shown(pi, "why", "sigma:first")


def test_what_is_decided_before_its_creator_knows_the_new_url_is_decided_once(
    world: World, sigma: Node, pi: Node, work: Path, box: Path
) -> None:
    propose_by_cn(pi, work, "first")
    propose_by_cn(pi, work, "second")
    sigma.sync()
    take_mailbox(sigma, box)
    sigma.decide("pi/second", "delete:no")
    refused = sigma.triage("pi/first", "do:merge", check=None), sigma.process(check=None)
    assert any("what is not published" in one.stderr for one in refused)
    assert "pi/second is discarded" in pi.sync().stdout
    assert "with the URL of that as its hub:, 'cn rebase sigma:first' lays it upon what sigma publishes" in shown(pi)
    write_url(pi, sigma, box)
    pi.cn("rebase", "sigma:first")
    assert branches(box).keys() == {"main", "pi/first"}, "what was decided goes nowhere"
    assert "moved to" in sigma.sync().stdout
    sigma.decide("pi/first", "do:merge")
    assert "sigma says pi/first is merged" in pi.sync().stdout
    assert not sigma.threads()


def test_what_comes_to_origin_after_another_mailbox_was_taken_is_told(
    world: World, sigma: Node, pi: Node, work: Path, box: Path
) -> None:
    take_mailbox(sigma, box)
    pi.cn("send", "sigma", "are you there")
    told = " ".join(sigma.sync().stdout.split())
    assert "pi/are-you-there at origin, where nobody looks: what peers send goes to" in told
    assert "tell pi to write the URL of" in told
    assert "at origin, where nobody looks" in shown(sigma)
    sigma.sync()
    write_url(pi, sigma, box)
    pi.sync()
    (step,) = set(re.findall(r"'(git push origin :refs/heads/pi/[^']*)'", told))
    git(sigma.root, *shlex.split(step)[1:])
    assert "received pi/are-you-there" in sigma.sync().stdout
    assert "nobody looks" not in shown(sigma)


def test_who_works_on_follows_what_was_laid_upon_another_main(sigma: Node, pi: Node, work: Path, box: Path) -> None:
    old = propose_by_cn(pi, work, "first")
    take_mailbox(sigma, box)
    write_url(pi, sigma, box)
    pi.sync()
    again = cn("propose", "first", cwd=work, check=1).stderr
    assert "'cn rebase sigma:first' lays it upon that" in again
    done = cn("rebase", "sigma:first", cwd=work, check=0).stdout
    assert f"'git rebase --onto FETCH_HEAD {old}'" in done
    for again in (done, cn("propose", "first", cwd=work, check=1).stderr):
        steps = [step for step in re.findall(r"'(git [^']*)'", again) if "FETCH_HEAD" in step or "fetch" in step]
        assert len(steps) == 2
    commit(work, {"docs/more.md": "more\n"}, "Go on")
    other = cn("propose", "first", cwd=work, check=1).stderr
    assert f"'git rebase --onto FETCH_HEAD {old}" in other
    for step in steps:
        git(work, *shlex.split(step)[1:])
    assert tip(work, "HEAD~1") == branches(box)["pi/first"]
    cn("propose", "first", cwd=work, check=0)
    assert tip(work, "HEAD") == branches(box)["pi/first"]


def test_what_may_be_seen_at_the_new_url_goes_there_once(
    world: World, sigma: Node, pi: Node, work: Path, box: Path
) -> None:
    first, second = propose_by_cn(pi, work, "first"), propose_by_cn(pi, work, "second")
    hand = world.propose(pi, sigma, "hand")
    pi.sync()
    sigma.sync()
    sigma.cn("comment", "pi/second", "Why?")
    pi.sync()
    push(sigma.root, str(box), "main:main")  # its people moved main to another host, and no branch
    write_url(pi, sigma, box)
    told = pi.sync().stdout
    assert "gone" not in told
    assert branches(box).keys() == {"main", "pi/first"}
    assert branches(box)["pi/first"] == first
    steps = re.findall(r"'(git push [^']*)' brings it there", shown(pi))
    assert len(steps) == 2, "of one somebody spoke, the other was pushed by hand: people bring them"
    for step in steps:
        git(pi.root, *shlex.split(step)[1:])
    pi.sync()
    assert {branches(box)[f"pi/{topic}"] for topic in ("second", "hand")} == {second, hand}
    assert "where sigma is now" not in shown(pi)
    assert "pi/hand at sigma" in shown(pi)
    git(box, "update-ref", "-d", "refs/heads/pi/first")
    assert "our pi/first is gone at sigma" in pi.sync().stdout, "what was taken away there does not go again"
    assert "pi/first" not in branches(box)


def test_what_waits_for_the_new_url_can_be_taken_back(sigma: Node, pi: Node, work: Path, box: Path) -> None:
    propose_by_cn(pi, work, "first")
    take_mailbox(sigma, box)
    write_url(pi, sigma, box)
    pi.sync()
    assert f"our pi/first waits at sigma and is not at {box}" in shown(pi)
    (step,) = re.findall(r"'(cn withdraw [^']*)'", shown(pi))
    pi.cn(*step.split()[1:])
    assert "where sigma is now" not in shown(pi)
    assert branches(box).keys() == {"main"}
    assert not pi.outbox()


def test_a_rebase_upon_another_main_publishes_no_folder_of_cns(sigma: Node, pi: Node, work: Path, box: Path) -> None:
    git(work, "switch", "--quiet", "--create", "first", "origin/main")
    commit(work, {"threads/inbox/x.md": "private\n"}, "One too many")
    git(work, "rm", "--quiet", "threads/inbox/x.md")
    commit(work, {"docs/first.md": "first\n"}, "Add first")
    cn("propose", "first", "sigma", "--hub", pi.root, cwd=work, check=0)
    take_mailbox(sigma, box)
    write_url(pi, sigma, box)
    pi.sync()
    refused = pi.cn("rebase", "sigma:first", check=1).stderr
    assert "changes threads/, logs/ or state/, which are not published there; nothing was changed" in refused
    assert branches(box).keys() == {"main"}


def test_what_conflicts_with_what_is_published_is_laid_there_by_a_person(
    sigma: Node, pi: Node, work: Path, box: Path
) -> None:
    git(work, "switch", "--quiet", "--create", "first", "origin/main")
    commit(work, {"docs/start.md": "theirs\n"}, "Begin otherwise")
    cn("propose", "first", "sigma", "--hub", pi.root, cwd=work, check=0)
    sigma.write({"docs/start.md": "ours\n"}, "begin otherwise")
    take_mailbox(sigma, box)
    write_url(pi, sigma, box)
    pi.sync()
    refused = cn("rebase", "sigma:first", cwd=work, check=1).stderr
    assert "conflicts with sigma's main in docs/start.md; nothing was changed" in refused
    fetch, onto, again = re.findall(r"'((?:git|cn) (?:fetch|rebase|propose)[^']*)'", refused)
    git(work, *shlex.split(fetch)[1:])
    git(work, *shlex.split(onto)[1:], "--strategy-option=theirs")
    cn(*shlex.split(again)[1:], cwd=work, check=0)
    assert branches(box)["pi/first"] == tip(work)
    assert "where sigma is now" not in shown(pi)


def test_a_main_that_was_replaced_at_the_same_url_gets_nothing_of_what_was_made_on_the_one_before(
    sigma: Node, pi: Node, work: Path
) -> None:
    propose_by_cn(pi, work, "first")
    pi.sync()
    before = branches(sigma.home)["pi/first"]
    apart = git(sigma.home, "commit-tree", "-m", "another", "main^{tree}")
    git(sigma.home, "update-ref", "refs/heads/main", apart)
    pi.sync()
    assert "that was replaced" in pi.cn("rebase", "sigma:first", check=1).stderr
    assert branches(sigma.home)["pi/first"] == before


def test_nothing_goes_to_another_hub_whose_url_was_written_by_mistake(world: World, sigma: Node, pi: Node) -> None:
    omega = world.hub("omega")
    pi.cn("send", "sigma", "For sigma alone")
    world.propose(pi, sigma, "hand")
    pi.sync()
    write_url(pi, sigma, omega.home)
    pi.cn("sync", check=None)
    for told in (pi.cn("sync", check=None).stdout, shown(pi), shown(pi, "doctor")):
        assert f"git push {omega.home}" not in told
    assert "where sigma is now: that calls itself omega, so nothing goes there" in shown(pi)
    assert branches(omega.home).keys() == {"main"}
    text = (pi.root / "state/peers.md").read_text()
    pi.write({"state/peers.md": text.replace(str(omega.home), sigma.url)}, "the right one")
    pi.sync()
    assert "omega" not in shown(pi) + shown(pi, "doctor")
    world.settle(sigma, pi)
    assert len(sigma.threads()) == 2


def test_what_a_peer_has_not_at_its_new_url_is_decided_as_before(world: World) -> None:
    """By pickup its branches lie in its own hub."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, "pickup")
    head = world.propose(pi, sigma)
    sigma.sync()
    sigma.triage("pi/proposal", "do:merge")
    away = bare(world.folder / "host/pi-away.git")
    push(pi.root, str(away), "main:main")
    write_url(sigma, pi, away)
    told = sigma.sync().stdout
    assert "gone" not in told
    text = f"pi/proposal came from where pi was, and is not at {away}, where pi is now"
    assert text in " ".join(told.split())
    assert text in shown(sigma)
    sigma.process()
    assert is_in_main(sigma, head)
    sigma.sync()
    assert text not in shown(sigma)
