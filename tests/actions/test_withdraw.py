"""``cn withdraw``: what we sent is taken back where it lies, out of the outbox, or out of what is told as lost."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.hubs import branches, clone, cn, commit, git, identify
from tests.support.world import Node, World


def waits(node: Node) -> str:
    """What status says, on one line."""
    return " ".join(node.cn("status").stdout.split())


@pytest.mark.parametrize("name", ["pi:early-word", "sigma/early-word", "early-word"])
def test_a_message_is_taken_back_before_its_peer_saw_it(world: World, sigma: Node, pi: Node, name: str) -> None:
    sigma.cn("send", "pi", "Early word", "--body", "x")
    shown = sigma.cn("withdraw", name, "--dry-run").stdout
    assert "delete sigma/early-word at pi" in shown
    assert "sigma/early-word" in branches(pi.home)
    assert "deleted sigma/early-word" in sigma.cn("withdraw", name).stdout
    assert "sigma/early-word" not in branches(pi.home)
    sigma.cn("sync")
    sigma.cn("status", "--check")
    assert "taken back by us" in sigma.cn("why", "pi:early-word").stdout
    assert "taken back by us" in sigma.cn("thread", "show", "pi:early-word").stdout
    assert "early-word" not in pi.sync().stdout
    world.settle(sigma, pi)


def test_what_its_peer_has_read_stays_read_there_and_ends_here(world: World, sigma: Node, pi: Node) -> None:
    sigma.cn("send", "pi", "Early word", "--body", "x")
    pi.sync()
    sigma.cn("withdraw", "early-word")
    pi.decide("sigma/early-word", "do:reply:answer", "--body", "Read")
    world.settle(sigma, pi)
    assert not [name for name in branches(pi.home) if name.startswith("sigma/")]
    sigma.cn("status", "--check")


def test_what_waits_in_the_outbox_never_goes_out(world: World, sigma: Node, pi: Node) -> None:
    away = pi.home.rename(pi.home.with_name("away"))
    sigma.cn("send", "pi", "Early word", "--body", "x", check=1)
    assert "queued" in sigma.cn("why", "pi:early-word").stdout
    sigma.cn("withdraw", "early-word", check=1)  # whether it is there nobody can say now
    assert [name.endswith("-delete.md") for name in sigma.outbox()] == [True]
    away.rename(pi.home)
    assert "deleted sigma/early-word" in sigma.cn("outbox", "flush").stdout
    assert not sigma.outbox()
    assert "early-word" not in pi.sync().stdout
    sigma.cn("status", "--check")


def test_a_proposal_that_moves_is_taken_back_where_it_was(world: World, sigma: Node, pi: Node) -> None:
    desk = clone(sigma.url, world.folder / "desk")
    identify(desk, "Pia", "pia@people.example")
    git(desk, "config", "cn.hub", str(pi.root))
    for text in ("one", "two"):
        (desk / "docs").mkdir(exist_ok=True)
        (desk / "docs/fix.md").write_text(text)
        git(desk, "add", "docs")
        git(desk, "commit", "-qm", text)
        if text == "two":  # the host takes no more of it
            git(sigma.home, "config", "receive.denyNonFastForwards", "true")
            (hook := sigma.home / "hooks/update").write_text('#!/bin/sh\n[ -z "${3%%0*}" ]\n')
            hook.chmod(0o755)
        cn("propose", "fix", cwd=desk, check=None)
    assert "pi/fix" in branches(sigma.home)
    assert "deleted pi/fix" in cn("withdraw", "fix", cwd=desk).stdout
    assert "pi/fix" not in branches(sigma.home)
    pi.cn("status", "--check")
    again = cn("withdraw", "fix", cwd=desk, check=1).stderr
    assert "sigma:fix is not there any more: it was deleted" in again


def test_what_was_taken_back_with_git_is_told_as_lost_no_more_in_no_clone(world: World, sigma: Node, pi: Node) -> None:
    second = world.second(sigma)
    sigma.cn("send", "pi", "Early word", "--body", "x")
    second.cn("sync")
    git(sigma.root, "push", "-q", str(pi.home), ":sigma/early-word")
    lost = "our sigma/early-word is gone at pi, and it did not say what became of it"
    told = sigma.cn("sync", check=1).stderr
    assert lost in told
    assert "if somebody here took it back, 'cn withdraw pi:early-word' says so" in told
    second.cn("sync", check=None)
    assert lost in waits(sigma)
    assert "it is told as lost no more" in sigma.cn("withdraw", "pi:early-word").stdout
    for node in (sigma, second):
        node.cn("sync")
        assert lost not in waits(node)
        node.cn("status", "--check")


def test_what_tells_a_peer_what_became_of_its_own_is_not_taken_back(world: World, sigma: Node, pi: Node) -> None:
    world.propose(pi, sigma)
    sigma.sync()
    sigma.decide("pi/proposal", "delete:no")
    refused = sigma.cn("withdraw", "pi:notice-proposal", check=1).stderr
    assert "sigma/notice-proposal tells pi what became of pi/proposal, and pi waits for that" in refused
    assert "sigma/notice-proposal" in branches(pi.home)


def test_what_we_did_not_send_and_what_was_decided_are_refused(world: World, sigma: Node, pi: Node) -> None:
    assert "we sent nothing that is called 'nothing'" in sigma.cn("withdraw", "nothing", check=1).stderr
    sigma.cn("send", "pi", "Early word", "--body", "x")
    pi.sync()
    pi.decide("sigma/early-word", "delete:no")
    sigma.sync()
    refused = sigma.cn("withdraw", "early-word", check=1).stderr
    assert "pi:early-word is not there any more: it was deleted" in refused
    assert "'cn why pi:early-word' tells what became of it" in refused


def test_where_origin_does_not_answer_nothing_is_taken_back(world: World, sigma: Node, pi: Node) -> None:
    sigma.cn("send", "pi", "Early word", "--body", "x")
    away = sigma.home.rename(sigma.home.with_name("away"))
    told = sigma.cn("withdraw", "early-word", check=None)
    assert told.returncode
    assert "nothing was taken back" in told.stderr
    assert "sigma/early-word" in branches(pi.home)
    away.rename(sigma.home)
    sigma.cn("withdraw", "early-word")
    assert "sigma/early-word" not in branches(pi.home)


@pytest.mark.parametrize("deferred", [False, True])
def test_an_answer_that_comes_after_it_was_taken_back_is_shown(
    world: World, sigma: Node, pi: Node, *, deferred: bool
) -> None:
    world.propose(pi, sigma)
    pi.sync()
    sigma.sync()
    if deferred:
        sigma.cn("defer", "pi/proposal", "--reason", "later")
        pi.sync()
    sigma.decide("pi/proposal", "do:merge")
    pi.cn("withdraw", "proposal")
    world.settle(pi, sigma)
    for words in (("why", "sigma:proposal"), ("thread", "show", "sigma:proposal")):
        told = " ".join(pi.cn(*words).stdout.split())
        assert "taken back by us, cleaned up; merged as" in told
        assert "unproven" not in told
    shown = json.loads(pi.cn("thread", "show", "sigma:proposal", "--json").stdout)
    assert (shown["state"], shown["status"], shown["unproven"]) == ("deleted", "merged", None)
    assert "answered" in [link["step"] for link in shown["chain"]]
    pi.cn("status", "--check")


def test_what_its_peer_moved_can_be_taken_back_again_once_it_is_what_we_sent(
    world: World, sigma: Node, pi: Node
) -> None:
    sigma.cn("send", "pi", "Early word", "--body", "x")
    ours, other = branches(pi.home)["sigma/early-word"], branches(pi.home)["main"]
    git(pi.home, "update-ref", "refs/heads/sigma/early-word", other)
    refused = " ".join(sigma.cn("withdraw", "early-word", check=1).stderr.split())
    assert f"sigma/early-word is at {other[:8]} there, and cn sent {ours[:8]}: nothing was taken back" in refused
    assert not sigma.outbox()
    away = pi.home.rename(pi.home.with_name("away"))
    sigma.cn("withdraw", "early-word", check=1)  # nobody can tell what is there
    away.rename(pi.home)
    told = " ".join(sigma.cn("outbox", "flush", check=1).stderr.split())
    assert "creator-only-delete" in told
    (entry,) = sigma.outbox()
    assert f"'git rm -- threads/mail/outbox/{entry}', and a commit, ends that" in told
    assert f"'git push {pi.url} :refs/heads/sigma/early-word' deletes that, too, where the host lets you" in told
    again = " ".join(sigma.cn("withdraw", "early-word", check=1).stderr.split())
    assert "'cn outbox' shows why it waits" in again
    git(sigma.root, "rm", "-q", "--", f"threads/mail/outbox/{entry}")
    git(sigma.root, "commit", "-qm", "let it stand")
    sigma.cn("sync", check=None)
    for look in ("status", "doctor"):
        shown = " ".join(sigma.cn(look, check=None).stdout.split())
        assert f"{other[:8]} stands there" in shown
        assert f"--force-with-lease=refs/heads/sigma/early-word:{other}" in shown
    git(pi.home, "update-ref", "refs/heads/sigma/early-word", ours)
    sigma.cn("sync", check=None)
    assert "deleted sigma/early-word" in sigma.cn("withdraw", "early-word").stdout
    assert "sigma/early-word" not in branches(pi.home)
    assert "taken back by us" in sigma.cn("why", "pi:early-word").stdout
    sigma.cn("status", "--check")


def test_what_its_peer_moved_is_over_once_nothing_stands_there(world: World, sigma: Node, pi: Node) -> None:
    """Its deletion was taken out of the outbox, as cn said; then somebody deleted the other commit."""
    work = clone(pi.home, world.folder / "work")
    identify(work, "Sia", "sia@people.example")
    commit(work, {"docs/fix.md": "one\n"})
    cn("propose", "fix", "--hub", sigma.root, cwd=work, check=0)
    away = pi.home.rename(pi.home.with_name("away"))
    sigma.cn("withdraw", "pi:fix", check=1)
    away.rename(pi.home)
    git(pi.home, "update-ref", "refs/heads/sigma/fix", branches(pi.home)["main"])
    sigma.cn("outbox", "flush", check=1)
    (entry,) = sigma.outbox()
    git(sigma.root, "rm", "-q", "--", f"threads/mail/outbox/{entry}")
    git(sigma.root, "commit", "-qm", "let it stand")
    refused = " ".join(cn("propose", "fix", "--hub", sigma.root, cwd=work, check=1).stderr.split())
    assert "'cn withdraw pi:fix' asks for that again" in refused
    sigma.cn("sync", check=None)
    refused = " ".join(cn("propose", "fix", "--hub", sigma.root, cwd=work, check=1).stderr.split())
    assert "--force-with-lease=refs/heads/sigma/fix:" in refused
    git(pi.home, "update-ref", "-d", "refs/heads/sigma/fix")
    assert "our sigma/fix is gone at pi" in sigma.sync().stdout
    sigma.idle()
    sigma.cn("status", "--check")
    cn("propose", "fix", "--hub", sigma.root, cwd=work, check=0)
    assert "sigma/fix" in branches(pi.home)


def test_what_never_came_since_its_name_was_anothers_is_over_at_once(world: World, sigma: Node, pi: Node) -> None:
    squat = clone(sigma.url, world.folder / "squat", "tau")
    squatted = commit(squat, {"z.txt": "z"})
    git(squat, "push", "-q", "origin", f"{squatted}:refs/heads/pi/new")
    desk = clone(sigma.url, world.folder / "desk", "pia")
    git(desk, "config", "cn.hub", str(pi.root))
    git(desk, "switch", "-qc", "new")
    commit(desk, {"n.txt": "n"})
    assert "which cn did not propose" in cn("propose", "new", cwd=desk, check=1).stderr
    told = pi.cn("withdraw", "sigma:new").stdout
    left = f"cn did not send {squatted[:8]}, which has that name there, and leaves it"
    assert f"pi/new was never at sigma: {left}" in told
    assert not pi.outbox()
    assert branches(sigma.home)["pi/new"] == squatted
    assert "never there: its name is another's" in pi.cn("why", "sigma:new").stdout
    git(desk, "branch", "-m", "new", "other")
    assert "delivered pi/other" in cn("propose", "other", cwd=desk).stdout
    assert "adopted pi/new at sigma: pushed by hand" in pi.cn("sync").stdout
    assert "force" not in waits(pi)
    assert "deleted pi/new at sigma" in pi.cn("withdraw", "sigma:new").stdout  # as what is ours by its name


def test_what_another_clone_calls_gone_is_taken_back_where_it_lies(world: World, sigma: Node, pi: Node) -> None:
    second = world.second(sigma)
    sigma.cn("send", "pi", "Early word", "--body", "x")
    second.cn("sync")
    stale = world.folder / "stale.git"
    git(world.folder, "clone", "-q", "--mirror", str(pi.home), str(stale))
    git(stale, "update-ref", "-d", "refs/heads/sigma/early-word")
    git(second.root, "config", f"url.{stale}.insteadOf", str(pi.home))
    assert "our sigma/early-word is gone at pi" in second.cn("sync", check=1).stderr
    sigma.cn("sync", check=None)
    assert "deleted sigma/early-word" in sigma.cn("withdraw", "pi:early-word").stdout
    assert "sigma/early-word" not in branches(pi.home)
    assert "taken back by us" in sigma.cn("why", "pi:early-word").stdout
    sigma.cn("status", "--check")
    assert "early-word" not in pi.sync().stdout


def test_steps_of_a_withdrawal_name_the_place_and_no_remote_of_another_clone(world: World) -> None:
    """By pickup the branch lies at our own origin; in a clone of the peer's hub ``origin`` is the peer's."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, "pickup")
    desk = clone(sigma.url, world.folder / "desk")
    identify(desk, "Pia", "pia@people.example")
    git(desk, "config", "cn.hub", str(pi.root))
    first = commit(desk, {"docs/fix.md": "one\n"})
    cn("propose", "fix", "sigma", cwd=desk, check=0)
    commit(desk, {"docs/more.md": "two\n"})
    cn("propose", "fix", "sigma", cwd=desk, check=0)
    git(pi.home, "update-ref", "refs/heads/sigma/fix", first)
    pi.sync()
    for told in (cn("withdraw", "fix", cwd=desk, check=1).stderr, pi.cn("status").stdout):
        told = " ".join(told.split())
        (push,) = set(re.findall(r"'(git push --force-with-lease[^']*)' as the same one", told))
        (gone,) = set(re.findall(r"'(git push [^-'][^']*)', then 'cn withdraw sigma:fix', ends it", told))
        assert f" {pi.url} " in push
        assert f" {pi.url} " in gone
    git(desk, *gone.split()[1:])
    assert "sigma/fix" not in branches(pi.home)
    cn("withdraw", "fix", cwd=desk, check=0)
    assert "nothing pending" in waits(pi)
