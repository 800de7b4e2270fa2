"""A name or a route that is changed while branches are open: each goes on where it is, and is whose it was."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cn.loop.idle_check import NOTE
from cn.protocol.message import About, Message, format_message
from cn.values.names import Branch, Name, Oid
from tests.inbox.test_never_listed import CLOCK
from tests.support.hubs import (
    bare,
    branches,
    checkout,
    clone,
    cn,
    commit,
    force_push,
    git,
    identify,
    paths,
    push,
    write_commit,
)
from tests.support.world import Node, World, is_in_main

NOW = datetime(2026, 2, 5, 15, tzinfo=UTC)
OTHER = {"mailbox": "pickup", "pickup": "mailbox"}


def rename(node: Node, old: str, new: str) -> None:
    text = (node.root / ".cn/hub.yaml").read_text()
    assert f"name: {old}\n" in text
    node.write({".cn/hub.yaml": text.replace(f"name: {old}\n", f"name: {new}\n")}, f"called {new}")


def change_route(*nodes: Node) -> None:
    for node in nodes:
        text, old = (node.root / "state/peers.md").read_text(), node.links[0]
        assert f"deliver: {old}\n" in text
        node.write({"state/peers.md": text.replace(f"deliver: {old}\n", f"deliver: {OTHER[old]}\n")}, "another route")
        node.links[0] = OTHER[old]


@pytest.fixture(params=["mailbox", "pickup"])
def route(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_what_is_open_goes_on_by_the_route_it_was_made_by(world: World, route: str) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, route)
    head = world.propose(pi, sigma)
    pi.sync()
    pi.cn("send", "sigma", "question")
    sigma.sync()
    sigma.cn("send", "pi", "note")
    pi.sync()
    change_route(sigma, pi)
    told = sigma.sync()
    assert f"deliver: {OTHER[route]} for pi in state/peers.md is in effect for what is new" in told.stdout
    assert "adopted" not in told.stdout + pi.sync().stdout
    assert f"what is open goes on by {route}: " in sigma.cn("status").stdout
    assert f"what is open goes on by {route}: " in pi.cn("doctor").stdout
    assert sorted(sigma.threads()) == sorted(n for n in sigma.threads() if "pi-proposal" in n or "pi-question" in n)
    assert len(pi.threads()) == 1
    sigma.triage("pi/question", "do:reply:answer", "--body", "An answer.")
    sigma.triage("pi/proposal", "do:merge")
    sigma.process()
    assert is_in_main(sigma, head)
    for thread in ("sigma/note", "sigma/answer"):
        pi.sync()
        pi.cn("delete", thread, "--reason", "read")
    world.settle(pi, sigma)
    assert branches(sigma.home).keys() == branches(pi.home).keys() == {"main"}
    pi.cn("send", "sigma", "by the new route")
    assert f"{'sigma' if OTHER[route] == 'pickup' else 'pi'}/by-the-new-route" in branches(
        pi.home if OTHER[route] == "pickup" else sigma.home
    )
    assert "received pi/by-the-new-route" in sigma.sync().stdout
    assert "in effect for" not in sigma.cn("status").stdout + sigma.cn("doctor").stdout


def test_what_is_over_is_not_adopted_by_another_route(world: World, route: str) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, route)
    world.propose(pi, sigma)
    sigma.sync()
    sigma.cn("peer", "remove", "pi")
    sigma.cn("delete", "pi/proposal", "--reason", "left")
    sigma.cn("peer", "add", "pi", pi.url, "--deliver", OTHER[route])
    name = "pi/proposal" if route == "mailbox" else "sigma/proposal"
    told = sigma.sync().stdout
    assert "adopted" not in told
    assert "gone" not in told
    assert name in branches(sigma.home if route == "mailbox" else pi.home)
    sigma.idle()


def test_ours_is_not_received_as_a_peers_by_another_route(world: World, route: str) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, route)
    person, (name, place) = world.person(sigma, pi), world.branch(sigma, pi, "proposal")
    world.propose(sigma, pi)
    sigma.sync()
    git(person, "push", "--quiet", place, f":refs/heads/{name}")
    assert f"our {name} is gone" in sigma.sync().stdout
    change_route(sigma)
    git(person, "push", "--quiet", place, f"HEAD:refs/heads/{name}")
    told = sigma.sync(check=1).stderr
    assert f"is refused: known-peer: it is ours, made by the route {route}, which is {OTHER[route]} now" in told
    assert sigma.threads() == []


def test_a_message_by_another_route_is_named_as_the_peers(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    sigma.cn("send", "pi", "note")
    change_route(pi)
    told = pi.sync(check=1).stderr
    assert "sigma/note at sigma is sigma's, made by the route mailbox: it is left alone" in told
    assert "deletes it" not in told
    assert "here deliver: for sigma is pickup" in pi.cn("status").stdout
    assert "here deliver: for sigma is pickup" in pi.cn("doctor", check=1).stdout
    change_route(pi)
    assert "received sigma/note" in pi.sync().stdout
    assert "deliver:" not in pi.cn("status").stdout


def test_a_proposal_by_another_route_is_not_adopted(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    world.propose(sigma, pi)
    sigma.sync()
    change_route(pi)
    told = pi.sync(check=1).stderr
    assert "sigma/proposal at sigma is sigma's, made by the route mailbox" in told
    assert "adopted" not in told
    assert "sigma/proposal" in branches(pi.home)


def test_what_waits_in_the_outbox_of_a_hub_that_has_another_name_says_how_it_goes(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    world.propose(pi, sigma)
    pi.cn("send", "sigma", "question")
    sigma.sync()
    away = pi.home.rename(f"{pi.home}.away")
    sigma.cn("send", "pi", "hello", check=None)
    sigma.cn("comment", "pi/proposal", "words", check=None)
    sigma.decide("pi/proposal", "do:merge", check=1)
    assert len(sigma.outbox()) == 3
    rename(sigma, "sigma", "sig")
    away.rename(pi.home)
    told = sigma.sync(check=1).stderr
    assert told.count("it was written when this hub was called sigma") == 3
    assert told.count("'name: sigma' in .cn/hub.yaml again, until the outbox is empty: so it goes; 'git log") == 3
    assert "did not write" not in told + sigma.cn("doctor", check=None).stdout
    assert len(sigma.outbox()) == 3
    rename(sigma, "sig", "sigma")
    sigma.sync()
    assert sigma.outbox() == []
    pi.sync()
    assert "merged" in pi.cn("why", "sigma:proposal").stdout


def test_what_is_sent_and_called_as_what_is_open_by_the_other_route_goes_by_another_name(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    head = world.propose(pi, sigma)
    sigma.sync()
    change_route(sigma, pi)
    pi.sync()
    sigma.sync()
    told = sigma.cn("send", "pi", "proposal").stdout
    assert "in our own mailbox is pi's own, and open here. What we send goes as pi/proposal-" in told
    assert "git push" not in told
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)
    world.settle(pi, sigma)
    assert "> proposal" in "".join(map(pi.thread, pi.threads()))


def test_what_a_hub_sent_is_followed_when_it_has_another_name(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    head = world.propose(pi, sigma)
    pi.sync()
    pi.cn("send", "sigma", "question")
    sigma.sync()
    rename(pi, "pi", "py")
    told = pi.sync().stdout
    assert "gone" not in told
    assert "this hub is py now, and 2 branches are open with sigma under its former name pi" in told
    for view in ("status", "doctor"):
        assert "under its former name pi: pi/proposal, pi/question" in pi.cn(view).stdout
    pi.sync()
    assert (pi.root / ".git/cn" / NOTE).exists(), "told once, it keeps no sync busy"
    sigma.triage("pi/question", "do:reply:answer", "--body", "An answer.")
    sigma.triage("pi/proposal", "do:merge")
    sigma.process()
    assert is_in_main(sigma, head)
    told = pi.sync().stdout
    assert "sigma says pi/proposal is merged" in told
    assert "received sigma/answer" in told
    assert "deleted pi/proposal at sigma" in told
    pi.sync()
    assert "former name" not in pi.cn("status").stdout
    assert not world.has_branch(pi, sigma)


def test_by_pickup_what_came_under_the_former_name_is_not_gone(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, "pickup")
    head = world.propose(pi, sigma)
    sigma.sync()
    rename(sigma, "sigma", "tau")
    assert "gone" not in sigma.sync().stdout
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)


def test_what_was_addressed_to_another_name_is_let_in_when_the_hub_has_it(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    sigma.cn("send", "pi", "question")
    rename(pi, "pi", "pj")
    told = pi.sync(check=1).stderr
    assert "it is addressed to pi, and this hub is pj" in told
    rename(pi, "pj", "pi")
    assert "received sigma/question" in pi.sync().stdout
    assert "refused" not in pi.cn("status").stdout


def test_a_peer_that_has_another_name_is_not_added(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    refused = sigma.cn("peer", "add", "pii", pi.url, "--check", check=1)
    assert "calls itself pi: what is new to pii is refused there" in refused.stderr
    assert f"cn peer add pi {pi.url}" in refused.stderr
    sigma.cn("peer", "add", "pii", pi.url)
    assert "calls itself pi" in sigma.cn("doctor", "--full", check=1).stdout
    sigma.cn("peer", "add", "pi", pi.url, "--check")
    assert "pii and pi have the same URL" in sigma.cn("doctor").stdout


def test_a_fork_of_ours_is_a_pickup_peer_like_another(world: World, sigma: Node) -> None:
    """It has our hub file, and so our name."""
    fork = world.folder / "finn.git"
    git(world.folder, "clone", "--quiet", "--bare", str(sigma.home), str(fork))
    sigma.cn("peer", "add", "finn", fork, "--deliver", "pickup", "--check")
    person = clone(str(fork), world.folder / "finn")
    identify(person, "Finn")
    checkout(person, "idea", "main")
    commit(person, {"docs/idea.md": "idea\n"})
    push(person, str(fork), "idea:sigma/idea")
    said = sigma.sync().stdout
    assert "received finn/idea" in said
    assert "calls itself" not in said + sigma.cn("status").stdout + sigma.cn("doctor", "--full", check=None).stdout
    sigma.decide("finn/idea", "do:merge")
    assert "docs/idea.md" in paths(sigma.root, "main")


def test_this_hub_is_no_peer_of_its_own(sigma: Node) -> None:
    for words in ((), ("--deliver", "pickup")):
        told = sigma.cn("peer", "add", "me", sigma.url, *words, check=1).stderr
        assert "is this hub's own origin" in told


def renamed(world: World) -> tuple[Node, Node]:
    """A peer that sigma had to do with, and that has another name since its last run."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    world.propose(pi, sigma)
    pi.sync()
    sigma.sync()
    sigma.decide("pi/proposal", "delete:no")
    rename(pi, "pi", "py")
    pi.sync()
    return sigma, pi


def test_a_peer_that_changed_its_name_is_told_when_its_main_is_read(world: World) -> None:
    sigma, pi = renamed(world)
    assert "calls itself py" in sigma.sync().stdout
    assert "calls itself py" in sigma.cn("status").stdout
    rename(pi, "py", "pi")
    sigma.sync()
    assert "calls itself" not in sigma.cn("status").stdout


def test_the_doctor_says_once_that_a_peer_changed_its_name(world: World) -> None:
    sigma, _ = renamed(world)
    sigma.sync()
    assert sigma.cn("doctor", check=1).stdout.count("calls itself py") == 1
    assert sigma.cn("doctor", "--full", check=1).stdout.count("calls itself py") == 1
    sigma.cn("peer", "add", "py", world.nodes["pi"].url)
    told = " ".join(sigma.cn("doctor", check=1).stdout.split())
    assert "'cn peer remove pi' or 'cn peer remove py', whichever it is not called" in told


def test_what_was_to_be_done_about_a_peer_goes_with_it(world: World) -> None:
    sigma, _ = renamed(world)
    sigma.sync()
    assert "'cn peer remove pi'" in sigma.cn("status").stdout
    sigma.cn("peer", "remove", "pi")
    assert "cn peer remove" not in sigma.cn("status").stdout


def test_a_pinned_key_leaves_the_route_that_is_written(world: World, tmp_path: Path) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    world.propose(pi, sigma)
    sigma.sync()
    change_route(sigma)
    sigma.cn("peer", "key", "pi", f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA{'I' + 'A' * 43}")
    assert "deliver: pickup" in (sigma.root / "state/peers.md").read_text()


def test_what_is_open_and_holds_no_folder_of_ours_goes_to_another_mailbox_by_its_creator(world: World) -> None:
    """Who reads main's words may not push to a peer's branches, at hosts with rights for each."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    world.propose(pi, sigma)
    pi.cn("send", "sigma", "question")
    pi.sync()
    sigma.sync()
    box = bare(world.folder / "host/mailbox.git")
    git(sigma.root, "remote", "add", "box", str(box))
    sigma.configure("mailbox: box\n")
    sigma.sync()
    shown = " ".join(sigma.cn("status").stdout.split())
    assert "git push box" not in shown
    assert "pi writes the URL of that as our hub: in its state/peers.md; its cn brings there what it may" in shown
    text = (pi.root / "state/peers.md").read_text()
    pi.write({"state/peers.md": text.replace(sigma.url, str(box))}, "sigma moved")
    pi.sync()
    assert "pi/question" in branches(box)
    pi.cn("rebase", "sigma:proposal")
    sigma.sync()
    assert "box now" not in sigma.cn("status").stdout
    assert git(box, "log", "--all", "--oneline", "--", "threads", "logs", "state") == ""


def test_a_url_that_changed_has_no_failure_of_the_former_one(world: World) -> None:
    """As ``cn doctor`` tells: 'hub:' in state/peers.md, and a commit. The former one was left alone for an hour."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    sigma.sync()
    moved = pi.home.with_name("pi-moved.git")
    pi.home.rename(moved)
    sigma.cn("send", "pi", "hello", check=1)
    for _ in range(4):
        sigma.cn("peer", "sync", check=1)
    assert "next try in" in sigma.cn("status").stdout
    assert "if its hub moved, write 'hub: URL' for it in state/peers.md" in " ".join(
        sigma.cn("doctor", check=1).stdout.split()
    )
    text = (sigma.root / "state/peers.md").read_text()
    sigma.write({"state/peers.md": text.replace(str(pi.home), str(moved))}, "pi moved")
    shown = sigma.cn("status").stdout
    assert "unreachable" not in shown
    assert str(pi.home) not in shown
    assert "unreachable" not in sigma.cn("peer", "list").stdout
    assert str(pi.home) not in sigma.cn("doctor").stdout
    assert "✓ delivered sigma/hello at pi" in sigma.sync().stdout
    assert "sigma/hello" in branches(moved)
    assert sigma.outbox() == []


def test_what_was_sent_to_a_peer_of_another_name_is_not_adopted(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    sigma.cn("send", "pi", "note")
    sigma.cn("peer", "remove", "pi")
    sigma.cn("peer", "add", "pi2", pi.url)
    told = sigma.sync().stdout
    assert "sigma/note at pi2 is what was sent to pi, and is left there" in told
    assert "did not send" not in told


def test_what_is_open_is_not_gone_where_the_mailbox_is_another_remote_now(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    head = world.propose(pi, sigma)
    sigma.sync()
    box = bare(world.folder / "host/mailbox.git")
    git(sigma.root, "remote", "add", "box", str(box))
    sigma.configure("mailbox: box\n")
    told = sigma.sync().stdout
    assert "gone" not in told
    assert "the mailbox is box now, and was origin: what is open with pi is not there yet: pi/proposal" in told
    for view in ("status", "doctor"):
        shown = " ".join(sigma.cn(view).stdout.split())
        assert "git push box" not in shown, "it was made on main with the threads, as origin had it"
        assert "pi writes the URL of that as our hub: in its state/peers.md; the history of pi/proposal holds" in shown
        assert "'cn rebase sigma:proposal' there lays one upon what is" in shown
    assert "not there yet" not in sigma.sync().stdout, "it is told once"
    assert "gone" not in sigma.process().stdout, "nobody withdrew it"
    git(sigma.root, "push", "--quiet", "box", f"{head}:refs/heads/pi/proposal")
    sigma.sync()
    assert "not there yet" not in sigma.cn("status").stdout
    sigma.triage("pi/proposal", "do:merge")
    told = sigma.process().stderr
    assert not is_in_main(sigma, head)
    assert "rebase it on what is published" in told
    person = clone(str(box), world.folder / "person")
    identify(person, "Ada")
    git(person, "fetch", "--quiet", str(sigma.root), "refs/cn/pins/pi/in/proposal")
    git(person, "cherry-pick", "FETCH_HEAD")
    force_push(person, box, "HEAD:refs/heads/pi/proposal")
    sigma.sync()
    sigma.decide("pi/proposal", "do:merge")
    assert "docs/proposal.md" in paths(box, "main")
    assert "not published" not in sigma.cn("status").stdout


def test_what_the_new_mailbox_lost_is_not_told_as_at_the_former_one(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    world.propose(pi, sigma)
    sigma.sync()
    box = bare(world.folder / "host/mailbox.git")
    git(sigma.root, "remote", "add", "box", str(box))
    sigma.configure("mailbox: box\n")
    sigma.sync()
    person = clone(str(box), world.folder / "person")
    identify(person, "Ada")
    commit(person, {"docs/new.md": "new\n"})
    force_push(person, box, "HEAD:refs/heads/pi/new")
    later = {"PYTHONPATH": CLOCK, "TEST_CLOCK": "60"}
    assert "received pi/new" in sigma.cn("sync", env=later).stdout
    git(box, "update-ref", "-d", "refs/heads/pi/new")  # as a backup does that is older
    sigma.cn("sync", env=later)
    for view in ("status", "doctor"):
        shown = " ".join(sigma.cn(view).stdout.split())
        assert "what is open with pi is not there yet: pi/proposal" in shown
        assert "pi/new" not in shown.partition("was origin")[2].partition("pending")[0]
    sigma.cn("delete", "pi/proposal", env=later)
    assert "pi/new is gone: the branch is not listed any more" in sigma.cn("sync", env=later).stdout


def refuse(node: Node, prefix: str) -> None:
    """The host of a hub takes nothing under this prefix any more."""
    git(node.home, "config", "receive.hideRefs", f"refs/heads/{prefix}")


def at_rest(world: World, *nodes: Node) -> None:
    """Nothing lies anywhere or waits, and nothing is told as wrong."""
    world.settle(*nodes, rounds=6)
    for node in nodes:
        assert branches(node.home).keys() == {"main"}
        told = node.cn("status").stdout
        assert "!" not in told
        assert "waiting on" not in told
        assert "outbox" not in told


def test_what_was_decided_and_not_delivered_is_told_by_the_route_that_both_have_now(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    head = world.propose(pi, sigma)
    world.propose(pi, sigma, "other")
    pi.sync()
    sigma.sync()
    away = pi.home.rename(f"{pi.home}.away")
    sigma.triage("pi/proposal", "do:merge")
    sigma.triage("pi/other", "delete:no")
    sigma.process(check=1)
    assert len(sigma.outbox()) == 2
    away.rename(pi.home)
    change_route(sigma, pi)
    told = sigma.cn("peer", "sync").stdout
    assert "delivered pi/notice-proposal at origin" in told
    assert "gone" not in told, "it lies where it was made"
    told = pi.sync().stdout
    assert "sigma says pi/proposal is merged" in told
    assert "sigma says pi/other is discarded" in told
    assert "deleted pi/proposal at sigma" in told
    at_rest(world, sigma, pi)
    assert is_in_main(sigma, head)


@pytest.mark.parametrize("first", ["creator", "receiver"])
def test_what_was_on_its_way_when_both_changed_their_route_comes_in(world: World, route: str, first: str) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, route)
    head = world.propose(pi, sigma)
    pi.sync()
    pi.cn("send", "sigma", "question")
    for node in (pi, sigma) if first == "creator" else (sigma, pi):
        change_route(node)
        node.cn("sync", check=None)  # as long as the other has another route, it is named as that
    told = sigma.sync().stdout + pi.sync().stdout
    assert "adopted" not in told
    assert "gone" not in told
    assert len(sigma.threads()) == 2
    sigma.triage("pi/question", "do:reply:answer", "--body", "An answer.")
    sigma.decide("pi/proposal", "do:merge")
    assert is_in_main(sigma, head)
    told = pi.sync().stdout
    assert "received sigma/answer" in told
    assert "sigma says" in told
    pi.decide("sigma/answer", "delete:read")
    at_rest(world, sigma, pi)


def test_a_deletion_that_a_host_refuses_holds_up_no_other_route(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    sigma.cn("send", "pi", "note")
    pi.sync()
    refuse(pi, "sigma")
    pi.decide("sigma/note", "delete:read")
    sigma.sync(check=1)
    change_route(sigma, pi)
    told = sigma.sync(check=1).stderr
    assert "it was made by another route: where pi deletes sigma/note in its hub, that ends" in told
    assert "delivered pi/new at origin" in sigma.cn("send", "pi", "new", check=None).stdout
    assert "received sigma/new" in pi.sync().stdout
    assert "deletion of sigma/note" in (told := sigma.cn("status").stdout)
    assert "where pi deletes sigma/note in its hub, that ends" in told
    git(pi.home, "update-ref", "-d", "refs/heads/sigma/note")
    sigma.cn("outbox", "flush")
    assert sigma.outbox() == []
    git(pi.home, "config", "--unset", "receive.hideRefs")
    pi.decide("sigma/new", "delete:read")
    at_rest(world, sigma, pi)


def test_a_proposal_that_never_got_there_goes_by_the_new_route(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    person = world.person(pi, sigma)
    refuse(sigma, "pi")
    commit(person, {"docs/fix.md": "fix\n"}, "Fix")
    cn("propose", "fix", "sigma", hub=pi.root, cwd=person)
    assert len(pi.outbox()) == 1
    change_route(pi, sigma)
    assert "delivered sigma/fix at origin" in pi.cn("peer", "sync").stdout
    sigma.sync()
    git(sigma.home, "config", "--unset", "receive.hideRefs")
    sigma.decide("pi/fix", "do:merge")
    at_rest(world, pi, sigma)


def test_a_proposal_that_moves_stays_where_it_is(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    person = world.person(pi, sigma)
    commit(person, {"docs/fix.md": "fix\n"}, "Fix")
    cn("propose", "fix", "sigma", hub=pi.root, cwd=person, check=0)
    sigma.sync()
    change_route(pi, sigma)
    head = commit(person, {"docs/fix.md": "better\n"}, "Fix it better")
    assert "delivered pi/fix at sigma" in cn("propose", "fix", "sigma", hub=pi.root, cwd=person, check=0).stdout
    sigma.sync()
    sigma.decide("pi/fix", "do:merge")
    assert is_in_main(sigma, head)
    at_rest(world, pi, sigma)


def test_what_may_be_the_peers_is_not_adopted_while_its_hub_does_not_answer(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    pi.sync()
    head = world.propose(sigma, pi)
    sigma.sync()
    away = sigma.home.rename(f"{sigma.home}.away")
    change_route(pi)
    assert "adopted" not in pi.sync(check=1).stdout
    away.rename(sigma.home)
    change_route(sigma)
    assert "received sigma/proposal" in pi.cn("peer", "sync").stdout
    pi.decide("sigma/proposal", "do:merge")
    assert is_in_main(pi, head)
    at_rest(world, sigma, pi)


def test_nobody_ends_what_is_open_by_a_notice_where_it_was_made(world: World) -> None:
    """By pickup a notice of pi's lies in pi's hub: who writes sigma's mailbox is not pi."""
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    head = world.propose(sigma, pi)
    sigma.sync()
    pi.sync()
    change_route(sigma, pi)
    sigma.sync()
    pi.sync()
    about = About(Branch("sigma/proposal"), Oid(head), "discarded", None, "no")
    mail = Message("notice", Name("pi"), Name("sigma"), "sigma/proposal: discarded", NOW, "No.\n", about=about)
    forged = write_commit(sigma.home, {"message.md": format_message(mail)})
    git(sigma.home, "update-ref", "refs/heads/pi/notice-proposal", forged)
    told = sigma.sync(check=1).stderr
    assert "pi/notice-proposal at pi is pi's, made by the route mailbox: it is left alone" in told
    assert "and there too, but pi's main does not show that it made it" in told
    assert "sigma/proposal" in branches(pi.home)
    assert "no answer yet" in sigma.cn("status").stdout


def test_what_no_main_shows_comes_in_as_it_is_told(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi)
    change_route(sigma, pi)
    sigma.sync()
    mail = Message("message", Name("pi"), Name("sigma"), "hello", NOW, "Hello.\n")
    head = write_commit(sigma.home, {"message.md": format_message(mail)})
    git(sigma.home, "update-ref", "refs/heads/pi/hello", head)
    told = sigma.sync(check=1).stderr
    assert "it comes in when that shows it; or with mailbox here: then pickup can be written again" in told
    change_route(sigma)
    assert "received pi/hello" in sigma.sync().stdout
    change_route(sigma)
    told = sigma.sync().stdout
    assert "gone" not in told
    assert "what is open goes on by mailbox: pi/hello" in told
    assert "left alone" not in sigma.cn("status").stdout
    assert sigma.threads()


def test_a_branch_by_the_old_route_is_not_gone_where_its_place_does_not_answer(world: World) -> None:
    sigma, pi = world.hub("sigma"), world.hub("pi")
    world.link(sigma, pi, "pickup")
    world.propose(pi, sigma)
    sigma.sync()
    away = pi.home.rename(f"{pi.home}.away")
    change_route(sigma)
    assert "gone" not in sigma.sync(check=1).stdout
    away.rename(pi.home)
    change_route(pi)
    assert "gone" not in sigma.cn("peer", "sync").stdout
    assert len(sigma.threads()) == 1
