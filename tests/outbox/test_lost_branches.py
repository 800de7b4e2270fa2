"""What a host lost, or brought back with a backup: our branches, and the main that we publish."""

from __future__ import annotations

import shlex

from tests.support.hubs import bare, branches, git, tip
from tests.support.world import Node, World


def test_a_message_that_its_host_lost_is_shown_until_it_is_back(world: World, sigma: Node, pi: Node) -> None:
    sigma.cn("send", "pi", "Important", "--body", "x")
    git(pi.home, "update-ref", "-d", "refs/heads/sigma/important")
    text = "our sigma/important is gone at pi, and it did not say what became of it"
    said = sigma.cn("sync", "-q", check=1).stderr
    assert text in said
    assert text in sigma.cn("status").stdout
    assert text in sigma.cn("doctor", check=1).stdout
    sigma.cn("sync", "-q")
    git(sigma.root, *shlex.split(said.split("'")[1])[1:])  # what the remedy says
    assert "sigma/important is at pi again" in sigma.sync().stdout
    assert text not in sigma.cn("status").stdout
    assert "received sigma/important" in pi.sync().stdout


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


def test_a_mailbox_that_lost_our_main_gets_it_again(world: World) -> None:
    box = bare(world.folder / "box.git")
    sigma, pi = world.hub("sigma"), world.hub("pi")
    git(sigma.root, "remote", "add", "box", str(box))
    sigma.configure("mailbox: box\n")
    world.link(sigma, pi)
    sigma.sync()
    sigma.write({"docs/more.md": "more\n"})
    head = world.propose(pi, sigma)
    git(sigma.root, "fetch", "-q", sigma.url, "pi/proposal")
    git(sigma.root, "push", "-q", "box", f"{head}:refs/heads/pi/proposal")
    sigma.sync()
    sigma.decide("pi/proposal", "do:merge")
    published = branches(box)["main"]
    git(box, "update-ref", "-d", "refs/heads/main")
    assert "published main at box" in sigma.sync().stdout
    assert branches(box)["main"] == published
    assert "published" not in sigma.sync().stdout
