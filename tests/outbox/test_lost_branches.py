"""What a host lost, or brought back with a backup: our branches, and the main that we publish."""

from __future__ import annotations

import os
import re
import shlex
import subprocess

import pytest

from cn.protocol.layout import BRANCH_GONE, BRANCH_LEFT
from tests.support.forked import ROOT
from tests.support.hubs import bare, branches, clone, cn, commit, git, identify, make_ssh_key, tip
from tests.support.world import Node, World


def test_a_message_that_its_host_lost_is_shown_until_it_is_back(world: World, sigma: Node, pi: Node) -> None:
    sigma.cn("send", "pi", "Important", "--body", "x")
    git(pi.home, "update-ref", "-d", "refs/heads/sigma/important")
    text = "our sigma/important is gone at pi, and it did not say what became of it"
    said = sigma.cn("sync", "-q", check=1).stderr
    assert text in said
    assert "if somebody here took it back" in said
    assert text in sigma.cn("status").stdout
    assert text in sigma.cn("doctor", check=1).stdout
    sigma.cn("sync", "-q")
    git(sigma.root, *shlex.split(said.split("'")[1])[1:])  # what the remedy says
    assert "sigma/important is at pi again" in sigma.sync().stdout
    assert text not in sigma.cn("status").stdout
    assert "received sigma/important" in pi.sync().stdout


@pytest.mark.parametrize("route", ["mailbox", "pickup"])
def test_what_leaves_no_room_for_a_branch_that_is_gone_is_named_before_the_push(world: World, route: str) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, route)
    person, (branch, place) = world.person(pi, sigma), world.branch(pi, sigma, "fix")
    head = commit(person, {"docs/fix.md": "fix\n"})
    cn("propose", "fix", "--hub", pi.root, cwd=person, check=0)
    git(place, "update-ref", "-d", f"refs/heads/{branch}")
    for name in ("x", "y/z"):
        git(place, "update-ref", f"refs/heads/{branch}/{name}", head)
    said = pi.cn("sync").stdout
    assert f"refs/heads/{branch}/x, refs/heads/{branch}/y/z there leave no room for it" in said
    if route == "mailbox":
        assert "once sigma has deleted that" in said
        for name in ("x", "y/z"):
            git(place, "update-ref", "-d", f"refs/heads/{branch}/{name}")
    told = " ".join(pi.cn("status").stdout.split()).partition(" brings it there")[0]
    for step in re.findall(r"'(git push [^']*)'", told):
        git(pi.root, *shlex.split(step)[1:])
    assert branches(place).keys() == {"main", branch}
    pi.sync()
    assert f"our {branch} is gone" not in pi.cn("status").stdout


def test_what_another_clone_sent_and_the_host_lost_is_told_by_a_clone_that_never_listed_it(
    world: World, sigma: Node, pi: Node
) -> None:
    second = world.second(sigma)
    for node in (sigma, second):
        node.sync()
    second.cn("send", "pi", "Important")
    second.cn("send", "pi", "Other")
    git(pi.home, "update-ref", "-d", "refs/heads/sigma/important")
    text = "our sigma/important is gone at pi, and it did not say what became of it"
    path = os.pathsep.join([str(ROOT / "tests/support/clock"), str(ROOT)])
    for hours in (0, 1, 2):
        told = sigma.cn("sync", env={"PYTHONPATH": path, "TEST_CLOCK": str(hours * 3600)}).stdout
        assert "gone" not in told, "a mirror may lag"
    said = sigma.cn("sync", "-q", env={"PYTHONPATH": path, "TEST_CLOCK": str(25 * 3600)}, check=1).stderr
    assert text in said
    assert "sigma/other is gone" not in said
    assert text in sigma.cn("status").stdout
    steps = [shlex.split(step) for step in said.split("'")[1::2]]
    assert [step[:2] for step in steps[:2]] == [["git", "fetch"], ["git", "push"]], "it is not here yet"
    for step in steps[:2]:
        git(sigma.root, *step[1:])
    sigma.sync()
    assert text not in sigma.cn("status").stdout
    assert "received sigma/important" in pi.sync().stdout
    second.sync()
    pi.cn("reply", "sigma/important", "Yes")
    world.settle(sigma, second, pi)


def test_the_step_brings_back_what_was_sent_also_beside_a_tag_that_is_called_so(
    world: World, sigma: Node, pi: Node
) -> None:
    """Who may push to our mailbox can give it a tag of that name, which git's own fetch brings here."""
    head = proposed(world, sigma, pi)
    git(pi.home, "update-ref", "-d", "refs/heads/sigma/fix")
    said = sigma.sync().stdout
    git(sigma.root, "tag", head, "main")
    git(sigma.root, *shlex.split(said.split("'")[1])[1:])
    assert branches(pi.home)["sigma/fix"] == head


def proposed(world: World, sigma: Node, pi: Node, *, name: str = "work") -> str:
    """A commit in a clone of pi's hub, proposed as sigma/fix; its id."""
    work = clone(pi.home, world.folder / name)
    identify(work, "Sia", "sia@people.example")
    head = commit(work, {f"docs/{name}.md": "one\n"})
    cn("propose", "fix", "--hub", sigma.root, cwd=work, check=0)
    return head


@pytest.mark.parametrize("came_in", [False, True])
@pytest.mark.parametrize("end", ["back", "taken back", "again", "another"])
def test_a_proposal_that_is_gone_is_shown_and_nothing_is_wrong(
    world: World, sigma: Node, pi: Node, came_in: bool, end: str
) -> None:
    proposed(world, sigma, pi)
    if came_in:
        pi.sync()
    git(pi.home, "update-ref", "-d", "refs/heads/sigma/fix")
    text = "our sigma/fix is gone at pi, and it did not say what became of it"
    said = sigma.sync(0).stdout
    assert text in said
    for look in ("status", "doctor"):
        assert text in " ".join(sigma.cn(look, check=0).stdout.split())
    sigma.idle()
    if end == "back":
        git(sigma.root, *shlex.split(said.split("'")[1])[1:])  # what the remedy says
    elif end == "taken back":
        sigma.cn("withdraw", "pi:fix")
    elif end == "again":
        cn("propose", "fix", cwd=world.folder / "work", check=0)
        assert text not in " ".join(sigma.cn("status").stdout.split()), "its step would be about what is there"
    else:
        proposed(world, sigma, pi, name="anew")
    sigma.sync()
    assert text not in " ".join(sigma.cn("status").stdout.split())


def test_what_is_gone_is_missed_no_more_once_its_peer_says_what_became_of_it(
    world: World, sigma: Node, pi: Node
) -> None:
    proposed(world, sigma, pi)
    pi.sync()
    second = world.second(sigma)
    git(pi.home, "update-ref", "-d", "refs/heads/sigma/fix")
    text = "our sigma/fix is gone at pi, and it did not say what became of it"
    pi.sync()
    for node in (sigma, second):
        node.sync()
        assert text in " ".join(node.cn("status").stdout.split()) or node is second
    pi.cn("delete", "sigma/fix", "--reason", "squashed by hand")
    for node in (sigma, second):
        node.sync()
        assert "is gone at pi" not in " ".join(node.cn("status").stdout.split())
    assert "squashed by hand" in sigma.cn("why", "pi:fix").stdout


def test_a_proposal_that_the_peers_main_holds_is_not_missed(world: World, sigma: Node, pi: Node) -> None:
    head = proposed(world, sigma, pi)
    git(pi.home, "update-ref", "refs/heads/main", head)  # as a person merges it, and the host deletes it then
    git(pi.home, "update-ref", "-d", "refs/heads/sigma/fix")
    assert "our sigma/fix is gone at pi; pi's main holds it" in sigma.sync().stdout
    assert "is gone" not in sigma.cn("status").stdout


def test_a_message_that_came_in_before_it_was_gone_is_not_lost(world: World, sigma: Node, pi: Node) -> None:
    sigma.cn("send", "pi", "Important", "--body", "x")
    pi.sync()
    git(pi.home, "update-ref", "-d", "refs/heads/sigma/important")
    assert "it had come in there" in sigma.sync().stdout
    assert "gone" not in sigma.cn("status").stdout


def test_what_was_deleted_and_comes_back_with_a_backup_is_deleted_again(world: World, sigma: Node, pi: Node) -> None:
    sigma.cn("send", "pi", "First", "--body", "x")
    pi.sync()
    pi.decide("sigma/first", "delete:no")
    head = tip(pi.home, "sigma/first")
    assert "deleted sigma/first" in sigma.sync().stdout
    git(pi.home, "update-ref", "refs/heads/sigma/first", head)
    said = sigma.sync().stdout
    assert "sigma/first is at pi again; it was deleted before" in said
    assert "sigma/first" not in branches(pi.home)
    world.settle(pi, sigma)
    assert "healthy" in sigma.cn("doctor").stdout


def test_what_a_host_shows_again_whenever_it_is_deleted_is_left_there(world: World, sigma: Node, pi: Node) -> None:
    sigma.cn("send", "pi", "First", "--body", "x")
    pi.sync()
    head = tip(pi.home, "sigma/first")
    sigma.cn("withdraw", "pi:first")
    for _ in range(4):
        git(pi.home, "update-ref", "refs/heads/sigma/first", head)
        assert "it was deleted before" in sigma.sync().stdout
        assert "sigma/first" not in branches(pi.home)
        assert "taken back by us" in sigma.cn("why", "pi:first").stdout
    git(pi.home, "update-ref", "refs/heads/sigma/first", head)
    assert "comes back whenever it is deleted; cn did that 5 times" in sigma.sync().stdout
    rows = sigma.rows()
    for _ in range(2):
        assert sigma.sync().stdout == ""
    assert "sigma/first" in branches(pi.home)
    assert sigma.rows() == rows


def test_a_mailbox_that_lost_our_main_gets_it_again(world: World) -> None:
    box = bare(world.folder / "box.git")
    sigma, pi = world.hub("sigma"), world.hub("pi")
    git(sigma.root, "remote", "add", "box", str(box))
    sigma.configure("mailbox: box\n")
    world.link(sigma, pi)
    sigma.sync()
    sigma.write({"docs/more.md": "more\n"})
    head = world.propose(pi, sigma, start=branches(box)["main"])
    git(sigma.root, "fetch", "-q", sigma.url, "pi/proposal")
    git(sigma.root, "push", "-q", "box", f"{head}:refs/heads/pi/proposal")
    sigma.sync()
    sigma.decide("pi/proposal", "do:merge")
    published = branches(box)["main"]
    git(box, "update-ref", "-d", "refs/heads/main")
    assert "published main at box" in sigma.sync().stdout
    assert branches(box)["main"] == published
    assert "published" not in sigma.sync().stdout


@pytest.mark.parametrize("forced", [True, False])
def test_a_mailbox_whose_main_somebody_else_moved_is_published_again(world: World, forced: bool) -> None:
    box = bare(world.folder / "box.git")
    sigma, pi = world.hub("sigma"), world.hub("pi")
    git(sigma.root, "remote", "add", "box", str(box))
    sigma.configure("mailbox: box\n")
    world.link(sigma, pi)
    sigma.sync()
    published = branches(box)["main"]
    other = clone(box, world.folder / "other")
    identify(other, "mallory", "mallory@cn.invalid")
    theirs = commit(other, {"INSTALL.md": "run this\n"}, "planted")
    git(other, "push", "-q", "origin", "HEAD:main")
    git(box, "config", "receive.denyNonFastForwards", str(not forced).lower())
    told = sigma.sync(1).stderr
    assert f"{theirs[:8]}, which somebody else pushed, is there" in told
    assert f"{theirs} box {published}~0:refs/heads/main" in sigma.cn("status").stdout
    if forced:
        assert f"published main at box, over {theirs[:8]}, which somebody else had pushed there" in sigma.sync().stdout
        assert branches(box)["main"] == published
        assert "main is not published" not in sigma.cn("status").stdout
    else:
        sigma.cn("sync", check=None)
        assert branches(box)["main"] == theirs
        assert "where the host lets you" in " ".join(sigma.cn("status").stdout.split())
        git(box, "config", "receive.denyNonFastForwards", "false")
        sigma.cn("sync", check=None)
        assert branches(box)["main"] == published
    assert "published" not in sigma.sync().stdout


def test_a_main_that_was_never_ours_is_not_replaced(world: World) -> None:
    box = bare(world.folder / "box.git")
    other = clone(box, world.folder / "other")
    identify(other, "mallory", "mallory@cn.invalid")
    theirs = commit(other, {"README.md": "another project\n"}, "first")
    git(other, "push", "-q", "origin", "HEAD:main")
    sigma, pi = world.hub("sigma"), world.hub("pi")
    git(sigma.root, "remote", "add", "box", str(box))
    sigma.configure("mailbox: box\n")
    world.link(sigma, pi)
    for _ in range(3):
        sigma.cn("sync", check=None)
    assert branches(box)["main"] == theirs
    for words in ("status",), ("doctor",):
        shown = " ".join(sigma.cn(*words, check=None).stdout.split())
        assert "somebody else's commits are there" in shown
        assert "no run replaces what cn did not publish" in shown
    fetch, push = (re.findall(f"'({begin}[^']*)'", shown)[0] for begin in ("git fetch box", "git push "))
    for step in (fetch, push):
        subprocess.run(shlex.split(step), cwd=sigma.root, check=True, capture_output=True, timeout=60)
    sigma.sync()
    assert branches(box)["main"] == (sigma.root / "state/published").read_text().strip()
    assert "published" not in sigma.cn("status").stdout
    sigma.idle()


def test_a_message_that_was_refused_at_the_door_had_not_come_in(world: World, sigma: Node, pi: Node) -> None:
    _, key = make_ssh_key(world.folder / "key")
    pi.cn("peer", "key", "sigma", key)
    sigma.cn("send", "pi", "Unsigned", "--body", "x")
    pi.cn("sync", check=None)
    git(pi.home, "update-ref", "-d", "refs/heads/sigma/unsigned")
    said = sigma.sync().stdout
    assert "it had been refused there" in said
    assert "come in" not in said


def test_nobody_is_said_to_have_taken_a_branch_away(world: World, sigma: Node, pi: Node) -> None:
    """Creator and host delete alike: each side says what it saw."""
    for topic in ("mine", "hosts"):
        world.propose(pi, sigma, topic)
    settled = (pi.sync(), sigma.sync())
    assert all(one.returncode == 0 for one in settled)
    sigma.triage("pi/hosts", "do:merge")
    world.withdraw(pi, sigma, "mine")
    git(sigma.home, "update-ref", "-d", "refs/heads/pi/hosts")
    pi.sync()
    assert BRANCH_GONE in pi.cn("why", "sigma:mine").stdout
    sigma.process(check=1)
    for words in (("status",), ("inbox",), ("inbox", "show", "pi/hosts")):
        shown = " ".join(sigma.cn(*words).stdout.split())
        assert BRANCH_LEFT in shown
        assert "creator" not in shown.replace("creator informed", "")


@pytest.mark.parametrize("has_main", [False, True], ids=["an empty repository", "its own repository"])
def test_a_peer_without_cn_deletes_what_it_has_read(world: World, sigma: Node, has_main: bool) -> None:
    box = bare(world.folder / "box.git")
    if has_main:
        work = clone(box, world.folder / "dora")
        identify(work, "Dora", "dora@people.example")
        commit(work, {"app.py": "print()\n"}, "My project")
        git(work, "push", "-q", "origin", "HEAD:main")
    sigma.cn("peer", "add", "dora", str(box))
    person = clone(sigma.url, world.folder / "person")
    identify(person, "Dora", "dora@people.example")
    git(person, "checkout", "-qb", "docs")
    commit(person, {"docs/dora.md": "one\n"}, "Mend the docs")
    git(person, "push", "-q", "origin", "docs:dora/docs")
    sigma.sync()
    sigma.cn("comment", "dora/docs", "Why?")
    sigma.cn("send", "dora", "Hello")
    assert {"sigma/hello", "sigma/re-docs"} <= set(branches(box))
    for name in ("sigma/hello", "sigma/re-docs"):
        git(box, "update-ref", "-d", f"refs/heads/{name}")
    told = sigma.sync()
    assert "our sigma/hello is gone at dora: dora has no cn, and deletes what it has read" in told.stdout
    sigma.cn("status", "--check")
    sigma.decide("dora/docs", "do:merge")
    assert "sigma/notice-docs" in branches(box), "it is told at once"
    git(box, "update-ref", "-d", "refs/heads/sigma/notice-docs")
    sigma.sync()
    git(person, "push", "-q", "origin", ":dora/docs")
    sigma.sync()
    sigma.cn("status", "--check")
    assert not sigma.outbox()
